//! A nested run, inside the command of another run with the same lock. It uses the hold of the enclosing run, and
//! watches that hold itself.
//!
//! A nested run takes and releases nothing. The enclosing run holds the lock until all processes of its group have
//! ended, which normally include the nested run. If the nested run left the group (`setsid`, or a shell with job
//! control), the enclosing run may release the lock earlier. The nested run then stops its command before the last
//! lease that it has seen ends.

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
/// The variable that lists all enclosing runs as JSON, the innermost last.
pub(super) const HELD: &str = "LEASEHOLD_HELD";

const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The lease of a key that never expires.
const NO_END: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The hold of an enclosing run, as its variable describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OuterHold {
    pub(super) name: String,
    pub(super) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<i64>,
}

/// The holds of all enclosing runs.
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

/// The use of an enclosing run's hold.
#[derive(Debug)]
pub(super) struct Enclosing {
    lock: Lock,
    pub(super) hold: OuterHold,
    until: Mutex<Moment>,
}

impl Enclosing {
    /// Finds the enclosing run that holds the lock which this run asks for. Fails if that run has lost the lock,
    /// because no command may run under a lost hold.
    pub(super) async fn find(
        client: &Client,
        job: &RunArguments,
        outer: &[OuterHold],
    ) -> Result<Option<Enclosing>, Failure> {
        if outer.is_empty() || job.permits.is_some() {
            return Ok(None);
        }
        // The holder of the write side may also read.
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
        let name = job.name.to_string();
        let lost = outer.iter().find(|hold| hold.name == name);
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

    /// Checks the hold again and again, and resolves when it is lost.
    pub(super) async fn lost(&self) -> Loss {
        loop {
            let left = self.until().left();
            tokio::time::sleep((left / 8).clamp(LOOK_MIN, LOOK_MAX)).await;
            match self.look().await {
                Ok(Some(until)) => {
                    *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                }
                Ok(None) => return Loss::Gone("the run around does not hold it any more".into()),
                // An error says nothing about the hold, so the lease that was seen last still counts.
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

/// The moment until which the lock is certainly held, if this much of its lease was left when the request was sent.
fn until(sent: Moment, lease: Option<Duration>) -> Moment {
    let left = lease.unwrap_or(NO_END);
    // Subtract the drift between two clocks, and a millisecond because Redis rounds.
    sent.after(left.saturating_sub(left / 1000 + Duration::from_millis(1)))
}
