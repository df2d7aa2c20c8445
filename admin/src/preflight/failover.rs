//! Whether a failover ends before the holds that could not be renewed meanwhile.

use std::fmt;
use std::time::Duration;

use leasehold_transport::{Transport, Value};

use super::answers::Fields;
use super::node::{ClusterState, or_unknown};

/// A sentinel asks its primary once a second. Votes and promotion proceed in steps of a second.
const SENTINEL_ELECTION: Duration = Duration::from_secs(3);
/// A replica asks for votes half a second to a second after the failure is agreed.
const CLUSTER_ELECTION: Duration = Duration::from_secs(2);

/// What the sentinels report about the primary that they watch.
///
/// Each number is the largest that any sentinel reported. It is `None` if no sentinel answered, or
/// if the user has no right to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SentinelState {
    /// The number of sentinels, whether they are up or not. A majority of them must agree to a
    /// failover.
    pub(super) known: Option<u64>,
    /// The number of sentinels that are up, as they see each other.
    pub(super) usable: Option<u64>,
    /// `quorum`: the number of sentinels that must notice that the primary is gone.
    pub(super) quorum: Option<u64>,
    /// `down-after-milliseconds`: how long the primary must be silent before a sentinel notices.
    pub(super) down_after: Option<Duration>,
    /// `failover-timeout`: a failed failover is retried after twice this time.
    pub(super) failover_timeout: Option<Duration>,
}

impl SentinelState {
    /// The approximate duration of a failover.
    pub(super) fn failover(&self) -> Option<Duration> {
        Some(self.down_after? + SENTINEL_ELECTION)
    }

    /// The number of sentinels that must be up for a failover.
    pub(super) fn needed(&self) -> Option<u64> {
        Some(self.quorum?.max(self.known? / 2 + 1))
    }

    /// Why holds with this lease may not outlast a failover; `None` if they do.
    pub(super) fn obstacle(&self, lease: Duration) -> Option<String> {
        let (Some(taken), Some(usable), Some(needed)) =
            (self.failover(), self.usable, self.needed())
        else {
            return Some("unknown: no sentinel reports it".to_owned());
        };
        if usable < needed {
            return Some(format!(
                "{usable} sentinels are up, and a failover needs {needed}"
            ));
        }
        (taken > time_left(lease)).then(|| too_long(taken, lease))
    }

    fn of(descriptions: &[Value], quorums: &[Value]) -> Self {
        let described: Vec<_> = descriptions
            .iter()
            .map(|answer| Fields::of_pairs([answer].into_iter()))
            .collect();
        let largest = |name| {
            described
                .iter()
                .filter_map(|fields| fields.number(name))
                .max()
        };
        SentinelState {
            known: largest("num-other-sentinels").map(|others| others.saturating_add(1)),
            usable: quorums.iter().filter_map(usable).max(),
            quorum: largest("quorum"),
            down_after: largest("down-after-milliseconds").map(Duration::from_millis),
            failover_timeout: largest("failover-timeout").map(Duration::from_millis),
        }
    }
}

/// Reads `OK 3 usable Sentinels. …` or `NOQUORUM 1 usable Sentinels. …`.
fn usable(answer: &Value) -> Option<u64> {
    let Value::Text(text) = answer else {
        return None;
    };
    let mut words = text.split(' ').skip(1);
    let number = words.next()?.parse().ok()?;
    (words.next() == Some("usable")).then_some(number)
}

impl ClusterState {
    /// The approximate duration of a failover.
    pub(super) fn failover(&self) -> Option<Duration> {
        // A node is asked after half of this time in silence, and then has all of it to answer.
        Some(self.node_timeout? * 3 / 2 + CLUSTER_ELECTION)
    }
}

/// The remaining lease of a hold at worst, when its last renewal was a third of the lease ago.
pub(super) fn time_left(lease: Duration) -> Duration {
    lease * 2 / 3
}

pub(super) fn too_long(failover: Duration, lease: Duration) -> String {
    format!(
        "takes about {failover:.1?}, and a hold has {:.1?} left",
        time_left(lease)
    )
}

pub(super) async fn ask_sentinels(transport: &Transport) -> SentinelState {
    let ask = |question| transport.sentinels(question);
    let (descriptions, quorums) = tokio::join!(ask("MASTER"), ask("CKQUORUM"));
    SentinelState::of(&descriptions, &quorums)
}

/// On one line; `?` marks what is unknown.
impl fmt::Display for SentinelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |span: Option<Duration>| or_unknown(span.map(|span| span.as_millis()));
        write!(
            f,
            "sentinels {}/{}, quorum {}, down-after-milliseconds {}, failover-timeout {}",
            or_unknown(self.usable),
            or_unknown(self.known),
            or_unknown(self.quorum),
            millis(self.down_after),
            millis(self.failover_timeout),
        )
    }
}

#[cfg(test)]
mod tests;
