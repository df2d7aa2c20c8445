//! `deadlocks`: waiters of two clients that wait for each other. Each client stands for a process.

use std::sync::Arc;

use leasehold::{Client, Lock};
use leasehold_testbed::{Reply, wait_until};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::testbed::{LATE, Testbed, exit_code, stderr, stdout};

async fn named(url: &str, name: &str) -> Client {
    let builder = Client::builder(url).name(name).describe_holds();
    builder.connect().await.expect("connects")
}

async fn hold_and_wait(held: Lock, purpose: &str, wanted: Lock, both: &Barrier) {
    let outer = held.acquire().purpose(purpose).await.expect("free");
    both.wait().await;
    let inner = wanted.lock().await.expect("free in the end");
    drop((inner, outer));
}

#[test]
fn deadlocks_names_both_sides_and_break_ends_it() {
    let Some(bed) = Testbed::start() else { return };
    let none = bed.output(&["deadlocks"]);
    assert_eq!((exit_code(&none), &*stdout(&none)), (0, ""));
    assert!(stderr(&none).contains("no deadlock"), "{}", stderr(&none));

    let url = bed.server.url();
    let processes = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let (billing, shipping) = (named(&url, "billing").await, named(&url, "shipping").await);
            let both = Arc::new(Barrier::new(2));
            // In tasks of their own, because one task would wait for itself.
            let tasks = LocalSet::new();
            for (client, purpose, [held, wanted]) in [
                (billing, "nightly run", ["a", "b"]),
                (shipping, "export", ["b", "a"]),
            ] {
                let both = both.clone();
                tasks.spawn_local(async move {
                    let (held, wanted) = (client.lock(held), client.lock(wanted));
                    hold_and_wait(held, purpose, wanted, &both).await;
                });
            }
            tasks.await;
        });
    });
    let said = || {
        matches!(
            bed.server.command(&["HLEN", "leasehold_waits"]),
            Reply::Int(2)
        )
    };
    wait_until("both wait for long", LATE, said);
    let start = Instant::now();
    let found = bed.output(&["deadlocks", "--json"]);
    let took = start.elapsed();
    assert_eq!(exit_code(&found), 1, "{}", stderr(&found));
    let found: Value = serde_json::from_str(&stdout(&found)).expect("JSON");
    let waiters = found[0].as_array().expect("a deadlock");
    assert_eq!(
        (found.as_array().map(Vec::len), waiters.len()),
        (Some(1), 2)
    );
    for waiter in waiters {
        let expected = match waiter["name"].as_str() {
            Some("billing") => ["nightly run", "a", "b"],
            _ => ["export", "b", "a"],
        };
        let told = ["purpose", "holds", "waits_for"].map(|part| waiter[part].clone());
        assert_eq!(told, expected.map(|text| json!(text)));
    }
    println!("found in {took:?}");
    let table = bed.output(&["deadlocks"]);
    let table = stdout(&table);
    for part in ["billing", "nightly run", "shipping", "export", "WAITS FOR"] {
        assert!(table.contains(part), "{table}");
    }

    let owner = waiters[0]["owner"].as_str().expect("a text");
    let name = waiters[0]["holds"].as_str().expect("a text");
    let words = [
        "break", name, "--owner", owner, "--yes", "--reason", "deadlock",
    ];
    let broken = bed.output(&words);
    assert_eq!(exit_code(&broken), 0, "{}", stderr(&broken));
    processes.join().expect("both have ended");
    let none = bed.output(&["deadlocks", "--json"]);
    assert_eq!((exit_code(&none), stdout(&none).trim()), (0, "[]"));
}
