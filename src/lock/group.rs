//! The guards of several locks as one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::LockGuard;
use crate::error::Error;
use crate::lease::{HoldState, LossReason};

/// Beyond those that are needed, slower servers get this long and as long again as these took.
const GRACE: Duration = Duration::from_millis(2);

/// Held while at least `need` of its guards are.
pub(crate) struct Group {
    name: Arc<str>,
    guards: Vec<LockGuard>,
    need: usize,
}

impl Group {
    pub(crate) fn new(name: Arc<str>, guards: Vec<LockGuard>, need: usize) -> Self {
        Group { name, guards, need }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn first(&self) -> &LockGuard {
        &self.guards[0]
    }

    /// Releases all; an error, if so many failed that it was not held.
    ///
    /// CANCEL: a release that is not waited for goes on in the background; so does that of a server
    /// that is not needed.
    pub(crate) async fn unlock(self) -> Result<(), Error> {
        let spare = self.guards.len() - self.need;
        let guards = self.guards.into_iter();
        let mut releases: FuturesUnordered<_> =
            guards.map(|guard| Box::pin(guard.unlock())).collect();
        let (mut fine, mut errors) = (0, Vec::new());
        while let Some(released) = releases.next().await {
            match released {
                Ok(()) => fine += 1,
                Err(error) => errors.push(error),
            }
            if fine == self.need {
                return Ok(());
            }
        }
        Err(telling(errors, spare))
    }

    pub(crate) fn state(&self) -> HoldState {
        let count =
            |wanted: HoldState| self.guards.iter().filter(|guard| guard.state() == wanted).count();
        let held = count(HoldState::Held);
        match held + count(HoldState::Uncertain) {
            _ if held >= self.need => HoldState::Held,
            live if live >= self.need => HoldState::Uncertain,
            _ => HoldState::Lost,
        }
    }

    /// When so many are over that too few are left.
    pub(crate) fn deadline(&self) -> Instant {
        // Those that are lost have none any more: they come last.
        let end = |guard: &LockGuard| (guard.loss().is_none(), guard.deadline());
        let mut ends: Vec<_> = self.guards.iter().map(end).collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        ends[self.need - 1].1
    }

    /// Why it is not held any more.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let lost: Vec<_> = self.guards.iter().filter_map(LockGuard::loss).collect();
        let spare = self.guards.len() - self.need;
        lost.get(spare).copied()
    }

    pub(crate) fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let mut losses: FuturesUnordered<_> =
            self.guards.iter().map(LockGuard::lost_later).collect();
        let mut spare = self.guards.len() - self.need;
        async move {
            loop {
                match losses.next().await {
                    Some(_) if spare > 0 => spare -= 1,
                    Some(reason) => return reason,
                    None => std::future::pending().await,
                }
            }
        }
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let guards = self.guards.iter();
        let extended = guards.map(|guard| Box::pin(guard.extend(lease)));
        // CANCEL: where it is not waited for, the lease is extended or not.
        let (extended, errors) = gather(extended, self.need).await;
        if extended.len() >= self.need {
            return Ok(());
        }
        Err(telling(errors, self.guards.len() - self.need))
    }

    /// As often as so many of them are held.
    pub(crate) fn hold_count(&self) -> u32 {
        let mut counts: Vec<_> = self.guards.iter().map(LockGuard::hold_count).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts[self.need - 1]
    }

    pub(crate) fn forget(self) {
        self.guards.into_iter().for_each(LockGuard::forget);
    }
}

/// Asks all at once. When so many have agreed, slower ones get as long again and a moment.
pub(super) async fn gather<T>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
    need: usize,
) -> (Vec<T>, Vec<Error>) {
    let started = Instant::now();
    let mut asked: FuturesUnordered<_> = asked.collect();
    let (mut agreed, mut errors) = (Vec::new(), Vec::new());
    let mut enough = None;
    loop {
        let next = match enough {
            None => asked.next().await,
            Some(until) => timeout_at(until, asked.next()).await.ok().flatten(),
        };
        match next {
            Some(Ok(answer)) => agreed.push(answer),
            Some(Err(error)) => errors.push(error),
            None => return (agreed, errors),
        }
        if agreed.len() >= need && enough.is_none() {
            enough = Some(Instant::now() + started.elapsed() + GRACE);
        }
    }
}

/// Of the errors of members, the one that says what became of all: lost, if too many are.
fn telling(errors: Vec<Error>, spare: usize) -> Error {
    let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
    let lost = errors.iter().filter(|error| is_loss(error)).count() > spare;
    errors.into_iter().find(|error| is_loss(error) == lost).unwrap_or(Error::Closed)
}
