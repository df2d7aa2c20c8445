//! A client whose runtime nobody drives any more, used by threads that have timers of their own.

use std::future::ready;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
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

type Call = fn(leasehold::Client) -> BoxFuture<'static, Result<(), Error>>;

/// On a server, the connections move to the library's thread after some seconds, and calls succeed.
fn each_ends(bed: &Bed, calls: &[(&str, Call)]) {
    let (_runtime, client) = client(bed);
    let threads = Client::connect(ready(Ok(client.clone()))).unwrap();
    for (number, (what, call)) in calls.iter().enumerate() {
        let (threads, call) = (threads.clone(), call(client.clone()));
        let outcome = outcome(what, move || threads.block_on(call));
        if bed.is_embedded() || number == 0 {
            let text = outcome.expect_err(what).to_string();
            assert!(text.contains("does not run"), "{what}: {text}");
        }
    }
}

/// Takes a lock within the bound.
async fn taken(lock: Lock) -> Result<(), Error> {
    lock.try_lock(WAIT, Lease::Renewed).await.map(drop)
}

pub(crate) fn an_acquisition_ends_within_its_bound(bed: &Bed) {
    each_ends(
        bed,
        &[
            ("try_lock", |client| taken(client.lock("x")).boxed()),
            ("try_lock_now", |client| {
                async move {
                    client
                        .lock("x")
                        .try_lock_now(Lease::Renewed)
                        .await
                        .map(drop)
                }
                .boxed()
            }),
            ("run", |client| {
                async move {
                    let lock = client.lock("x");
                    lock.run(WAIT, Lease::Renewed, async |_| ()).await
                }
                .boxed()
            }),
            ("fair", |client| taken(client.fair_lock("f")).boxed()),
            ("string", |client| taken(client.string_lock("t")).boxed()),
            ("permits", |client| {
                async move {
                    let permits = client.semaphore("s").with_limit(1);
                    permits.try_acquire(1, WAIT).await.map(drop)
                }
                .boxed()
            }),
            ("permits with ids", |client| {
                async move {
                    let permits = client.permit_expirable_semaphore("p").with_limit(1);
                    let permit = permits.try_acquire(1, WAIT, Lease::Renewed).await;
                    permit.map(drop)
                }
                .boxed()
            }),
            ("latch", |client| {
                async move { client.count_down_latch("l").wait(WAIT).await }.boxed()
            }),
            ("multi", |client| {
                taken(Lock::multi(["a", "b"].map(|name| client.lock(name)))).boxed()
            }),
            ("quorum", |client| {
                let members = ["c", "d", "e"].map(|name| client.lock(name));
                taken(Lock::quorum(members)).boxed()
            }),
        ],
    );
}

pub(crate) fn a_question_ends_within_its_bound(bed: &Bed) {
    each_ends(
        bed,
        &[
            ("is_locked", |client| {
                async move { client.lock("x").is_locked().await.map(drop) }.boxed()
            }),
            ("ping", |client| async move { client.ping().await }.boxed()),
            ("force_unlock", |client| {
                async move { client.lock("x").force_unlock("a test").await.map(drop) }.boxed()
            }),
            ("count_down", |client| {
                async move { client.count_down_latch("l").count_down().await.map(drop) }.boxed()
            }),
            ("set_permits", |client| {
                async move { client.semaphore("s").try_set_permits(1).await.map(drop) }.boxed()
            }),
            ("shutdown", |client| {
                async move { client.shutdown(WAIT).await }.boxed()
            }),
        ],
    );
}

pub(crate) fn a_guard_ends_within_its_bound(bed: &Bed) {
    let (runtime, client) = client(bed);
    let guards = ["x", "y", "z"].map(|name| runtime.block_on(client.lock(name).lock()).unwrap());
    let [released, entered, extended] = guards;
    let threads = Client::connect(ready(Ok(client))).unwrap();
    let wait = |what, call: BoxFuture<'static, Result<(), Error>>| {
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
