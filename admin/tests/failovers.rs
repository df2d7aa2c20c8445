//! What preflight says about failovers compared with the lease, and a search, on real sentinels and
//! a real cluster.

use std::time::Duration;

use leasehold::Client;
use leasehold_admin::preflight::{Preflight, Requirements, Severity};
use leasehold_admin::{Admin, Refusal, Unmet};
use leasehold_testbed::{Cluster, LIMIT, MASTER, Reply, Sentinels, Shape, connected, eventually};

const LEASE: Duration = Duration::from_secs(30);

async fn admin_of(url: &str, lease: Duration) -> Admin {
    let builder = Client::builder(url).lease(lease).connect_timeout(LIMIT);
    Admin::new(&connected(builder).await)
}

async fn report(url: &str, lease: Duration) -> Preflight {
    let admin = admin_of(url, lease).await;
    admin.preflight().uses([]).await.expect("answered")
}

fn told(report: &Preflight, severity: Severity, part: &str) -> bool {
    report
        .findings()
        .iter()
        .any(|found| found.severity == severity && found.text.contains(part))
}

/// The findings about failovers.
fn of_failovers(report: &Preflight) -> Vec<&str> {
    let texts = report.findings().iter().map(|found| found.text.as_str());
    texts
        .filter(|text| text.contains("a failover takes") || text.contains("a failover ne"))
        .collect()
}

/// What is missing for a failover within the lease.
async fn missing(url: &str, lease: Duration) -> Vec<String> {
    let requirements = Requirements::new().failover_within_lease();
    let required = admin_of(url, lease).await.require(&requirements).await;
    match required.err() {
        None => Vec::new(),
        Some(Refusal::Unmet { unmet }) => {
            let text = |Unmet {
                            server,
                            requirement,
                            found,
                            ..
                        }: &_| {
                assert_eq!(requirement, "failover within the lease");
                format!("{server}: {found}")
            };
            unmet.iter().map(text).collect()
        }
        Some(other) => vec![other.to_string()],
    }
}

/// On every sentinel, because each has its own settings.
fn set(sentinels: &Sentinels, setting: &str, value: &str) {
    for sentinel in sentinels.sentinels() {
        let reply = sentinel.command(&["SENTINEL", "SET", MASTER, setting, value]);
        assert_eq!(reply, Reply::Status("OK".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_notice_late_are_compared_with_the_lease() {
    let sentinels = Sentinels::start();
    set(&sentinels, "down-after-milliseconds", "500");
    let url = sentinels.url();
    let good = report(&url, LEASE).await;
    assert_eq!(of_failovers(&good), Vec::<&str>::new(), "{good}");
    let line = "sentinels 3/3, quorum 2, down-after-milliseconds 500, failover-timeout 2000";
    assert!(good.to_string().contains(line), "{good}");
    assert_eq!(missing(&url, LEASE).await, Vec::<String>::new());

    // The same failover is too long for a shorter lease.
    let short = Duration::from_secs(3);
    let bad = report(&url, short).await;
    let words = "a failover takes about 3.5s (down-after-milliseconds is 500), and holds with a \
        lease of 3.0s";
    assert!(told(&bad, Severity::Warning, words), "{bad}");
    assert!(told(&bad, Severity::Info, "is retried after 4.0s"), "{bad}");
    let too_long = "the sentinels: takes about 3.5s, and a hold has 2.0s left";
    assert_eq!(missing(&url, short).await, [too_long]);

    set(&sentinels, "down-after-milliseconds", "30000");
    set(&sentinels, "failover-timeout", "180000");
    let bad = report(&url, LEASE).await;
    let words = "a failover takes about 33.0s (down-after-milliseconds is 30000)";
    assert!(told(&bad, Severity::Warning, words), "{bad}");
    assert!(
        told(&bad, Severity::Info, "is retried after 360.0s"),
        "{bad}"
    );
    assert!(bad.to_string().contains(words), "{bad}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_sentinels_are_reported() {
    let mut sentinels = Sentinels::start();
    let url = sentinels.url();
    set(&sentinels, "quorum", "3");
    let all = report(&url, LEASE).await;
    assert!(
        told(
            &all,
            Severity::Info,
            "a failover needs all 3 sentinels that are up"
        ),
        "{all}"
    );
    assert_eq!(missing(&url, LEASE).await, Vec::<String>::new());

    set(&sentinels, "quorum", "4");
    let never = report(&url, LEASE).await;
    let words = "3 of 3 sentinels are up, and a failover needs 4";
    assert!(told(&never, Severity::Warning, words), "{never}");
    let unmet = "the sentinels: 3 sentinels are up, and a failover needs 4";
    assert_eq!(missing(&url, LEASE).await, [unmet]);

    // Two of three are gone. One is no majority, whatever the quorum is.
    set(&sentinels, "quorum", "1");
    assert_eq!(of_failovers(&report(&url, LEASE).await), Vec::<&str>::new());
    sentinels.kill_sentinel(0);
    sentinels.kill_sentinel(1);
    eventually("the third one notices", async || {
        let words = "1 of 3 sentinels are up, and a failover needs 2";
        told(&report(&url, LEASE).await, Severity::Warning, words)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_do_not_tell_are_not_taken_for_good_ones() {
    let sentinels = Sentinels::start();
    let admin = admin_of(&sentinels.url(), LEASE).await;
    for sentinel in sentinels.sentinels() {
        sentinel.pause();
    }
    let report = admin
        .preflight()
        .uses([])
        .await
        .expect("the primary answers");
    for sentinel in sentinels.sentinels() {
        sentinel.resume();
    }
    for part in [
        "down-after-milliseconds is unknown",
        "enough sentinels are up is unknown",
    ] {
        assert!(told(&report, Severity::Warning, part), "{report}");
    }
    assert!(
        report.to_string().contains("sentinels ?/?, quorum ?"),
        "{report}"
    );

    // A user that may only ask for the primary.
    let user =
        "ACL SETUSER some on >secret resetchannels &+switch-master -@all +hello +ping +subscribe";
    let words = [user, "+sentinel|master", "+sentinel|sentinels"].join(" ");
    let words: Vec<_> = words.split(' ').collect();
    for sentinel in sentinels.sentinels() {
        assert_eq!(sentinel.command(&words), Reply::Status("OK".into()));
    }
    let url = format!(
        "{}?sentinel_user=some&sentinel_password=secret",
        sentinels.url()
    );
    let unmet = missing(&url, LEASE).await;
    assert_eq!(unmet, ["the sentinels: unknown: no sentinel reports it"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_timeout_of_a_cluster_is_compared_with_the_lease() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let url = cluster.url();
    let good = report(&url, LEASE).await;
    assert!(!good.to_string().contains("sentinels"), "{good}");
    assert_eq!(of_failovers(&good), Vec::<&str>::new(), "{good}");
    assert_eq!(missing(&url, LEASE).await, Vec::<String>::new());

    // One node is enough, because some locks are on it.
    let slow = cluster.node(1);
    slow.command(&["CONFIG", "SET", "cluster-node-timeout", "15000"]);
    let bad = report(&url, LEASE).await;
    let words = "a failover takes about 24.5s (cluster-node-timeout is 15000), and holds with a \
        lease of 30.0s";
    assert!(told(&bad, Severity::Warning, words), "{bad}");
    assert_eq!(of_failovers(&bad).len(), 1, "{bad}");
    let unmet = missing(&url, LEASE).await;
    let found = format!(
        ":{}: takes about 24.5s, and a hold has 20.0s left",
        slow.port()
    );
    assert!(unmet.len() == 1 && unmet[0].ends_with(&found), "{unmet:?}");
    assert_eq!(missing(&url, LEASE * 2).await, Vec::<String>::new());

    // Without a right to CONFIG GET.
    for node in cluster.nodes() {
        let words = [
            "ACL", "SETUSER", "some", "on", ">secret", "~*", "&*", "+@all", "-config",
        ];
        assert_eq!(node.command(&words), Reply::Status("OK".into()));
    }
    let url = url.replace("://", "://some:secret@");
    let hidden = report(&url, LEASE).await;
    let words = "cluster-node-timeout is unknown: this user may not run CONFIG GET";
    assert!(told(&hidden, Severity::Info, words), "{hidden}");
    let unmet = missing(&url, LEASE).await;
    assert_eq!(unmet.len(), cluster.shards(), "{unmet:?}");
    assert!(
        unmet.iter().all(|text| text.contains("no right to see it")),
        "{unmet:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_reaches_all_masters() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let client = connected(Client::builder(&cluster.url()).connect_timeout(LIMIT)).await;
    let admin = Admin::new(&client);
    let mut names = [0, 1, 2].map(|shard| cluster.name_in(shard, "orders"));
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).lock().await.expect("free"));
    }
    let found = admin.locks("orders*").await.expect("an answer");
    let keys: Vec<_> = found.iter().map(|lock| lock.key.clone()).collect();
    names.sort();
    assert_eq!(keys, names);
    for guard in guards {
        guard.unlock().await.expect("held");
    }
    assert!(admin.locks("orders*").await.expect("an answer").is_empty());
}
