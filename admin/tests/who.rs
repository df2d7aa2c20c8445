//! What a search tells about holders and waiters.

use leasehold::Client;
use leasehold::inspect::Holder;
use leasehold_admin::Admin;
use leasehold_testbed::{Bed, KINDS, connected, eventually};
use tokio::task::JoinSet;

async fn billing(bed: &Bed) -> Client {
    connected(bed.builder().name("billing@pod-7").describe_holds()).await
}

fn key(name: &str) -> String {
    format!("leasehold_holders:{{{name}}}")
}

/// The first holder of a lock that is listed.
async fn listed(client: &Client, name: &str) -> Holder {
    let found = Admin::new(client).locks(name).await.unwrap();
    found[0].holders[0].clone()
}

pub(crate) async fn a_holder_is_listed_with_its_description(bed: Bed) {
    let (teller, other) = (billing(&bed).await, bed.client().await);
    for kind in KINDS.iter().filter(|kind| kind.is_single()) {
        let lock = kind.lock(&teller, kind.name);
        let guard = lock.acquire().purpose("nightly invoices").await.unwrap();
        eventually("described", async || {
            listed(&other, kind.name).await.held_for.is_some()
        })
        .await;
        let told = listed(&other, kind.name).await;
        assert_eq!(told.owner, guard.owner(), "{}", kind.name);
        assert_eq!(told.name.as_deref(), Some("billing@pod-7"), "{}", kind.name);
        assert_eq!(told.purpose.as_deref(), Some("nightly invoices"));
        guard.unlock().await.unwrap();
    }
}

/// Anybody may write to the key of the descriptions.
pub(crate) async fn foreign_text_is_not_listed(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let say = |text: &str| drop(bed.command(&["HSET", &key("x"), guard.owner(), text]));
    say("1\nbilling\nnightly");
    assert_eq!(listed(&client, "x").await.name.as_deref(), Some("billing"));
    say("1\nbilling\x1b[2J\nnight\nly");
    let told = listed(&client, "x").await;
    assert_eq!((told.name, told.purpose), (None, None));
    bed.command(&["DEL", &key("x")]);
    bed.command(&["SET", &key("x"), "no hash"]);
    assert_eq!(listed(&client, "x").await.name, None);
    guard.unlock().await.unwrap();
}

pub(crate) async fn many_readers_are_described_separately(bed: Bed) {
    let (teller, other) = (billing(&bed).await, bed.client().await);
    let read = |purpose: &str| {
        let (lock, purpose) = (teller.read_write_lock("x"), purpose.to_owned());
        async move { lock.read().acquire().purpose(purpose).await.unwrap() }
    };
    let mut guards = Vec::new();
    for number in 0..70 {
        guards.push(read(&format!("reader {number}")).await);
    }
    let told = async || {
        let found = Admin::new(&other).locks("x").await.unwrap();
        let told = |holder: &&Holder| holder.purpose.is_some();
        let holders = found[0]
            .holders
            .iter()
            .filter(told)
            .cloned()
            .collect::<Vec<_>>();
        for holder in &holders {
            let number = guards
                .iter()
                .position(|guard| guard.owner() == holder.owner)
                .unwrap();
            assert_eq!(holder.purpose, Some(format!("reader {number}")));
        }
        holders.len()
    };
    // As many as fit.
    eventually("64 are told", async || told().await == 64).await;
    assert_eq!(bed.number(&["HLEN", &key("x")]), 64);
    // Leaving readers make room.
    for guard in guards.drain(..60) {
        guard.unlock().await.unwrap();
    }
    let late = read("late").await;
    guards.push(late);
    let fields = || bed.number(&["HLEN", &key("x")]);
    eventually("those that left are forgotten", async || fields() <= 11).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn waiters_are_listed(bed: Bed) {
    let (client, other, third) = (bed.client().await, bed.client().await, bed.client().await);
    let (plain, fair) = (client.lock("plain"), client.fair_lock("fair"));
    let guards = [plain.lock().await.unwrap(), fair.lock().await.unwrap()];
    let mut tasks = JoinSet::new();
    for waiter in [&other, &other, &third] {
        for lock in [waiter.lock("plain"), waiter.fair_lock("fair")] {
            tasks.spawn(async move { lock.lock().await });
        }
    }
    let admin = Admin::new(&client);
    let waiting = async |name: &str| {
        let found = admin.locks(name).await.unwrap();
        (found[0].listening, found[0].queue)
    };
    // Each client listens once, however many of its tasks wait.
    eventually("two clients listen", async || {
        waiting("plain").await == (Some(2), 0)
    })
    .await;
    eventually("three are in the queue", async || {
        waiting("fair").await == (None, 3)
    })
    .await;
    tasks.shutdown().await;
    drop(guards);
}
