//! Threads and their process, observed in separate processes, because other tests have threads too.

use std::fs;
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
use std::thread;

use leasehold::blocking::Client;
use leasehold::{Error, LockGuard};
use leasehold_testbed::{SOON, Server, is_missing, ms, this_program, wait_until};

use crate::harness::{take, until_waiting};

const URL: &str = "LEASEHOLD_TEST_URL";

/// Runs one of the ignored tests below in its own process, with the output of this test.
fn ends(test: &str, url: &str) -> ExitStatus {
    let mut child = this_program(test).env(URL, url).spawn().expect("started");
    let mut status = None;
    let mut has_ended = |child: &mut Child| {
        status = child.try_wait().expect("it can be waited for");
        status.is_some()
    };
    wait_until("the process ends", SOON, || has_ended(&mut child));
    status.expect("it has ended")
}

#[test]
fn a_process_ends_though_threads_hold_and_wait() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    assert!(ends("process::leaves_a_hold_and_a_waiter", &server.url()).success());
    let exists = || server.command(&["EXISTS", "x"]).int() == 1;
    assert!(exists(), "nobody has released it");
    wait_until("its lease ends", SOON, || !exists());
}

/// The guard is in a static, so no drop releases it.
#[test]
#[ignore = "a_process_ends_though_threads_hold_and_wait starts it"]
fn leaves_a_hold_and_a_waiter() {
    static HELD: OnceLock<LockGuard> = OnceLock::new();
    let url = std::env::var(URL).expect("the server of the other test");
    let settings = leasehold::Client::builder(&url).lease(ms(3000));
    let client = Client::connect(settings.connect()).unwrap();
    HELD.set(take(&client, &client.lock("x")).unwrap()).unwrap();
    let waiter = client.clone();
    drop(thread::spawn(move || {
        waiter.block_on(waiter.lock("x").lock())
    }));
    until_waiting(&client, 1);
}

#[test]
#[cfg(target_os = "linux")]
fn no_thread_is_left() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    assert!(ends("process::leaves_no_thread", &server.url()).success());
}

#[test]
#[ignore = "no_thread_is_left starts it"]
fn leaves_no_thread() {
    let threads = || fs::read_dir("/proc/self/task").expect("Linux").count();
    let url = std::env::var(URL).expect("the server of the other test");
    let before = threads();
    let held = |client: Result<Client, Error>| {
        let client = client.unwrap();
        take(&client, &client.lock("x")).unwrap()
    };
    for _ in 0..3 {
        let on_a_server = held(Client::connect(leasehold::Client::connect(&url)));
        let embedded = async { Ok(leasehold::Client::embedded()) };
        let embedded = held(Client::connect(embedded));
        assert!(threads() > before);
        drop((on_a_server, embedded));
    }
    wait_until("their threads have ended", SOON, || threads() == before);
}
