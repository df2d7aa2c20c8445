//! Lost replies in every deployment.

use std::time::Duration;

use leasehold::{Client, HoldState, Lease};
use leasehold_testbed::{
    Cluster, Deployment, KINDS, LIMIT, Sentinels, Server, eventually, holds, take_and_release,
};
use tokio::time::timeout;

/// The end of a lease frees nothing within a test.
const LONG: Duration = Duration::from_secs(300);

/// The kinds that have their own acquire scripts.
const SORTS: [&str; 5] = ["lock", "fair", "fenced", "string", "write"];

/// One reply is lost. The library may report that, or continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Patient,
    /// Its wait is over before the reply could come.
    Hurried,
}

/// A known complaint: a script whose reply was lost is sent again, the hold counts two, and its
/// release leaves one.
async fn is_counted_once(deployment: &Deployment) {
    let line = deployment.line();
    let builder = Client::builder(line.url())
        .lease(LONG)
        .connect_timeout(LIMIT);
    let builder = builder.command_timeout(Duration::from_millis(500));
    let client = builder.connect().await.expect("connects");
    let exists = |name: &str| deployment.command(&["EXISTS", name]).int() == 1;
    for kind in KINDS.iter().filter(|kind| SORTS.contains(&kind.name)) {
        // Load the script on the server of the slot.
        let warm = kind.lock(&client, &format!("{{{}}}:warm", kind.name));
        take_and_release(&warm).await;
        for caller in [Caller::Patient, Caller::Hurried] {
            let name = format!("{{{}}}:{caller:?}", kind.name);
            line.swallow_replies();
            let lock = kind.lock(&client, &name);
            let taking = tokio::spawn({
                let lock = lock.clone();
                let wait = if caller == Caller::Patient {
                    LIMIT
                } else {
                    Duration::ZERO
                };
                async move { lock.try_lock(wait, Lease::Renewed).await }
            });
            if caller == Caller::Hurried {
                // Granted all the same, and undone soon afterwards.
                let unknown = taking.await.expect("no panic").expect_err("no reply");
                assert!(unknown.may_be_held(), "{name}: {unknown:?}");
                line.pass();
            } else {
                eventually("granted", async || exists(&name)).await;
                line.pass();
                let guard = timeout(LIMIT, taking)
                    .await
                    .expect("in time")
                    .expect("no panic");
                let guard = guard.expect("its own grant");
                assert_eq!(guard.state(), HoldState::Held);
                if kind.counted {
                    assert_eq!(holds(&lock).await.expect("an answer"), 1, "{name}");
                    let count = deployment.command(&["HGET", &name, guard.owner()]);
                    let once = count.text() == "1" || count.text() == "1;0;";
                    assert!(once, "{name}: one execution counts");
                }
                guard.unlock().await.expect("held");
            }
            eventually("one release frees it", async || !exists(&name)).await;
            let other = Client::connect(&deployment.url()).await.expect("connects");
            let other = kind
                .lock(&other, &name)
                .try_lock(LIMIT, Lease::Renewed)
                .await;
            other.expect("free").unlock().await.expect("held");
        }
    }
    eventually("all settled", async || client.stats().holds == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_server_is_no_second_hold() {
    is_counted_once(&Deployment::Server(Box::new(Server::start()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_cluster_is_no_second_hold() {
    is_counted_once(&Deployment::Cluster(Box::new(Cluster::start()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_behind_sentinels_is_no_second_hold() {
    is_counted_once(&Deployment::Sentinels(Box::new(Sentinels::start()))).await;
}
