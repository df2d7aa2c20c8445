//! The caller's runtime is blocked, and with it the connection that it drives.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use leasehold::{Client, LockGuard};
use leasehold_testbed::{Outside, Server, ms};

use crate::testbed::{builder, runtime, turn};

/// How long the runtime is blocked. Its connections are not moved before that.
const BLOCKED: Duration = Duration::from_secs(3);
/// Work that does not depend on the runtime is done within this time, even if the machine stalls.
const MEANWHILE: Duration = ms(2500);

/// More than can be in flight at once.
const UNDOS: usize = 400;

/// Drops a guard while the only worker of its runtime is blocked. Returns when the key is gone.
fn gone_while_blocked(
    take: impl AsyncFnOnce(Client) -> LockGuard,
    let_go: impl FnOnce(&Client, LockGuard) -> Option<LockGuard>,
) -> Duration {
    let _turn = turn();
    let server = Server::start();
    let mut outside = Outside::of(&server);
    let runtime = runtime(1);
    let (guard, client) = runtime.block_on(async {
        let client = builder(&server.url())
            .command_timeout(BLOCKED)
            .connect()
            .await;
        let client = client.expect("the server answers");
        (take(client.clone()).await, client)
    });
    let (blocked, is_blocked) = mpsc::channel();
    runtime.spawn(async move {
        blocked.send(Instant::now()).expect("somebody waits for it");
        std::thread::sleep(BLOCKED);
    });
    let since = is_blocked.recv().expect("the worker runs");
    let kept = {
        let _inside = runtime.enter();
        let_go(&client, guard)
    };
    while outside.exists("n") && since.elapsed() < BLOCKED {
        std::thread::sleep(ms(5));
    }
    let took = since.elapsed();
    drop((kept, client));
    took
}

/// Once, it took 7.8 s, because the release waited on the caller's lane.
#[test]
fn a_longest_hold_ends_under_a_blocked_runtime() {
    let take = async |client: Client| {
        client
            .lock("n")
            .acquire()
            .max_hold(ms(500))
            .await
            .expect("free")
    };
    let took = gone_while_blocked(take, |_client, guard| Some(guard));
    assert!(took < MEANWHILE, "{took:?}");
}

/// Once, releases for the other lane waited behind hundreds of undos that could not be sent.
#[test]
fn undos_that_cannot_be_sent_hold_up_no_release() {
    let take = async |client: Client| client.lock("n").lock().await.expect("free");
    let took = gone_while_blocked(take, |client, guard| {
        for number in 0..UNDOS {
            let lock = client.lock(format!("cancelled{number}"));
            assert!(
                lock.lock().now_or_never().is_none(),
                "nobody sends its call"
            );
        }
        drop(guard);
        None
    });
    assert!(took < MEANWHILE, "{took:?}");
}
