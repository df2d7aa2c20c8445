//! Asks the sentinels for the primary, again and again, and gives the node another target.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::{Duration, sleep};

use super::watch::{Watched, not_understood};
use super::{EVERY, Shared};
use crate::protocol::Value;
use crate::transport::redis::node::Node;
use crate::transport::{CallError, Fault};

/// The shortest time between two looks: a primary that is gone fails many connections at once.
const AT_LEAST: Duration = Duration::from_millis(20);

/// So many looks pass between two questions for other sentinels.
const OTHERS: u32 = 10;

/// The primary, as one sentinel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Primary {
    pub(super) host: String,
    pub(super) port: u16,
    /// Rises with each failover.
    pub(super) config_epoch: u64,
}

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, node: Arc<Node>) {
    let mut present: Option<Primary> = None;
    for number in 0_u32.. {
        let sentinels: Vec<_> = shared.sentinels.lock().values().cloned().collect();
        let name = shared.deployment.master.as_bytes();
        let answers = join_all(sentinels.iter().map(|sentinel| primary(sentinel, name))).await;
        *shared.refusal.lock() = answers.iter().find_map(|answer| match answer {
            Err(CallError::Refused(fault)) => Some(fault.clone()),
            _ => None,
        });
        if let Some(next) = choose(present.as_ref(), answers) {
            let is_other = present.as_ref().is_none_or(|present| !present.is_at(&next));
            if is_other {
                follow(&shared, &node, &next);
                if present.is_some() {
                    // Only now: a renewal that the former primary answered confirms nothing any more.
                    shared.events.primary_changed(&|_| true);
                }
            }
            present = Some(next);
            if number % OTHERS == 0 || is_other {
                learn_others(&shared, &sentinels).await;
            }
        }
        tokio::select! {
            biased;
            () = shared.changed.notified() => sleep(AT_LEAST).await,
            () = sleep(EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())) => {}
        }
    }
}

impl Primary {
    fn is_at(&self, other: &Primary) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

/// The primary to go to, or stay at; nothing if that is not known.
///
/// The highest `config-epoch` counts. A lower one than before may be that of a deployment which was set
/// up anew; it counts if more than half of the sentinels have answered.
fn choose(present: Option<&Primary>, answers: Vec<Result<Primary, CallError>>) -> Option<Primary> {
    let asked = answers.len();
    let answered: Vec<_> = answers.into_iter().flatten().collect();
    let is_majority = 2 * answered.len() > asked;
    let best = answered.into_iter().max_by_key(|primary| primary.config_epoch)?;
    let is_older = present.is_some_and(|present| best.config_epoch < present.config_epoch);
    (!is_older || is_majority).then_some(best)
}

/// Another server is the primary now.
fn follow(shared: &Shared, node: &Node, next: &Primary) {
    let fault = Fault(format!("the primary is {}:{} now", next.host, next.port));
    node.switch(shared.primary(&next.host, next.port), &fault);
}

async fn primary(sentinel: &Watched, name: &[u8]) -> Result<Primary, CallError> {
    let reply = sentinel.ask(&[b"SENTINEL", b"MASTER", name]).await?;
    described(&reply).ok_or_else(not_understood)
}

/// Sentinels that the known ones know.
async fn learn_others(shared: &Arc<Shared>, sentinels: &[Watched]) {
    let question: [&[u8]; 3] = [b"SENTINEL", b"SENTINELS", shared.deployment.master.as_bytes()];
    let asked = sentinels.iter().map(|one| one.ask(&question));
    // Those that do not answer now are asked again later.
    for reply in join_all(asked).await.into_iter().flatten() {
        let Value::Array(others) = reply else { continue };
        for other in others.iter().filter_map(described) {
            let endpoint = shared.deployment.sentinel_at(&other.host, other.port);
            // One that cannot be used is not needed: it was not configured.
            drop(shared.watch(&endpoint));
        }
    }
}

/// A server that a sentinel describes by names and values.
fn described(reply: &Value) -> Option<Primary> {
    let Value::Array(words) = reply else { return None };
    let field = |name: &str| {
        words.chunks_exact(2).find_map(|pair| match pair {
            [Value::Text(key), Value::Text(value)] if key == name => Some(value.as_str()),
            _ => None,
        })
    };
    let (host, port) = (field("ip")?.to_owned(), field("port")?.parse().ok()?);
    // Sentinels have none.
    let config_epoch = field("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    (!host.is_empty() && port != 0).then_some(Primary { host, port, config_epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16, config_epoch: u64) -> Primary {
        Primary { host: "h".into(), port, config_epoch }
    }

    fn silent() -> Result<Primary, CallError> {
        Err(not_understood())
    }

    #[test]
    fn the_highest_epoch_counts_and_not_the_first() {
        let chosen = choose(None, vec![Ok(at(1, 3)), silent(), Ok(at(2, 4))]);
        assert_eq!(chosen, Some(at(2, 4)));
        assert_eq!(choose(Some(&at(1, 3)), vec![Ok(at(2, 4)), silent(), silent()]), Some(at(2, 4)));
    }

    #[test]
    fn an_older_epoch_counts_only_if_most_sentinels_answered() {
        assert_eq!(choose(Some(&at(2, 4)), vec![Ok(at(1, 3)), silent(), silent()]), None);
        let anew = choose(Some(&at(2, 4)), vec![Ok(at(1, 0)), Ok(at(1, 0)), silent()]);
        assert_eq!(anew, Some(at(1, 0)));
    }

    #[test]
    fn without_an_answer_nothing_changes() {
        assert_eq!(choose(Some(&at(2, 4)), vec![silent(), silent()]), None);
    }
}
