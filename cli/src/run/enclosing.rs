//! A run inside a run: it runs under the hold of the run around it, and keeps a watch on that hold of its own.
//!
//! Nothing is taken and nothing is released. The run around holds the lock until all processes of its group have
//! ended, and this run is among them. Should it not be (`setsid`, job control of a shell), then this run still ends
//! its command before the lease does that it has seen.

use std::env;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::{Client, Error, Lock};
use serde::{Deserialize, Serialize};

use super::loss::Loss;
use crate::arguments::{Kind, RunArguments};
use crate::clock::{self, Moment};
use crate::exit::{self, Failure};
use crate::found::lock;

pub(super) const NAME: &str = "LEASEHOLD_NAME";
pub(super) const OWNER: &str = "LEASEHOLD_OWNER";
pub(super) const TOKEN: &str = "LEASEHOLD_TOKEN";
/// All runs around, as JSON: the innermost last.
pub(super) const HELD: &str = "LEASEHOLD_HELD";

const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// A key without an expiry.
const NO_END: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The hold of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OuterHold {
    pub(super) name: String,
    pub(super) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<i64>,
}

/// The holds of all runs around this one.
pub(super) fn outer() -> Result<Vec<OuterHold>, Failure> {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let mut outer: Vec<OuterHold> = match set(HELD) {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("{HELD} is not from a run: {error}")))?,
        None => Vec::new(),
    };
    match (set(NAME), set(OWNER)) {
        (Some(name), Some(owner)) => {
            let token = set(TOKEN).and_then(|token| token.parse().ok());
            let innermost = OuterHold { name, owner, token };
            if !outer.contains(&innermost) {
                outer.push(innermost);
            }
            Ok(outer)
        }
        (None, Some(_)) => Err(Failure::usage(format!("{OWNER} is set, and {NAME} is not"))),
        (_, None) => Ok(outer),
    }
}

/// A hold of a run around this one.
#[derive(Debug)]
pub(super) struct Enclosing {
    lock: Lock,
    pub(super) hold: OuterHold,
    until: Mutex<Moment>,
}

impl Enclosing {
    /// The hold of the lock that this run asks for, if a run around has it. An error if that run has lost it:
    /// nothing may run under a hold that is gone.
    pub(super) async fn find(
        client: &Client,
        job: &RunArguments,
        outer: &[OuterHold],
    ) -> Result<Option<Enclosing>, Failure> {
        if outer.is_empty() || job.permits.is_some() {
            return Ok(None);
        }
        // A writer may read.
        let kind = if job.kind() == Kind::Read {
            Kind::Write
        } else {
            job.kind()
        };
        let lock = lock(client, kind, &job.name);
        let sent = clock::now();
        let holder = lock.holder().await?;
        let seen = holder.as_ref().and_then(|holder| {
            let hold = outer.iter().rev().find(|one| one.owner == holder.owner)?;
            Some((hold.clone(), until(sent, holder.lease)))
        });
        if let Some((hold, until)) = seen {
            if job.kind() == Kind::Fenced && hold.token.is_none() {
                return Err(Failure::usage(format!(
                    "the run around holds `{}` without a fencing token",
                    job.name
                )));
            }
            return Ok(Some(Enclosing {
                lock,
                hold,
                until: Mutex::new(until),
            }));
        }
        let lost = outer.iter().find(|hold| hold.name == job.name);
        match lost.filter(|_| job.kind() != Kind::Read) {
            Some(OuterHold { name, owner, .. }) => Err(Failure::new(
                exit::LOST,
                format!(
                    "the run around does not hold `{name}` any more, as {OWNER}={owner} says; to take \
                     the lock anew unset {OWNER} and {HELD}"
                ),
            )),
            None => Ok(None),
        }
    }

    pub(super) fn until(&self) -> Moment {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after the hold, until it is gone.
    pub(super) async fn lost(&self) -> Loss {
        loop {
            let left = self.until().left();
            tokio::time::sleep((left / 8).clamp(LOOK_MIN, LOOK_MAX)).await;
            match self.look().await {
                Ok(Some(until)) => {
                    *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                }
                Ok(None) => return Loss::Gone("the run around does not hold it any more".into()),
                // What was seen last still counts.
                Err(_) if self.until().has_come() => return Loss::Expired,
                Err(_) => {}
            }
        }
    }

    async fn look(&self) -> Result<Option<Moment>, Error> {
        let sent = clock::now();
        let holder = self.lock.holder().await?;
        let ours = holder.filter(|holder| holder.owner == self.hold.owner);
        Ok(ours.map(|holder| until(sent, holder.lease)))
    }
}

/// Until when a lease surely lasts of which so much was left when it was asked for.
fn until(sent: Moment, lease: Option<Duration>) -> Moment {
    let left = lease.unwrap_or(NO_END);
    // The drift of two clocks, and a millisecond that has begun.
    sent.after(left.saturating_sub(left / 1000 + Duration::from_millis(1)))
}
