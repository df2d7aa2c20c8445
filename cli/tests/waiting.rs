//! What a run does and says while it waits.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use leasehold_testbed::wait_until;
use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::testbed::{LATE, Runner, Testbed, assert_output, bare, exit_code, stderr};

/// A runner whose standard error can be read while it runs.
struct Told {
    text: Arc<Mutex<String>>,
    runner: Runner,
}

impl Told {
    fn by(mut runner: Runner) -> Told {
        let text = Arc::<Mutex<String>>::default();
        let (mut errors, told) = (runner.take_stderr(), text.clone());
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = errors.read(&mut bytes) {
                told.lock()
                    .expect("no panic")
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Told { text, runner }
    }

    fn text(&self) -> String {
        self.text.lock().expect("no panic").clone()
    }

    fn wait_for(&self, part: &str) {
        wait_until(&format!("it says {part:?}"), LATE, || {
            self.text().contains(part)
        });
    }
}

#[test]
fn a_run_connects_again_within_its_wait() {
    let Some(mut bed) = Testbed::start() else {
        return;
    };
    bed.server.kill();
    let began = Instant::now();
    let output = bed.output(&["run", "job", "--wait", "1s", "--", "echo", "ran"]);
    assert_output(&output, 122, "");
    assert!(began.elapsed() >= Duration::from_secs(1));

    let told = Told::by(bed.run(&["job", "--wait", "60s"], "exit 3"));
    told.wait_for("waiting for `job`: redis is not available");
    bed.server.restart();
    assert_eq!(told.runner.end().0, 3);

    bed.server.kill();
    let began = Instant::now();
    let output = bed.output(&["ls", "--connect-timeout", "500ms"]);
    assert_eq!(exit_code(&output), 122, "{}", stderr(&output));
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn a_run_that_waits_says_once_for_whom() {
    let Some(bed) = Testbed::start() else { return };
    let holder = bed.run(
        &["job", "--as", "pod-7", "--purpose", "nightly"],
        "cat; exit 0",
    );
    wait_until("held", LATE, || bed.is_held("job"));
    let quick = bed.output(&["run", "job", "--wait", "500ms", "--", "true"]);
    assert!(!stderr(&quick).contains("waiting"), "{}", stderr(&quick));
    let told = Told::by(bed.run(&["job"], "true"));
    told.wait_for("waiting for `job`: held by pod-7 (nightly)");
    assert!(told.text().contains("left of its lease"), "{}", told.text());
    let verbose = Told::by(bed.run(&["job", "--verbose"], "true"));
    verbose.wait_for("held by pod-7 (nightly)");
    holder.signal(Signal::SIGTERM);
    holder.end();
    // The holder ends and the lock goes to one waiter, then to the other.
    verbose.wait_for("acquired `job` after");
    assert_eq!(told.runner.end().0, 0);
    assert_eq!(verbose.runner.end().0, 0);
    let text = told.text.lock().expect("no panic").clone();
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// The release of the run before has begun the lease, which is short until the first renewal.
#[test]
fn a_run_that_was_given_its_lock_has_a_whole_lease() {
    let Some(bed) = Testbed::start() else { return };
    for kind in ["lock", "fair"] {
        let job = ["job", "--kind", kind];
        let holder = bed.run(&job, "cat");
        wait_until("held", LATE, || bed.is_held("job"));
        let told = Told::by(bed.run(&job, "exit 7"));
        told.wait_for("waiting for `job`");
        assert_eq!(holder.end().0, 0);
        let text = told.text.clone();
        assert_eq!(told.runner.end().0, 7, "{kind}: {:?}", text.lock());
    }
}

#[test]
fn a_run_that_waits_for_a_permit_says_so() {
    let Some(bed) = Testbed::start() else { return };
    let holder = bed.run(&["job", "--permits", "1"], "cat");
    wait_until("held", LATE, || bed.is_held("leasehold_semaphore:{job}"));
    let told = Told::by(bed.run(&["job", "--permits", "1"], "true"));
    told.wait_for("waiting for `job`: 0 of 1 permits are available");
    assert_eq!(holder.end().0, 0);
    assert_eq!(told.runner.end().0, 0);
}

/// A server that answers the handshake and then closes the connection at the first call about the
/// lock.
fn closing_server(bed: &Testbed, stop: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (server, stop) = (bed.server.port(), stop.clone());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if stop.load(Relaxed) {
                return;
            }
            thread::spawn(move || forward_until_call(client, server));
        }
    });
    port
}

fn forward_until_call(mut client: std::net::TcpStream, server: u16) {
    use std::io::Write as _;
    let Ok(mut server) = std::net::TcpStream::connect(("127.0.0.1", server)) else {
        return;
    };
    let (Ok(mut replies), Ok(mut back)) = (server.try_clone(), client.try_clone()) else {
        return;
    };
    thread::spawn(move || std::io::copy(&mut replies, &mut back));
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let is_call = bytes[..count].windows(3).any(|word| word == b"job");
        if is_call || server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(client.shutdown(std::net::Shutdown::Both));
    drop(server.shutdown(std::net::Shutdown::Both));
}

#[test]
fn a_run_that_gets_no_answer_says_so() {
    let Some(bed) = Testbed::start() else { return };
    let stop = Arc::<AtomicBool>::default();
    let url = format!("redis://127.0.0.1:{}", closing_server(&bed, &stop));
    let words = ["run", "job", "--url", &url, "--", "true"];
    let told = Told::by(Runner::start(&mut bare(&words)));
    told.wait_for("waiting for `job`: ");
    assert!(!told.text().contains("held by"), "{}", told.text());
    told.runner.signal(Signal::SIGTERM);
    assert_eq!(told.runner.end().0, 128 + 15);
    stop.store(true, Relaxed);
}
