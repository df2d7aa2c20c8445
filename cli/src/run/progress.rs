//! Says what a run waits for.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{Client, Error};
use tokio::time::Instant;

use crate::arguments::RunArguments;
use crate::exit::Failure;
use crate::found::{lock, look, total};
use crate::output::{complain, short};

/// A run that waits for this long says so. With `--verbose` it looks this often for a change.
const QUIET: Duration = Duration::from_secs(2);

/// How far a run is, before its command starts.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    job: &'a RunArguments,
    began: Instant,
    state: Mutex<State>,
    /// The number of permits that this run replaces, until that was said.
    replaces: Mutex<Option<i64>>,
}

#[derive(Debug)]
enum State {
    /// The last failure, if there was one.
    Connecting(Option<String>),
    Waiting(Client),
}

impl<'a> Progress<'a> {
    pub(super) fn new(job: &'a RunArguments) -> Self {
        Progress {
            job,
            began: Instant::now(),
            state: Mutex::new(State::Connecting(None)),
            replaces: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replaces(&self) -> MutexGuard<'_, Option<i64>> {
        self.replaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server could not be reached.
    pub(super) fn failed(&self, failure: &Failure) {
        *self.state() = State::Connecting(Some(failure.text.clone()));
    }

    pub(super) fn connected(&self, client: &Client) {
        *self.state() = State::Waiting(client.clone());
    }

    /// Reads how many permits there are, before this run applies its own number.
    pub(super) async fn read_permits(&self, client: &Client) {
        let Some(permits) = self.job.permits.map(i64::from) else {
            return;
        };
        let before = declared(client, self.job).await;
        *self.replaces() = before.filter(|before| *before != permits);
    }

    /// Looks whether this run has replaced the number of permits: a lower one is applied by the
    /// first attempt, a higher one with the permit.
    pub(super) async fn look_at_permits(&self, client: &Client) {
        // The lock must not be held across the call: the acquisition runs in the same task.
        let may_replace = self.replaces().is_some();
        let permits = self.job.permits.map(i64::from);
        if may_replace && declared(client, self.job).await == permits {
            self.permits_replaced();
        }
    }

    /// Says once that this run has replaced the number of permits.
    fn permits_replaced(&self) {
        if let (Some(permits), Some(before)) = (self.job.permits, self.replaces().take()) {
            let word = if before == 1 { "permit" } else { "permits" };
            complain(&format!(
                "`{}` had {before} {word}, has {permits} now",
                self.job.name
            ));
        }
    }

    pub(super) fn acquired(&self) {
        self.permits_replaced();
        if self.job.verbose {
            let waited = short(self.began.elapsed());
            complain(&format!("acquired `{}` after {waited}", self.job.name));
        }
    }

    /// The client, once it is connected.
    pub(super) fn client(&self) -> Option<Client> {
        match &*self.state() {
            State::Connecting(_) => None,
            State::Waiting(client) => Some(client.clone()),
        }
    }

    /// Says what the run waits for: once, or with `--verbose` whenever it changes.
    pub(super) async fn report(&self) -> Infallible {
        let mut last = String::new();
        loop {
            tokio::time::sleep(QUIET).await;
            if let Some(client) = self.client() {
                self.look_at_permits(&client).await;
            }
            let reason = self.reason().await;
            if reason.text != last {
                complain(&format!(
                    "waiting for `{}`: {}{}",
                    self.job.name, reason.text, reason.more
                ));
                last = reason.text;
            }
            if !self.job.verbose {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn reason(&self) -> Reason {
        let client = self.client();
        let asked = match &client {
            Some(client) if self.job.permits.is_some() => permits(client, self.job).await,
            Some(client) => holder(client, self.job).await,
            None => {
                let fault = match &*self.state() {
                    State::Connecting(Some(fault)) => fault.clone(),
                    _ => "connecting".to_owned(),
                };
                return Reason::new(fault);
            }
        };
        asked.unwrap_or_else(|error| Reason::new(Failure::from(error).text))
    }
}

/// What the run waits for.
struct Reason {
    text: String,
    /// What changes all the time.
    more: String,
}

impl Reason {
    fn new(text: impl Into<String>) -> Self {
        Reason {
            text: text.into(),
            more: String::new(),
        }
    }
}

async fn holder(client: &Client, job: &RunArguments) -> Result<Reason, Error> {
    let holder = lock(client, job.kind(), &job.name).holder().await?;
    Ok(match holder {
        Some(holder) => Reason {
            text: format!("held by {holder}"),
            more: match holder.lease {
                Some(left) => format!(", {} left of its lease", short(left)),
                None => ", without expiry".to_owned(),
            },
        },
        None => Reason::new("it is free, and others are asking for it"),
    })
}

async fn permits(client: &Client, job: &RunArguments) -> Result<Reason, Error> {
    let semaphore = client.semaphore(&job.name);
    let (total, available) = (semaphore.permits().await?, semaphore.available().await?);
    // Not every user may look at what is held.
    let found = look(client, &job.name.key()).await.ok().flatten();
    let holder = found.map(|found| found.holder());
    let holder = holder.filter(|holder| !holder.is_empty());
    Ok(Reason::new(format!(
        "{available} of {total} permits are available{}",
        holder.map_or(String::new(), |holder| format!(", held by {holder}"))
    )))
}

/// The number of permits that was declared last, or else how many there are. `None` if there are
/// none, or if that cannot be read.
async fn declared(client: &Client, job: &RunArguments) -> Option<i64> {
    let found = look(client, &job.name.key()).await.ok().flatten()?;
    let total = || {
        found
            .available
            .map(|available| total(found.holds(), available))
    };
    found.limit.map(i64::from).or_else(total).or(found.count)
}
