//! A client whose runtime nobody drives any more, used by threads that have timers of their own.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use leasehold::blocking::Client;
use leasehold::{Error, Lease, Lock};
use leasehold_testbed::{Bed, SOON, connected, ms};
use tokio::runtime::{Builder, Runtime};

/// The wait of a call, and the timeout of a command.
const WAIT: Duration = ms(1000);
/// Several of them, on a machine that is busy.
const BOUND: Duration = SOON;

/// A client that was made on a runtime of one thread, which has left it.
fn client(bed: &Bed) -> (Runtime, leasehold::Client) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let settings = bed.builder().command_timeout(WAIT);
    let client = runtime.block_on(connected(settings));
    (runtime, client)
}

/// The outcome of a call, which must end within the bound.
fn outcome<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, ended) = channel();
    drop(thread::spawn(move || sender.send(call())));
    let ended = ended.recv_timeout(BOUND);
    ended.unwrap_or_else(|_| panic!("not within {BOUND:?}: {what}"))
}

type Call = fn(&Client) -> Result<(), Error>;

/// On a server, the connections move to the library's thread after some seconds, and calls succeed.
fn each_ends(bed: &Bed, calls: &[(&str, Call)]) {
    let (_runtime, client) = client(bed);
    let client = Client::new(client).unwrap();
    for (number, (what, call)) in calls.iter().enumerate() {
        let (client, call) = (client.clone(), *call);
        let outcome = outcome(what, move || call(&client));
        if bed.is_embedded() || number == 0 {
            let text = outcome.expect_err(what).to_string();
            assert!(text.contains("does not run"), "{what}: {text}");
        }
    }
}

pub(crate) fn an_acquisition_ends_within_its_bound(bed: &Bed) {
    each_ends(
        bed,
        &[
            ("try_lock", |client| {
                client.lock("x").try_lock(WAIT, Lease::Renewed).map(drop)
            }),
            ("try_lock_now", |client| {
                client.lock("x").try_lock_now(Lease::Renewed).map(drop)
            }),
            ("a short wait", |client| {
                client.lock("x").try_lock(ms(50), Lease::Renewed).map(drop)
            }),
            ("run", |client| {
                client.lock("x").run(WAIT, Lease::Renewed, |_| ())
            }),
            ("fair", |client| {
                client
                    .fair_lock("f")
                    .try_lock(WAIT, Lease::Renewed)
                    .map(drop)
            }),
            ("string", |client| {
                client
                    .string_lock("t")
                    .try_lock(WAIT, Lease::Renewed)
                    .map(drop)
            }),
            ("permits", |client| {
                let permits = client.semaphore("s").with_limit(1);
                permits.try_acquire(1, WAIT).map(drop)
            }),
            ("permits with ids", |client| {
                let permits = client.permit_expirable_semaphore("p").with_limit(1);
                permits.try_acquire(1, WAIT, Lease::Renewed).map(drop)
            }),
            ("latch", |client| client.count_down_latch("l").wait(WAIT)),
            ("multi", |client| {
                let members = ["a", "b"].map(|name| client.as_async().lock(name));
                let lock = client.blocking_lock(Lock::multi(members));
                lock.try_lock(WAIT, Lease::Renewed).map(drop)
            }),
            ("quorum", |client| {
                let members = ["c", "d", "e"].map(|name| client.as_async().lock(name));
                let lock = client.blocking_lock(Lock::quorum(members));
                lock.try_lock(WAIT, Lease::Renewed).map(drop)
            }),
        ],
    );
}

pub(crate) fn a_question_ends_within_its_bound(bed: &Bed) {
    each_ends(
        bed,
        &[
            ("is_locked", |client| client.lock("x").is_locked().map(drop)),
            ("ping", Client::ping),
            ("locks", |client| client.locks("*").map(drop)),
            ("deadlocks", |client| client.deadlocks().map(drop)),
            ("force_unlock", |client| {
                client.lock("x").force_unlock("a test").map(drop)
            }),
            ("count_down", |client| {
                client.count_down_latch("l").count_down().map(drop)
            }),
            ("set_permits", |client| {
                client.semaphore("s").try_set_permits(1).map(drop)
            }),
            ("shutdown", |client| client.shutdown(WAIT)),
        ],
    );
}

pub(crate) fn a_preflight_ends_within_its_bound(bed: &Bed) {
    let (_runtime, client) = client(bed);
    let threads = Client::new(client.clone()).unwrap();
    let preflight = move || threads.block_on(client.preflight());
    drop(outcome("preflight", preflight));
}

pub(crate) fn a_guard_ends_within_its_bound(bed: &Bed) {
    let (runtime, client) = client(bed);
    let guards = ["x", "y", "z"].map(|name| runtime.block_on(client.lock(name).lock()).unwrap());
    let [released, entered, extended] = guards;
    let threads = Client::new(client).unwrap();
    let wait = |what, call: futures::future::BoxFuture<'static, Result<(), Error>>| {
        let threads = threads.clone();
        let error = outcome(what, move || threads.block_on(call));
        let text = error.err().map(|error| error.to_string());
        if bed.is_embedded() {
            assert!(
                text.is_some_and(|text| text.contains("does not run")),
                "{what}"
            );
        }
    };
    wait("unlock", Box::pin(released.unlock()));
    wait(
        "reenter",
        Box::pin(async move { entered.reenter().await.map(drop) }),
    );
    wait(
        "extend",
        Box::pin(async move { extended.extend(WAIT * 60).await.map(drop) }),
    );
}
