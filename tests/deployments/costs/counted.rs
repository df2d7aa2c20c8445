//! The commands that the masters of a deployment have run, and what operations of clients cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use leasehold::{Client, ClientBuilder, Stats};
use leasehold_testbed::{Connection, Deployment, LIMIT, Reply, Server, command_stats, eventually};

/// So long that no renewal, poll or election comes in between.
pub(super) const LONG: Duration = Duration::from_secs(300);
pub(super) const NO_POLL: Duration = Duration::from_secs(60);
/// How often each operation is repeated, always at the same cost.
const TIMES: u64 = 5;

/// Commands that belong to no operation: of this test, of replicas and sentinels, and of each
/// connection.
const BESIDE: [&str; 12] = [
    "auth", "client", "cluster", "config", "hello", "info", "ping", "psync", "pubsub", "replconf",
    "role", "select",
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Requests of clients: calls and subscriptions.
    pub(super) requests: u64,
    /// Commands run by scripts, and the scripts themselves.
    pub(super) commands: u64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.requests, self.commands)
    }
}

/// Calls of each command.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn of(&self, commands: &[&str]) -> u64 {
        commands
            .iter()
            .filter_map(|command| self.0.get(*command))
            .sum()
    }

    fn all(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn scripts(&self) -> u64 {
        self.of(&["eval", "evalsha"])
    }

    /// How many waiters of a plain lock were listed. While a lock is only taken, waited for and
    /// released, no other script calls this command.
    pub(super) fn listed_waiters(&self) -> u64 {
        self.of(&["hgetall"])
    }

    fn subscriptions(&self) -> u64 {
        self.of(&["subscribe", "ssubscribe", "unsubscribe", "sunsubscribe"])
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (command, calls) in other.0 {
            *self.0.entry(command).or_default() += calls;
        }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(mut self, before: Counts) -> Counts {
        for (command, calls) in before.0 {
            *self.0.get_mut(&command).expect("counters only rise") -= calls;
        }
        self
    }
}

/// A deployment, and all its masters.
pub(super) struct Counted {
    pub(super) deployment: Deployment,
    masters: Vec<Connection>,
}

impl Counted {
    pub(super) fn new(deployment: Deployment) -> Self {
        let masters = match &deployment {
            Deployment::Server(server) => vec![server.connection()],
            Deployment::Cluster(cluster) => (0..cluster.shards())
                .map(|shard| cluster.node(cluster.master(shard)).connection())
                .collect(),
            Deployment::Sentinels(sentinels) => {
                vec![sentinels.server(sentinels.current_master()).connection()]
            }
        };
        Counted {
            deployment,
            masters,
        }
    }

    /// Fresh clients for one operation, so that nothing left over from another one is counted.
    pub(super) async fn clients<const N: usize>(&self) -> [Client; N] {
        let url = self.deployment.url();
        let builder = || {
            let builder = Client::builder(&url).lease(LONG).safety_poll(NO_POLL);
            builder.command_timeout(LIMIT).connect_timeout(LIMIT)
        };
        connect(builder).await
    }

    fn sentinels(&self) -> &[Server] {
        match &self.deployment {
            Deployment::Sentinels(sentinels) => sentinels.sentinels(),
            _ => &[],
        }
    }

    pub(super) fn counts(&mut self) -> Counts {
        let mut counts = Counts::default();
        for master in &mut self.masters {
            let info = master
                .command(&["INFO", "commandstats"])
                .expect("an answer")
                .text();
            counts += Counts(calls(&info));
        }
        counts
    }

    /// The channels on which clients listen for what concerns their own holds and waits.
    fn client_channels(&mut self) -> BTreeSet<String> {
        let mut channels = BTreeSet::new();
        for master in &mut self.masters {
            let heard = master.command(&["PUBSUB", "CHANNELS", "leasehold_client:*"]);
            channels.extend(heard.expect("an answer").array().iter().map(Reply::text));
        }
        channels
    }

    /// The cost of one of several operations after the first, which may have sent its scripts.
    pub(super) async fn cost<const N: usize>(
        &mut self,
        clients: [Client; N],
        mut operation: impl AsyncFnMut(&mut Counted, &[Client; N], u64),
    ) -> Cost {
        operation(self, &clients, 0).await;
        // Messages that sentinels publish through their master cannot be told from those of
        // scripts.
        self.sentinels().iter().for_each(Server::pause);
        let sum = |of: fn(&Stats) -> u64| clients.iter().map(|client| of(&client.stats())).sum();
        let (calls, cancelled) = (
            || sum(|stats| stats.calls),
            || sum(|stats| stats.cancelled_as_unpolled),
        );
        let mut number = 0;
        let (counts, calls) = loop {
            eventually("all released", async || {
                sum(|stats| stats.releases_pending) == 0
            })
            .await;
            let beside = (cancelled(), self.client_channels());
            let before: (Counts, u64) = (self.counts(), calls());
            for _ in 0..TIMES {
                number += 1;
                operation(self, &clients, number).await;
            }
            let (counts, calls) = (self.counts() - before.0, calls() - before.1);
            // What is sent beside the operations does not belong to them. If a client stalls for a
            // moment, the clean-up sends calls. And a client listens to its own channels once it
            // waits, or once a hold of it has lasted.
            if (cancelled(), self.client_channels()) == beside {
                break (counts, calls);
            }
        };
        self.sentinels().iter().for_each(Server::resume);
        for client in &clients {
            client.shutdown(LIMIT).await.expect("no key left");
        }
        assert_eq!(counts.scripts(), calls, "{counts:?}");
        let (requests, commands) = (calls + counts.subscriptions(), counts.all());
        let rest = (requests % TIMES, commands % TIMES);
        assert_eq!(rest, (0, 0), "each time the same: {counts:?}");
        Cost {
            requests: requests / TIMES,
            commands: commands / TIMES,
        }
    }
}

async fn connect<const N: usize>(builder: impl Fn() -> ClientBuilder) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(builder().connect().await.expect("connects"));
    }
    clients.try_into().expect("so many")
}

/// Calls by command, without those that run beside what is counted.
fn calls(info: &str) -> BTreeMap<String, u64> {
    let mut all = command_stats(info);
    all.retain(|name, _| !BESIDE.contains(&name.split('|').next().unwrap_or(name)));
    let calls = all.into_iter().map(|(name, stats)| (name, stats.calls));
    calls.collect()
}
