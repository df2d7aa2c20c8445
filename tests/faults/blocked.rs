//! The caller's runtime stands still, and with it the connection that it drives.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use leasehold::{Client, LockGuard};

use crate::bed::{Outside, connect, ms, runtime, turn};
use crate::support::server::Server;

/// The runtime stands still for so long: sooner its connections are not moved elsewhere.
const BLOCKED: Duration = Duration::from_secs(3);
/// What does not depend on the runtime is done long before that.
const MEANWHILE: Duration = ms(1500);

/// The only worker of a runtime is blocked once `prepare` has a guard; when is its key gone?
fn gone_while_blocked(
    prepare: impl AsyncFnOnce(&Client) -> LockGuard,
    let_go: impl FnOnce(LockGuard) -> Option<LockGuard>,
) -> Duration {
    let _turn = turn();
    let server = Server::start();
    let mut outside = Outside::of(&server);
    let runtime = runtime(1);
    let (guard, client) = runtime.block_on(async {
        let client = connect(&server.url()).await;
        (prepare(&client).await, client)
    });
    let (blocked, is_blocked) = mpsc::channel();
    runtime.spawn(async move {
        blocked.send(Instant::now()).expect("somebody waits for it");
        std::thread::sleep(BLOCKED);
    });
    let since = is_blocked.recv().expect("the worker runs");
    let kept = let_go(guard);
    while outside.exists("n") && since.elapsed() < BLOCKED {
        std::thread::sleep(ms(5));
    }
    let took = since.elapsed();
    drop((kept, client));
    took
}

/// It took 7.8 s: its release waited on the caller's lane.
#[test]
fn a_longest_hold_ends_under_a_blocked_runtime() {
    let prepare =
        async |client: &Client| client.lock("n").acquire().max_hold(ms(500)).await.expect("free");
    let took = gone_while_blocked(prepare, Some);
    assert!(took < MEANWHILE, "{took:?}");
}

/// Releases that need the other lane stood behind hundreds of undos that could not be sent.
#[test]
fn undos_that_cannot_be_sent_hold_up_no_release() {
    let prepare = async |client: &Client| {
        let guard = client.lock("n").lock().await.expect("free");
        for number in 0..400 {
            let lock = client.lock(format!("cancelled{number}"));
            assert!(lock.lock().now_or_never().is_none(), "its call is on the way");
        }
        guard
    };
    let took = gone_while_blocked(prepare, |guard| {
        // From a thread of its own, without a runtime.
        std::thread::spawn(|| drop(guard)).join().expect("no panic");
        None
    });
    assert!(took < MEANWHILE, "{took:?}");
}
