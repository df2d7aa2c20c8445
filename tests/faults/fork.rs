//! A process that forks while it has a client, a hold and a waiter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Outside, Server, eventually_within, preload, take_and_release};
use tokio::runtime::Builder;

use crate::testbed::{alone, builder, child, connect, runtime};

const LIMIT: Duration = Duration::from_secs(60);
const CHILD: &str = "fork::process_that_forks";

/// Once, the child hung in `try_lock`, or released the lock that its parent held.
#[test]
fn a_fork_of_a_client_fails_and_takes_nothing_from_its_parent() {
    alone(LIMIT, async {
        let server = Server::start();
        let folder = std::env::temp_dir().join(format!("leasehold-fork-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let library = folder.join("fork.so");
        preload::compile(concat!(env!("CARGO_MANIFEST_DIR"), "/fork.c"), &library);
        let process = child(
            CHILD,
            &[
                (preload::VARIABLE, library.display().to_string()),
                ("LEASEHOLD_CHILD_URL", server.url()),
            ],
        );
        process.finish();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(Outside::of(&server).keys(), 0);
    });
}

/// The process of the test above, and its fork.
#[test]
#[ignore = "a child of another test"]
fn process_that_forks() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    let runtime = runtime(2);
    let client = runtime.block_on(connect(&url));
    let held = runtime.block_on(client.lock("held").lock()).expect("free");
    let dropped = runtime
        .block_on(client.lock("dropped").lock())
        .expect("free");
    let lock = client.lock("held");
    let waiter = runtime.spawn(async move { lock.lock().await });
    runtime.block_on(eventually_within(LIMIT, "queued", async || {
        client.stats().waiting == 1
    }));
    // Forks, see `fork.c`. The parent continues when the child has ended.
    let ended_well = match std::os::unix::process::parent_id() {
        0 => {
            let forked = AssertUnwindSafe(|| in_the_fork(&url, &client, held, dropped));
            // Exit instead of returning, because the thread of the test harness does not exist
            // here.
            std::process::exit(i32::from(catch_unwind(forked).is_err()));
        }
        ended => ended == 1,
    };
    assert!(ended_well, "the fork failed, or was ended as it hung");
    runtime.block_on(async {
        assert_eq!(
            client.stats().reconnects,
            0,
            "nobody else spoke on its connections"
        );
        dropped.unlock().await.expect("held all the time");
        held.unlock().await.expect("held all the time");
        let next = waiter.await.expect("no panic").expect("handed over");
        next.unlock().await.expect("held");
        client.shutdown(LIMIT).await.expect("all released");
    });
}

fn is_refused<T: std::fmt::Debug>(what: &str, outcome: &Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Forked)), "{what}: {outcome:?}");
}

fn in_the_fork(url: &str, client: &Client, held: LockGuard, dropped: LockGuard) {
    // The threads of the parent's runtime do not exist here.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        is_refused("a free lock", &client.lock("free").lock().await);
        is_refused(
            "with a wait",
            &client
                .fair_lock("free")
                .try_lock(LIMIT, Lease::Renewed)
                .await,
        );
        // The parent's waiter is ahead.
        is_refused(
            "a lock that is waited for",
            &client.lock("held").lock().await,
        );
        is_refused(
            "several",
            &Lock::multi(["a", "b"].map(|name| client.lock(name)))
                .lock()
                .await,
        );
        is_refused("a further guard", &held.reenter().await);
        is_refused("a question", &client.lock("held").is_locked().await);
        is_refused("a number", &client.semaphore("s").try_set_permits(1).await);
        is_refused("an extension", &held.extend(LIMIT).await);
        is_refused("an unlock", &dropped.unlock().await);
        is_refused("a shutdown", &client.shutdown(LIMIT).await);
        // Otherwise the lock would be handed over to a waiter that does not exist here.
        drop(held);
        let own = builder(url).connect().await.expect("the server answers");
        for name in ["held", "dropped"] {
            let locked = own.lock(name).try_lock_now(Lease::Renewed).await;
            assert!(
                locked.is_err_and(|error| error.is_timeout()),
                "its parent holds {name}"
            );
        }
        take_and_release(&own.lock("free")).await;
        own.shutdown(LIMIT).await.expect("all released");
    });
}
