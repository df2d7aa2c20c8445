//! Says what a run waits for.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{Client, Error};
use tokio::time::Instant;

use crate::arguments::RunArguments;
use crate::exit::Failure;
use crate::found::lock;
use crate::output::{complain, short};

/// A run that waits for this long says so. With `--verbose` it looks this often for a change.
const QUIET: Duration = Duration::from_secs(2);

/// How far a run is, before its command starts.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    job: &'a RunArguments,
    began: Instant,
    state: Mutex<State>,
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
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server could not be reached.
    pub(super) fn failed(&self, failure: &Failure) {
        *self.state() = State::Connecting(Some(failure.text.clone()));
    }

    pub(super) fn connected(&self, client: &Client) {
        *self.state() = State::Waiting(client.clone());
    }

    pub(super) fn acquired(&self) {
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
    Ok(Reason::new(format!(
        "{available} of {total} permits are available"
    )))
}
