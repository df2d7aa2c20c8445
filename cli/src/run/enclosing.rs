//! A nested run, inside the command of another run with the same lock. It uses the hold of the
//! enclosing run, and watches that hold itself.
//!
//! A nested run takes and releases nothing. The enclosing run holds the lock until all processes of
//! its group have ended, which normally include the nested run. If the nested run left the group
//! (`setsid`, or a shell with job control), the enclosing run may release the lock earlier. The
//! nested run then stops its command before the last lease that it has seen ends.
//!
//! Each run adds a mark to the environment of its command: its hold, the server, and its process. A
//! run asks its own server whether one of the marked owners of its lock holds it there:
//!
//! 1. If so, it is nested in that run. The owner is unique, so the two URLs need not be the same.
//! 2. If not, but a mark names the same server and its runner still lives, that run has lost the
//!    lock. Nothing may run.
//! 3. Otherwise the mark means nothing here: it is of another server or database, or a daemon has
//!    inherited it from a run that has ended. The run takes the lock itself.
//!
//! The same server means the same text of the URL, without its login. If a server is called by two
//! names, 3 applies instead of 2: the command still runs under a lock, but not under the same one
//! as what ran before it.

use std::env;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::{Client, Error, Lock};
use serde::{Deserialize, Serialize};

use super::loss::Loss;
use super::process::ProcessId;
use crate::arguments::{Kind, RunArguments};
use crate::clock::{self, Moment};
use crate::exit::{self, Failure};
use crate::found::lock;

/// The variable that has the marks of all enclosing runs as JSON, the innermost last.
pub(super) const HELD: &str = "LEASEHOLD_HELD";

const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The lease of a key that never expires.
const NO_END: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The mark of an enclosing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<i64>,
    /// The server and its database.
    pub(super) server: String,
    pub(super) runner: ProcessId,
}

/// The marks of all enclosing runs.
pub(super) fn marks() -> Result<Vec<Mark>, Failure> {
    match env::var(HELD).ok().filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("{HELD} is not from a run: {error}"))),
        None => Ok(Vec::new()),
    }
}

/// The use of an enclosing run's hold.
#[derive(Debug)]
pub(super) struct Enclosing {
    lock: Lock,
    pub(super) mark: Mark,
    until: Mutex<Moment>,
}

impl Enclosing {
    /// Finds the enclosing run that holds the lock which this run asks for. Fails if that run has
    /// lost the lock, because no command may run under a lost hold.
    pub(super) async fn find(
        client: &Client,
        job: &RunArguments,
        server: &str,
        marks: &[Mark],
    ) -> Result<Option<Enclosing>, Failure> {
        let name = job.name.to_string();
        let marks = || marks.iter().rev().filter(|mark| mark.name == name);
        if marks().next().is_none() || job.permits.is_some() {
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
        if let Some(holder) = lock.holder().await?
            && let Some(mark) = marks().find(|mark| mark.owner == holder.owner)
        {
            if job.kind() == Kind::Fenced && mark.token.is_none() {
                return Err(Failure::usage(format!(
                    "the run around holds `{name}` without a fencing token"
                )));
            }
            return Ok(Some(Enclosing {
                lock,
                mark: mark.clone(),
                until: Mutex::new(until(sent, holder.lease)),
            }));
        }
        match marks().find(|mark| mark.server == server && mark.runner.lives()) {
            Some(Mark { runner, .. }) => Err(Failure::new(
                exit::LOST,
                format!(
                    "the run around, process {runner}, does not hold `{name}` any more; to take \
                     the lock anew unset {HELD}"
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
                // An error says nothing about the hold, so the lease that was seen last still
                // counts.
                Err(_) if self.until().has_come() => return Loss::Expired,
                Err(_) => {}
            }
        }
    }

    async fn look(&self) -> Result<Option<Moment>, Error> {
        let sent = clock::now();
        let holder = self.lock.holder().await?;
        let ours = holder.filter(|holder| holder.owner == self.mark.owner);
        Ok(ours.map(|holder| until(sent, holder.lease)))
    }
}

/// The moment until which the lock is certainly held, if this much of its lease was left when the
/// request was sent.
fn until(sent: Moment, lease: Option<Duration>) -> Moment {
    let left = lease.unwrap_or(NO_END);
    // Subtract the drift between two clocks, and a millisecond because Redis rounds.
    sent.after(left.saturating_sub(left / 1000 + Duration::from_millis(1)))
}
