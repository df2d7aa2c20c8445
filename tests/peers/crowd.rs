//! Many that enter by turns and count beside the lock; the drivers have the same.

use leasehold::Lock;
use leasehold_testbed::{Connection, Reply, Server, ms, soon};
use tokio::time::sleep;

/// Each of them enters so many times; panics if somebody else is inside.
pub(crate) async fn enter_all(
    locks: impl IntoIterator<Item = Lock>,
    outside: &Server,
    rounds: usize,
) {
    let enter = |lock| tokio::spawn(enter(lock, outside.connection(), rounds));
    let tasks: Vec<_> = locks.into_iter().map(enter).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn enter(lock: Lock, mut outside: Connection, rounds: usize) {
    for _ in 0..rounds {
        let guard = soon("its turn", lock.lock()).await.unwrap();
        assert_eq!(
            outside.command(&["INCR", "inside"]).unwrap().int(),
            1,
            "two inside"
        );
        let before = outside.command(&["GET", "entered"]).unwrap();
        let before = if before == Reply::Nil {
            0
        } else {
            before.int()
        };
        sleep(ms(1)).await;
        outside
            .command(&["SET", "entered", &(before + 1).to_string()])
            .unwrap();
        outside.command(&["DECR", "inside"]).unwrap();
        guard.unlock().await.unwrap();
    }
}

/// How often anybody entered.
pub(crate) fn entered(outside: &Server) -> i64 {
    outside.command(&["GET", "entered"]).int()
}
