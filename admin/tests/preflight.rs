//! Preflight reports what a deployment gives, and less than required is refused.

use std::time::Duration;

use leasehold::settings::Durability;
use leasehold::{Client, EmbeddedRedis, Error};
use leasehold_admin::preflight::{
    CheckedServer, Persistence, Preflight, Requirements, Severity, Use,
};
use leasehold_admin::{Admin, Refusal, Unmet};
use leasehold_testbed::{
    Cluster, Outside, Reply, Sentinels, Server, Shape, connected, eventually_within, ms, rule,
};

use crate::testbed::{LATE, admin_of, beside, builder};

const LIMIT: Duration = Duration::from_secs(30);

/// The only server of the report.
fn only_server(report: &Preflight) -> CheckedServer {
    let mut servers = report.servers();
    let only = servers.next().expect("there is one");
    assert!(servers.next().is_none(), "{report}");
    only
}

/// Asserts that the report prints this.
fn prints(report: &Preflight, part: &str) {
    let text = report.to_string();
    assert!(text.contains(part), "{part}: {text}");
}

/// True if there is a finding of this severity with this text.
fn tells(report: &Preflight, severity: Severity, part: &str) {
    let told = report
        .findings()
        .iter()
        .any(|found| found.severity == severity && found.text.contains(part));
    assert!(told, "{severity} {part}: {report}");
}

/// What is unknown or not met, as `requirement: found`.
async fn refused(url: &str, requirements: Requirements) -> Vec<String> {
    match admin_of(url).await.require(&requirements).await {
        Err(Refusal::Unmet { unmet }) => {
            let text = |Unmet {
                            requirement, found, ..
                        }: &_| format!("{requirement}: {found}");
            unmet.iter().map(text).collect()
        }
        other => panic!("expected a refusal: {other:?}"),
    }
}

async fn accepted(url: &str, requirements: Requirements) {
    let required = admin_of(url).await.require(&requirements).await;
    required.expect("it gives all of it");
}

/// The major version, if the user may see it.
fn major(report: &Preflight) -> Option<u32> {
    let version = only_server(report).version?;
    Some(version.split('.').next()?.parse().expect("a number"))
}

/// Servers report a user's rights since 7.0.
fn tells_rights(report: &Preflight) -> bool {
    major(report) >= Some(7)
}

/// The rights that the user lacks, as the finding lists them.
fn missing(report: &Preflight) -> Vec<&str> {
    let texts = report.findings().iter().map(|finding| &*finding.text);
    let lists = texts.filter_map(|text| text.strip_prefix("this user has no right to: "));
    let lists = lists.map(|list| list.split_once("; checked for").expect("the key follows").0);
    lists.flat_map(|list| list.split(", ")).collect()
}

/// A user with the documented rights for plain locks, changed by some words.
fn user(server: &Server, changes: &[&str]) -> String {
    let rule = [&rule("locks")[..], changes].concat();
    assert!(matches!(
        Outside::of(server).command(&rule),
        Reply::Status(_)
    ));
    server.url().replace("redis://", "redis://locks:secret@")
}

#[test]
fn a_server_without_persistence_is_reported() {
    beside(LIMIT, async {
        let started = Server::start();
        let admin = admin_of(&started.url()).await;
        let report = admin.preflight().await.expect("answered");

        let found = only_server(&report);
        assert_eq!(
            found.server,
            format!("redis://127.0.0.1:{}", started.port())
        );
        assert!(
            major(&report) >= Some(6) && found.error.is_none(),
            "{report}"
        );
        assert!(found.round_trip.is_some_and(|trip| !trip.is_zero()));
        for part in [
            "primary, replicas 0/0, min-replicas-to-write 0, maxmemory 0 noeviction",
            "persistence none, round trip ",
            "ms, clock ",
        ] {
            prints(&report, part);
        }
        if tells_rights(&report) {
            assert_eq!(missing(&report), Vec::<&str>::new());
        }
        tells(&report, Severity::Warning, "a restart loses everything");
        for part in [
            "Exclusion survives:",
            "failovers: there are none",
            "all locks are free",
        ] {
            prints(&report, part);
        }
        assert!(!report.to_string().contains("Not known"), "{report}");
    });
}

#[test]
fn preflight_costs_the_documented_commands_and_writes_nothing() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let client = connected(builder(&server.url())).await;
        let admin = Admin::new(&client);
        let report = admin.preflight().await.expect("answered");
        let commands = [
            "ping",
            "time",
            "role",
            "config|get",
            "eval",
            "pubsub|shardnumsub",
            "wait",
        ];
        // Redis 6.2 counts a subcommand under its command.
        let counted = commands.map(|command| match command.split_once('|') {
            Some((whole, _)) if !tells_rights(&report) => whole,
            _ => command,
        });
        let before = counted.map(|command| outside.calls(command));
        admin.preflight().await.expect("answered");
        let after = counted.map(|command| outside.calls(command));
        let sent: Vec<_> = before
            .iter()
            .zip(after)
            .map(|(before, after)| after - before)
            .collect();
        // Probes of the connections are PINGs as well.
        // Messages within a shard are remembered.
        assert_eq!(sent[1..], [1, 1, 4, 1, 0, 1]);
        assert!(sent[0] >= 5);
        assert_eq!(outside.keys(), 0);
        client.shutdown(LATE).await.expect("no key left");
        let refused = admin.preflight().await;
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    });
}

#[test]
fn eviction_is_a_danger_and_may_be_refused() {
    beside(LIMIT, async {
        let server =
            Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
        let report = admin_of(&server.url())
            .await
            .preflight()
            .await
            .expect("answered");
        assert_eq!(report.worst(), Some(Severity::Danger));
        tells(&report, Severity::Danger, "allkeys-lru evicts locks");
        let broken_by = report.broken_by().join("\n");
        assert!(
            broken_by.contains("eviction: maxmemory-policy allkeys-lru"),
            "{report}"
        );

        let requirements = Requirements::new().no_eviction();
        assert_eq!(
            refused(&server.url(), requirements.clone()).await,
            ["no eviction: allkeys-lru"]
        );
        Outside::of(&server).command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        accepted(&server.url(), requirements).await;
    });
}

#[test]
fn a_loss_by_a_restart_is_reported_and_may_be_refused() {
    beside(LIMIT, async {
        let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let url = server.url();
        let admin = admin_of(&url).await;
        let report = admin.preflight().await.expect("answered");
        prints(&report, "persistence appendfsync always");
        let survives = report.survives().join("\n");
        assert!(
            survives.contains("appendfsync always keeps what it confirmed"),
            "{report}"
        );
        accepted(&url, Requirements::new().persistence(Persistence::Always)).await;

        let mut outside = Outside::of(&server);
        outside.command(&["CONFIG", "SET", "appendfsync", "everysec"]);
        let report = admin.preflight().await.expect("answered");
        let broken_by = report.broken_by().join("\n");
        assert!(
            broken_by.contains("everysec loses up to about a second"),
            "{report}"
        );
        accepted(
            &url,
            Requirements::new().persistence(Persistence::EverySecond),
        )
        .await;
        let unmet = refused(&url, Requirements::new().persistence(Persistence::Always));
        assert_eq!(
            unmet.await,
            ["persistence: appendfsync everysec instead of appendfsync always"]
        );

        outside.command(&["CONFIG", "SET", "appendonly", "no"]);
        outside.command(&["CONFIG", "SET", "save", "3600 1"]);
        let report = admin.preflight().await.expect("answered");
        prints(&report, "persistence snapshots");
    });
}

#[test]
fn what_the_user_may_not_see_is_unknown_and_not_met() {
    beside(LIMIT, async {
        let server = Server::start();
        let url = user(&server, &[]);
        let report = admin_of(&url).await.preflight().await.expect("answered");
        let found = only_server(&report);
        assert_eq!(found.version, None);
        assert!(found.round_trip.is_some_and(|trip| !trip.is_zero()));
        prints(
            &report,
            "?, role ?, replicas ?/?, min-replicas-to-write ?, maxmemory ? ?, persistence ?",
        );
        assert!(!report.to_string().contains(", clock "), "{report}");
        tells(&report, Severity::Warning, "is unknown");
        assert_eq!(report.not_known().len(), 2, "{report}");

        let requirements = Requirements::new()
            .no_eviction()
            .replicas(1)
            .min_replicas_to_write(1)
            .persistence(Persistence::Snapshots)
            .min_version(6, 2);
        let unmet = refused(&url, requirements).await;
        assert_eq!(unmet.len(), 5, "{unmet:?}");
        assert!(
            unmet.iter().all(|text| text.contains("no right to see it")),
            "{unmet:?}"
        );

        // INFO without CONFIG GET, as on many managed servers.
        let url = user(&server, &["+info"]);
        let report = admin_of(&url).await.preflight().await.expect("answered");
        prints(
            &report,
            "replicas 0/0, min-replicas-to-write ?, maxmemory 0 noeviction, persistence ?",
        );
        accepted(&url, Requirements::new().no_eviction().min_version(6, 2)).await;
    });
}

#[test]
fn the_documented_rights_are_all_that_is_asked_for() {
    beside(LIMIT, async {
        let server = Server::start();
        let admin = admin_of(&user(&server, &[])).await;
        let of_lock = || admin.preflight().uses([Use::Lock]).name("orders:1");
        let report = of_lock().await.expect("answered");
        let is_unknown = |text: &str| text.starts_with("the rights of this user are unknown");
        if report
            .findings()
            .iter()
            .any(|found| is_unknown(&found.text))
        {
            // Redis 6.2.
            tells(&report, Severity::Info, "from Redis 7.0 on");
            return;
        }
        assert_eq!(missing(&report), Vec::<&str>::new());
        let report = admin
            .preflight()
            .uses([Use::FencedLock])
            .name("orders:1")
            .await;
        let report = report.expect("answered");
        assert_eq!(
            missing(&report),
            ["get", "incr", "the key redisson_lock_token:{orders:1}"]
        );
        prints(&report, "this user may not use: fenced lock");
        // A name for which the user has no rights.
        let report = admin.preflight().uses([Use::Lock]).await.expect("answered");
        let channel = "redisson_lock__channel:{preflight}";
        let of_channel = ["publish", "subscribe"].map(|command| format!("{command} {channel}"));
        assert_eq!(missing(&report)[0], "the key preflight");
        assert_eq!(missing(&report)[1..], of_channel);

        let mut outside = Outside::of(&server);
        outside.command(&rule("kinds"));
        let all = server.url().replace("redis://", "redis://kinds:secret@");
        let admin = admin_of(&all).await;
        let report = admin.preflight().name("orders:1").await.expect("answered");
        assert_eq!(missing(&report), Vec::<&str>::new(), "{report}");
    });
}

#[test]
fn rights_that_are_missing_are_named_and_may_be_refused() {
    beside(LIMIT, async {
        let server = Server::start();
        let report = admin_of(&server.url())
            .await
            .preflight()
            .await
            .expect("answered");
        let requirements = || Requirements::new().rights_for([Use::Lock], "orders:1");
        let url = user(&server, &["-publish", "-hexists"]);
        if !tells_rights(&report) {
            let unmet = refused(&url, requirements()).await;
            assert!(unmet[0].starts_with("rights: unknown"), "{unmet:?}");
            return;
        }
        let lacks = "hexists, publish redisson_lock__channel:{orders:1}";
        assert_eq!(
            refused(&url, requirements()).await,
            [format!("rights: none to {lacks}")]
        );
        let report = admin_of(&url)
            .await
            .preflight()
            .uses([Use::Lock])
            .name("orders:1")
            .await;
        tells(&report.expect("answered"), Severity::Danger, lacks);

        let url = user(&server, &["+publish", "+hexists"]);
        let wanting = connected(builder(&url).durability(Durability::replicas(1))).await;
        let wanting = Admin::new(&wanting);
        let report = wanting.preflight().uses([Use::Lock]).name("orders:1").await;
        assert_eq!(missing(&report.expect("answered")), ["wait"]);

        let url = user(&server, &["-eval"]);
        assert_eq!(
            refused(&url, requirements()).await,
            ["rights: none to eval"]
        );
        let url = user(&server, &["+eval"]);
        accepted(&url, requirements()).await;
        // Rights that are not required do not matter.
        accepted(&url, Requirements::new()).await;
    });
}

#[test]
fn a_replica_that_is_silent_does_not_count() {
    beside(LIMIT * 2, async {
        let primary = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
        let port = primary.port().to_string();
        let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
        let admin = admin_of(&primary.url()).await;
        let in_step = async || {
            let report = admin.preflight().uses([Use::Lock]).await.expect("answered");
            (report.to_string(), report)
        };
        let wait = async |wanted: usize| loop {
            let (text, report) = in_step().await;
            if text.contains(&format!("replicas {wanted}/1")) {
                return report;
            }
            tokio::time::sleep(ms(50)).await;
        };
        let report = wait(1).await;
        tells(&report, Severity::Warning, "min-replicas-to-write is 0");
        let broken_by = report.broken_by().join("\n");
        assert!(
            broken_by.contains("replication is asynchronous (replicas: 1)"),
            "{report}"
        );

        let requirements = || Requirements::new().replicas(1).min_replicas_to_write(1);
        assert_eq!(
            refused(&primary.url(), requirements()).await,
            ["min-replicas-to-write: 0"]
        );
        Outside::of(&primary).command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        accepted(&primary.url(), requirements()).await;
        assert_eq!(
            refused(&primary.url(), Requirements::new().replicas(2)).await,
            ["replicas: 1 of 2 in step"]
        );

        let wanting = builder(&primary.url()).durability(Durability::replicas(2));
        let wanting = Admin::new(&connected(wanting).await);
        let report = wanting.preflight().await.expect("answered");
        tells(
            &report,
            Severity::Danger,
            "1 replicas are in step, and the durability of this client asks for 2",
        );

        replica.pause();
        let report = wait(0).await;
        let address = format!("replica 127.0.0.1:{} was silent for", replica.port());
        tells(&report, Severity::Warning, &address);
        tells(&report, Severity::Danger, "or will soon");
        assert_eq!(
            refused(&primary.url(), requirements()).await,
            ["replicas: 0 of 1 in step"]
        );
        replica.resume();
        wait(1).await;

        // A replica takes no locks.
        let admin = admin_of(&replica.url()).await;
        let report = admin.preflight().uses([Use::Lock]).await.expect("answered");
        prints(&report, "replica, replicas ");
        tells(&report, Severity::Danger, "it is a replica");
    });
}

#[test]
fn an_unreachable_server_is_reported_separately() {
    beside(LIMIT, async {
        let mut started = Server::start();
        let admin = admin_of(&started.url()).await;
        started.kill();
        let report = admin
            .preflight()
            .await
            .expect("that is no error of the whole");
        let found = only_server(&report);
        assert!(
            matches!(found.error, Some(Error::Unavailable { .. })),
            "{found:?}"
        );
        tells(&report, Severity::Danger, "it did not answer");
        assert!(report.to_string().contains("not reached"), "{report}");
        assert_eq!(report.not_known().len(), 1, "{report}");

        let unreached = Client::builder(&started.url())
            .connect_in_background()
            .await;
        let unreached = Admin::new(&unreached.expect("it connects later"));
        match unreached.require(&Requirements::new()).await {
            Err(Refusal::Unmet { unmet }) => assert_eq!(unmet[0].requirement, "reachable"),
            other => panic!("expected a refusal: {other:?}"),
        }
    });
}

#[test]
fn each_node_of_a_cluster_is_looked_at() {
    beside(LIMIT, async {
        let timeout = ["--cluster-node-timeout", "20000"];
        let server = Server::start_with(&[&["--cluster-enabled", "yes"][..], &timeout].concat());
        let mut outside = Outside::of(&server);
        let words: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let slots = words.iter().map(String::as_str);
        let add: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect();
        outside.command(&add);
        eventually_within(LIMIT, "the cluster is there", async || {
            outside
                .command(&["CLUSTER", "INFO"])
                .text()
                .contains("cluster_state:ok")
        })
        .await;
        let url = format!("redis-cluster://127.0.0.1:{}", server.port());
        let report = admin_of(&url).await.preflight().await.expect("answered");
        tells(&report, Severity::Info, "cluster-require-full-coverage yes");
        tells(&report, Severity::Warning, "cluster-node-timeout is 20000");
        tells(&report, Severity::Warning, "use a longer lease");
        tells(&report, Severity::Warning, "it has no replica");
        if tells_rights(&report) {
            assert_eq!(missing(&report), Vec::<&str>::new());
        }

        let requirements = || Requirements::new().partial_coverage();
        assert_eq!(
            refused(&url, requirements()).await,
            ["partial coverage: cluster-require-full-coverage yes"]
        );
        outside.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        accepted(&url, requirements()).await;

        if tells_rights(&report) {
            let in_cluster = "+cluster|slots +cluster|info +pubsub|shardnumsub +spublish \
                +ssubscribe +sunsubscribe";
            let rights: Vec<_> = in_cluster.split(' ').collect();
            user(&server, &rights);
            let limited = url.replace("://", "://locks:secret@");
            let all = Requirements::new().rights_for([Use::Lock], "orders:1");
            accepted(&limited, all.clone()).await;
            user(&server, &["-spublish"]);
            let lacks = "spublish redisson_lock__channel:{orders:1}";
            assert_eq!(
                refused(&limited, all).await,
                [format!("rights: none to {lacks}")]
            );
        }
    });
}

#[test]
fn a_node_that_is_frozen_costs_the_report_of_the_others_nothing() {
    beside(LIMIT, async {
        let cluster = Cluster::start_with(Shape {
            replicas: 0,
            ..Shape::default()
        });
        // The frozen node is noticed within the test.
        let client = Client::builder(&cluster.url()).connect_timeout(LATE * 4);
        let admin = Admin::new(&connected(client).await);
        let report = admin.preflight().uses([Use::Lock]).await.expect("answered");
        assert_eq!(report.servers().count(), cluster.shards(), "{report}");
        assert!(
            report.servers().all(|server| server.error.is_none()),
            "{report}"
        );

        let frozen = cluster.master(0);
        cluster.pause(frozen);
        let report = admin
            .preflight()
            .uses([Use::Lock])
            .await
            .expect("the others answer");
        cluster.resume(frozen);
        let port = format!(":{}", cluster.node(frozen).port());
        for server in report.servers() {
            assert_eq!(
                server.error.is_some(),
                server.server.ends_with(&port),
                "{report}"
            );
        }
        tells(&report, Severity::Danger, "it did not answer");
        let silent = &report.not_known()[0];
        assert!(silent.ends_with(&port), "{report}");
    });
}

#[test]
fn behind_sentinels_the_primary_is_looked_at() {
    beside(LIMIT, async {
        let sentinel = Sentinels::start();
        let report = admin_of(&sentinel.url())
            .await
            .preflight()
            .await
            .expect("answered");
        let primary = sentinel.server(sentinel.current_master()).port();
        let found = only_server(&report);
        assert!(found.server.contains(&primary.to_string()), "{report}");
        let replicas = sentinel.servers().len() - 1;
        prints(&report, &format!("primary, replicas {replicas}/{replicas}"));
        if tells_rights(&report) {
            assert_eq!(missing(&report), Vec::<&str>::new());
        }
        accepted(&sentinel.url(), Requirements::new().replicas(replicas)).await;
    });
}

#[test]
fn the_embedded_engine_keeps_nothing_and_says_so() {
    beside(LIMIT, async {
        let admin = Admin::new(&Client::embedded());
        let report = admin.preflight().await.expect("it is here");
        tells(&report, Severity::Info, "in the memory of this process");
        assert!(
            report.to_string().contains("embedded engine, in memory"),
            "{report}"
        );
        let little = Requirements::new().no_eviction();
        admin.require(&little).await.expect("it evicts none");
        let much = Requirements::new()
            .persistence(Persistence::Snapshots)
            .min_version(6, 2);
        let refusal = admin.require(&much).await.expect_err("it gives less");
        assert!(matches!(refusal, Refusal::Unmet { .. }), "{refusal:?}");
        let text = refusal.to_string();
        assert!(
            text.contains("persistence") && text.contains("not a server"),
            "{text}"
        );
    });
}

/// What keeps a client from asking is no answer about the deployment.
#[test]
fn a_deployment_that_was_not_checked_is_not_refused_for_what_it_gives() {
    beside(LIMIT, async {
        let client = EmbeddedRedis::new().client();
        let admin = Admin::new(&client);
        let bad = Requirements::new().rights_for([Use::Lock], "");
        let refusal = admin.require(&bad).await.expect_err("no name");
        assert!(
            matches!(refusal, Refusal::NotChecked(Error::Config(_))),
            "{refusal:?}"
        );
        client.shutdown(LATE).await.expect("nothing is held");
        let refusal = admin.require(&Requirements::new()).await;
        assert!(
            matches!(refusal, Err(Refusal::NotChecked(Error::Closed))),
            "{refusal:?}"
        );
    });
}
