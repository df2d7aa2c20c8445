//! Which sections the running future is inside, whatever happens to the sections and to other
//! futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::holds;
use crate::{Client, LockGuard};

fn inside() -> Vec<String> {
    holds()
        .iter()
        .map(|hold| hold.resource.name.to_string())
        .collect()
}

async fn hold(client: &Client, name: &str) -> LockGuard {
    client.lock(name).lock().await.expect("free")
}

/// Asserts that it is inside `names` and nothing else, over many awaits.
async fn is_inside(names: &[&str]) {
    for _ in 0..3 {
        assert_eq!(inside(), names);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(inside(), names);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_ends_the_section() {
    let client = Client::embedded();
    let (a, b) = (hold(&client, "a").await, hold(&client, "b").await);
    let outer = a.run(async {
        let panics = b.run(async {
            is_inside(&["b", "a"]).await;
            panic!("as intended");
        });
        let ended = AssertUnwindSafe(panics).catch_unwind().await;
        assert!(ended.is_err());
        is_inside(&["a"]).await;
        // Two nested sections are left in the same poll.
        let both = AssertUnwindSafe(a.run(b.run(async { panic!("as intended") })));
        assert!(both.catch_unwind().await.is_err());
        is_inside(&["a"]).await;
    });
    outer.await.unwrap();
    is_inside(&[]).await;
}

/// The stack of sections is also right while a panic unwinds.
#[test]
fn a_section_is_left_while_the_thread_unwinds() {
    struct Looks(usize);

    impl Drop for Looks {
        fn drop(&mut self) {
            assert_eq!(super::SECTIONS.with_borrow(Vec::len), self.0);
        }
    }

    let unwound = catch_unwind(|| {
        let _outside = Looks(0);
        let _outer = super::enter(&[].into());
        let _between = Looks(1);
        let _inner = super::enter(&[].into());
        let _inside = Looks(2);
        panic!("as intended");
    });
    assert!(unwound.is_err());
    drop(Looks(0));
}

#[tokio::test(start_paused = true)]
async fn sections_side_by_side_end_in_any_order() {
    let client = Client::embedded();
    let (a, b, c) = (
        hold(&client, "a").await,
        hold(&client, "b").await,
        hold(&client, "c").await,
    );
    for [first, second] in [[1, 20], [20, 1]] {
        let wait = |span| sleep(Duration::from_millis(span));
        let one = a.run(async {
            b.run(async {
                is_inside(&["b", "a"]).await;
                wait(first).await;
                is_inside(&["b", "a"]).await;
            })
            .await
            .unwrap();
            wait(first).await;
            is_inside(&["a"]).await;
        });
        let other = c.run(async {
            a.run(async {
                wait(second).await;
                is_inside(&["a", "c"]).await;
            })
            .await
            .unwrap();
            is_inside(&["c"]).await;
            wait(second).await;
            is_inside(&["c"]).await;
        });
        let (one, other, ()) = tokio::join!(one, other, is_inside(&[]));
        one.unwrap();
        other.unwrap();
        // One section is dropped between two polls of the other.
        let kept = b.run(async {
            wait(3).await;
            is_inside(&["b"]).await;
        });
        let dropped = tokio::time::timeout(Duration::from_millis(1), a.run(wait(1000)));
        let (kept, dropped) = tokio::join!(kept, dropped);
        kept.unwrap();
        assert!(dropped.is_err());
    }
}

/// Two tasks on one thread. One of them is inside a section and polls the other.
#[tokio::test(start_paused = true)]
async fn tasks_that_are_polled_inside_are_not_inside() {
    let client = Client::embedded();
    let (a, b) = (hold(&client, "a").await, hold(&client, "b").await);
    let tasks = LocalSet::new();
    let work = tasks.run_until(async {
        let task = spawn_local(async move {
            b.run(is_inside(&["b"])).await.unwrap();
            is_inside(&[]).await;
        });
        is_inside(&["a"]).await;
        task.await.unwrap();
        is_inside(&["a"]).await;
    });
    a.run(work).await.unwrap();
    is_inside(&[]).await;
}
