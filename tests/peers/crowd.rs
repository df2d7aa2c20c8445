//! Many tasks that take turns and count while they hold the lock. The drivers of the other
//! libraries do the same.

use leasehold::Lock;
use leasehold_testbed::{Connection, Reply, Server, ms, soon};
use tokio::time::sleep;

/// Each task enters this many times. Panics if another one is inside.
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
        let guard = soon("granted", lock.lock()).await.unwrap();
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

/// The number of all entries.
pub(crate) fn entered(outside: &Server) -> i64 {
    outside.command(&["GET", "entered"]).int()
}
