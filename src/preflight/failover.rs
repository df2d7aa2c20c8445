//! Whether a failover is over before holds end that could not be renewed meanwhile.

use std::fmt;
use std::time::Duration;

use super::answers::Fields;
use super::node::{ClusterState, or_unknown};
use crate::protocol::Value;
use crate::session::Session;

/// A sentinel asks its primary once a second, the votes and the promotion go by ticks of a second.
const SENTINEL_ELECTION: Duration = Duration::from_secs(3);
/// A replica asks for votes half a second to a second after the failure is agreed upon.
const CLUSTER_ELECTION: Duration = Duration::from_secs(2);

/// What the sentinels that answered say of the primary they watch: the largest number that one of them has.
/// `None`: their user may not look, or none of them answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentinelState {
    /// How many sentinels there are, whether they are up or not: a majority of them must agree to a failover.
    pub known: Option<u64>,
    /// How many of them are up, as they see each other.
    pub usable: Option<u64>,
    /// `quorum`: so many must have noticed that the primary is gone.
    pub quorum: Option<u64>,
    /// `down-after-milliseconds`: how long the primary is silent until a sentinel notices.
    pub down_after: Option<Duration>,
    /// `failover-timeout`: a failover that failed is tried again after twice this.
    pub failover_timeout: Option<Duration>,
}

impl SentinelState {
    /// How long a failover takes, about.
    pub fn failover(&self) -> Option<Duration> {
        Some(self.down_after? + SENTINEL_ELECTION)
    }

    /// How many sentinels must be up for a failover.
    pub fn needed(&self) -> Option<u64> {
        Some(self.quorum?.max(self.known? / 2 + 1))
    }

    /// Why holds of this lease need not outlast a failover.
    pub(super) fn obstacle(&self, lease: Duration) -> Option<String> {
        let (Some(taken), Some(usable), Some(needed)) =
            (self.failover(), self.usable, self.needed())
        else {
            return Some("not known, as no sentinel tells it".to_owned());
        };
        if usable < needed {
            return Some(format!("{usable} sentinels are up, and it needs {needed}"));
        }
        (taken > time_left(lease)).then(|| too_long(taken, lease))
    }

    fn of(descriptions: &[Value], quorums: &[Value]) -> Self {
        let described: Vec<_> =
            descriptions.iter().map(|answer| Fields::of_pairs([answer].into_iter())).collect();
        let largest = |name| described.iter().filter_map(|fields| fields.number(name)).max();
        SentinelState {
            known: largest("num-other-sentinels").map(|others| others.saturating_add(1)),
            usable: quorums.iter().filter_map(usable).max(),
            quorum: largest("quorum"),
            down_after: largest("down-after-milliseconds").map(Duration::from_millis),
            failover_timeout: largest("failover-timeout").map(Duration::from_millis),
        }
    }
}

/// `OK 3 usable Sentinels. …`, `NOQUORUM 1 usable Sentinels. …`
fn usable(answer: &Value) -> Option<u64> {
    let Value::Text(text) = answer else { return None };
    let mut words = text.split(' ').skip(1);
    let number = words.next()?.parse().ok()?;
    (words.next() == Some("usable")).then_some(number)
}

impl ClusterState {
    /// How long a failover takes, about.
    pub fn failover(&self) -> Option<Duration> {
        // A node is asked when it was silent for half of it, and then has all of it for the answer.
        Some(self.node_timeout? * 3 / 2 + CLUSTER_ELECTION)
    }
}

/// A hold was last renewed a third of its lease ago at worst.
pub(super) fn time_left(lease: Duration) -> Duration {
    lease * 2 / 3
}

pub(super) fn too_long(failover: Duration, lease: Duration) -> String {
    format!("about {failover:.1?}, and {:.1?} are left to a hold", time_left(lease))
}

pub(super) async fn ask_sentinels(session: &Session) -> SentinelState {
    let ask = |question| session.transport.sentinels(question);
    let (descriptions, quorums) = tokio::join!(ask("MASTER"), ask("CKQUORUM"));
    SentinelState::of(&descriptions, &quorums)
}

/// On one line; `?` is what is not known.
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
