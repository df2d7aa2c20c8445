//! Blocking calls on threads that poll futures are refused before anything is sent. On other
//! threads they work.

use std::any::Any;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use leasehold::Lease;
use leasehold::blocking::Client;
use leasehold_testbed::{Bed, Place, SOON};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::harness::{client, take, unlock};

fn runtimes() -> [Runtime; 2] {
    let builders = [Builder::new_current_thread(), Builder::new_multi_thread()];
    builders.map(|mut builder| builder.enable_all().build().unwrap())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the panic is to stay in a task of its own"
)]
fn in_a_task<T: Send + 'static>(
    runtime: &Runtime,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<dyn Any + Send>> {
    let task = async { tokio::spawn(async { call() }).await };
    runtime
        .block_on(task)
        .map_err(tokio::task::JoinError::into_panic)
}

fn says_why<T>(refused: Result<T, Box<dyn Any + Send>>) {
    let panic = refused.map(|_| ()).expect_err("it is refused");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    let text = text.expect("a text");
    assert!(
        text.contains("Cannot start a runtime from within a runtime"),
        "{text}"
    );
}

type Call = fn(&Client);

/// Calls of a client, and its shutdown.
const CALLS: [Call; 3] = [
    |client| drop(client.block_on(client.lock("x").lock())),
    |client| drop(client.block_on(client.ping())),
    |client| drop(client.shutdown(SOON)),
];

pub(crate) fn a_call_in_a_task_panics_and_sends_nothing(bed: &Bed) {
    let client = client(bed);
    let sent = bed.calls();
    for runtime in runtimes() {
        for call in CALLS {
            let client = client.clone();
            says_why(in_a_task(&runtime, move || call(&client)));
        }
    }
    assert_eq!(bed.calls(), sent);
    assert_eq!(client.stats().waiting, 0);
}

pub(crate) fn a_call_in_a_future_that_is_blocked_on_panics_and_sends_nothing(bed: &Bed) {
    let client = client(bed);
    let sent = bed.calls();
    for runtime in runtimes() {
        let call = || runtime.block_on(async { client.block_on(client.lock("x").lock()) });
        says_why(catch_unwind(AssertUnwindSafe(call)));
        let connect = || runtime.block_on(async { Client::connect(bed.builder().connect()) });
        says_why(catch_unwind(AssertUnwindSafe(connect)));
    }
    let nested = || client.block_on(async { client.block_on(client.lock("x").lock()) });
    says_why(catch_unwind(AssertUnwindSafe(nested)));
    assert_eq!(bed.calls(), sent);
}

/// A client on a server keeps its connections when its runtime ends. A client of the embedded
/// engine ends with the runtime.
pub(crate) fn the_runtime_of_an_async_client_may_end(bed: &Bed) {
    let holder = client(bed);
    for runtime in runtimes() {
        let client = runtime.block_on(bed.builder().connect()).unwrap();
        let client = Client::connect(ready(Ok(client))).unwrap();
        let guard = take(&holder, &holder.lock("x")).unwrap();
        thread::scope(|scope| {
            let waiting = scope
                .spawn(|| client.block_on(client.lock("x").try_lock(SOON * 10, Lease::Renewed)));
            // A single-threaded runtime drives nothing while nobody blocks on it.
            runtime.block_on(async {
                while client.stats().waiting == 0 {
                    tokio::task::yield_now().await;
                }
            });
            let ended = Instant::now();
            // Ends all threads of the runtime, which would otherwise serve the waiter for a moment
            // more.
            runtime.shutdown_timeout(SOON);
            unlock(&holder, guard);
            let waited = waiting.join().unwrap();
            assert!(ended.elapsed() < SOON, "{:?}", ended.elapsed());
            match &bed.place {
                Place::Server(..) => unlock(&client, waited.expect("it gets the lock")),
                Place::Embedded(_) => drop(waited.expect_err("nothing answers any more")),
            }
        });
    }
}
