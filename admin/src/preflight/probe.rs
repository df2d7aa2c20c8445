//! Asks one server. Refused answers are left out; only a server that does not answer is an error.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::Error;
use leasehold::parts::{self, Parts};
use leasehold_transport::timer::{Instant, timeout};
use leasehold_transport::{CallError, DeploymentKind, Lane, Transport, Value};

use super::answers::{Fields, part};
use super::ask::Ask;
use super::node::{
    ClockDifference, ClusterState, Flavour, Persistence, Replica, RoundTrips, ServerState, Version,
};
use super::rights::{self, NeededRights};
use super::scripts;

/// How often the round trip is measured.
const PINGS: usize = 5;

impl Ask<'_> {
    async fn state(self, needed: &NeededRights) -> Result<ServerState, CallError> {
        let in_cluster = self.parts.transport().kind() == DeploymentKind::Cluster;
        let round_trips = self.round_trips().await?;
        let clock = self.clock().await;
        let info = self.reply(&["INFO"]);
        let (info, role, config) = tokio::join!(info, self.reply(&["ROLE"]), self.config());
        let (sharded_pubsub, (), (), cluster_info, rights) = tokio::join!(
            self.sharded_pubsub(),
            scripts::ask_for_limits(self),
            self.copies(),
            async {
                if in_cluster {
                    self.reply(&["CLUSTER", "INFO"]).await
                } else {
                    None
                }
            },
            rights::ask(self, needed),
        );
        let info = Fields::of_lines(info.as_ref());
        let config = Fields::of_pairs(config.iter());
        let is_primary = info.text("role").map(|role| role == "master");
        let (flavour, version) = program(&info);
        Ok(ServerState {
            flavour,
            version,
            is_primary: is_primary.or_else(|| role.as_ref().and_then(is_primary_by_role)),
            replicas: replicas(&info),
            min_replicas_to_write: config.number("min-replicas-to-write"),
            maxmemory: info.number("maxmemory"),
            maxmemory_policy: info.text("maxmemory_policy").map(str::to_owned),
            persistence: persistence(&info, &config),
            saving_fails: ["rdb_last_bgsave_status", "aof_last_write_status"]
                .iter()
                .any(|name| info.text(name) == Some("err")),
            clock,
            sharded_pubsub,
            cluster: in_cluster.then(|| {
                let cluster_info = Fields::of_lines(cluster_info.as_ref());
                ClusterState {
                    is_ok: cluster_info
                        .text("cluster_state")
                        .map(|state| state == "ok"),
                    requires_full_coverage: config.truth("cluster-require-full-coverage"),
                    node_timeout: config
                        .number("cluster-node-timeout")
                        .map(Duration::from_millis),
                }
            }),
            round_trips,
            rights,
        })
    }

    /// The replies to CONFIG GET, if the server does not refuse the first one.
    async fn config(self) -> Vec<Value> {
        let ask = async |pattern| self.reply(&["CONFIG", "GET", pattern]).await;
        let Some(first) = ask("min-replicas-*").await else {
            return Vec::new();
        };
        // One pattern each, because up to Redis 6.2 a call takes only one. A plain `*` would fetch
        // passwords.
        let others = ["append*", "save", "cluster-*"].map(ask);
        let others = futures_util::future::join_all(others).await;
        std::iter::once(first)
            .chain(others.into_iter().flatten())
            .collect()
    }

    async fn round_trips(self) -> Result<RoundTrips, CallError> {
        let mut taken = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let begun = Instant::now();
            match self.command(&["PING"]).await {
                // A refusal takes as long as an answer.
                Ok(_) | Err(CallError::Refused(_)) => taken.push(begun.elapsed()),
                Err(error) => return Err(error),
            }
        }
        taken.sort_unstable();
        Ok(RoundTrips {
            median: taken[PINGS / 2],
            worst: taken[PINGS - 1],
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it is this clock that is compared"
    )]
    async fn clock(self) -> Option<ClockDifference> {
        let (here, begun) = (SystemTime::now(), Instant::now());
        let reply = self.reply(&["TIME"]).await?;
        let error = begun.elapsed() / 2;
        let here = here.duration_since(UNIX_EPOCH).ok()? + error;
        let there = server_time(&reply)?;
        let millis = |span: Duration| i64::try_from(span.as_millis()).ok();
        let ahead_ms = millis(there)? - millis(here)?;
        Some(ClockDifference { ahead_ms, error })
    }

    async fn sharded_pubsub(self) -> Option<bool> {
        let transport = self.parts.transport();
        let asked = transport.ask_for_sharded_messages(self.node, Lane::Caller);
        asked.await;
        transport.abilities(self.node).sharded_messages
    }

    /// Asks for no copies, so that the transport notes a server without WAIT.
    async fn copies(self) {
        drop(self.command(&["WAIT", "0", "0"]).await);
    }
}

/// The state of the server, or why it did not answer.
pub(super) async fn look(
    ask: Ask<'_>,
    server: &str,
    needed: &NeededRights,
) -> Result<ServerState, Error> {
    let state = ask.state(needed).await;
    // The call takes nothing, so a lost reply leaves nothing in doubt.
    state.map_err(|error| parts::error(server, error.took_nothing()))
}

/// Subscribes to a channel and unsubscribes again, unless the server is known to have no messages.
/// The transport notes a refusal.
pub(super) async fn ask_for_messages(parts: &Parts, needed: &NeededRights) {
    let (transport, channel) = (parts.transport(), &needed.channel);
    if !parts.polls_only() {
        // CANCEL: the drop unsubscribes.
        let _unsubscribes = Unsubscribes(transport, channel);
        let subscribed = transport.subscribe(channel, "");
        drop(timeout(parts.command_timeout(), subscribed).await);
    }
}

struct Unsubscribes<'a>(&'a Transport, &'a Arc<str>);

impl Drop for Unsubscribes<'_> {
    fn drop(&mut self) {
        self.0.unsubscribe(self.1);
    }
}

fn program(info: &Fields) -> (Option<Flavour>, Option<Version>) {
    let version = |name| info.text(name).and_then(Version::parse);
    match version("valkey_version") {
        Some(version) => (Some(Flavour::Valkey), Some(version)),
        None => (
            info.text("redis_version").map(|_| Flavour::Redis),
            version("redis_version"),
        ),
    }
}

fn is_primary_by_role(reply: &Value) -> Option<bool> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let role = parts.first()?;
    Some(*role == Value::Text("master".to_owned()))
}

fn server_time(reply: &Value) -> Option<Duration> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [Value::Text(seconds), Value::Text(micros)] = parts.as_slice() else {
        return None;
    };
    let micros = Duration::from_micros(micros.parse().ok()?);
    Duration::from_secs(seconds.parse().ok()?).checked_add(micros)
}

fn replicas(info: &Fields) -> Option<Vec<Replica>> {
    let written = info.number("master_repl_offset");
    let count = info.number("connected_slaves")?;
    // Some replicas may have no line, and the lines are numbered without gaps.
    let lines = (0..count).map_while(|number| info.text(&format!("slave{number}")));
    let replica = |line: &str| {
        let (host, port) = (part(line, "ip")?, part(line, "port")?);
        let number = |name| part(line, name)?.parse::<u64>().ok();
        Some(Replica {
            address: format!("{host}:{port}"),
            is_online: part(line, "state") == Some("online"),
            behind: written
                .zip(number("offset"))
                .map(|(all, seen)| all.saturating_sub(seen)),
            lag: number("lag").map(Duration::from_secs),
        })
    };
    Some(lines.filter_map(replica).collect())
}

fn persistence(info: &Fields, config: &Fields) -> Option<Persistence> {
    let appends = config
        .truth("appendonly")
        .or_else(|| info.truth("aof_enabled"))?;
    if !appends {
        let no_snapshots = config.text("save")?.is_empty();
        return Some(if no_snapshots {
            Persistence::None
        } else {
            Persistence::Snapshots
        });
    }
    match config.text("appendfsync")? {
        "always" => Some(Persistence::Always),
        "everysec" => Some(Persistence::EverySecond),
        "no" => Some(Persistence::SystemDecides),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Fields {
        Fields::of_lines(Some(&Value::Text(text.to_owned())))
    }

    fn config(pairs: &[&str]) -> Fields {
        let items = pairs
            .iter()
            .map(|&word| Value::Text(word.to_owned()))
            .collect();
        Fields::of_pairs([Value::Array(items)].iter())
    }

    #[test]
    fn a_fork_of_redis_is_recognized_by_its_own_version() {
        let valkey = info("server_name:valkey\r\nredis_version:7.2.4\r\nvalkey_version:9.1.0\r\n");
        assert_eq!(
            program(&valkey),
            (Some(Flavour::Valkey), Some(Version::new(9, 1)))
        );
        let redis = info("redis_version:6.2.14\r\n");
        assert_eq!(program(&redis).0, Some(Flavour::Redis));
        assert_eq!(program(&info("")), (None, None));
    }

    #[test]
    fn persistence_follows_from_both_settings() {
        let nothing = info("");
        let kept = |pairs: &[&str]| persistence(&nothing, &config(pairs));
        assert_eq!(
            kept(&["appendonly", "no", "save", ""]),
            Some(Persistence::None)
        );
        assert_eq!(
            kept(&["appendonly", "no", "save", "3600 1"]),
            Some(Persistence::Snapshots)
        );
        let appending = |fsync| kept(&["appendonly", "yes", "appendfsync", fsync, "save", ""]);
        assert_eq!(appending("always"), Some(Persistence::Always));
        assert_eq!(appending("everysec"), Some(Persistence::EverySecond));
        assert_eq!(appending("no"), Some(Persistence::SystemDecides));
        // CONFIG is forbidden: INFO says that it appends, but not how it syncs.
        assert_eq!(persistence(&info("aof_enabled:1\r\n"), &config(&[])), None);
        assert_eq!(persistence(&info("aof_enabled:0\r\n"), &config(&[])), None);
    }

    #[test]
    fn replicas_are_those_of_the_primary() {
        let text = "connected_slaves:2\r\nmaster_repl_offset:100\r\n\
            slave0:ip=127.0.0.1,port=7001,state=online,offset=60,lag=1\r\n\
            slave1:ip=::1,port=7002,state=wait_bgsave,offset=0,lag=0\r\n";
        let found = replicas(&info(text)).expect("it says");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].behind, found[0].is_in_step()), (Some(40), true));
        assert_eq!(
            (found[1].address.as_str(), found[1].is_in_step()),
            ("::1:7002", false)
        );
        assert_eq!(replicas(&info("")), None);
        // A number too large to count to.
        let text = format!("connected_slaves:{}\r\nslave0:ip=h,port=1\r\n", u64::MAX);
        assert_eq!(replicas(&info(&text)).map(|found| found.len()), Some(1));
    }

    #[test]
    fn an_impossible_time_is_unknown() {
        let time = |seconds: &str, micros: &str| {
            let word = |text: &str| Value::Text(text.to_owned());
            server_time(&Value::Array(vec![word(seconds), word(micros)]))
        };
        assert_eq!(time("2", "500000"), Some(Duration::from_millis(2_500)));
        let most = u64::MAX.to_string();
        assert_eq!(time(&most, "1000000"), None);
        assert_eq!(time("-1", "0"), None);
    }
}
