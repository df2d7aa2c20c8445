//! Many that enter by turns and count beside the lock, on a server that takes no part in locking.

use leasehold::{Lock, LockGuard};
use tokio::time::sleep;

use crate::{Connection, Reply, Server, ms, soon};

/// Lets a task of each lock enter this many times, each time as `take` says; panics if two are
/// inside.
pub async fn enter_all<F>(
    locks: impl IntoIterator<Item = Lock>,
    outside: &Server,
    rounds: usize,
    take: impl Fn(Lock) -> F + Clone + Send + 'static,
) where
    F: Future<Output = LockGuard> + Send + 'static,
{
    let enter = |lock| tokio::spawn(enter(lock, outside.connection(), rounds, take.clone()));
    let tasks: Vec<_> = locks.into_iter().map(enter).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

async fn enter<F: Future<Output = LockGuard>>(
    lock: Lock,
    mut outside: Connection,
    rounds: usize,
    take: impl Fn(Lock) -> F,
) {
    let mut ask = |words: &[&str]| outside.command(words).expect("a reply");
    for _ in 0..rounds {
        let guard = soon("its turn", take(lock.clone())).await;
        assert_eq!(ask(&["INCR", "inside"]).int(), 1, "two inside");
        // A step that a second one inside would undo.
        let before = match ask(&["GET", "entered"]) {
            Reply::Nil => 0,
            number => number.int(),
        };
        sleep(ms(1)).await;
        guard.check().expect("it is held");
        ask(&["SET", "entered", &(before + 1).to_string()]);
        ask(&["DECR", "inside"]);
        guard.unlock().await.expect("it is held");
    }
}

/// How often anybody entered.
pub fn entered(outside: &Server) -> i64 {
    outside.command(&["GET", "entered"]).int()
}
