//! The guards of several locks as one.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::LockGuard;
use crate::error::Error;
use crate::lease::{Ended, HoldState, LossReason};
use crate::session::hold::Hold;

/// Beyond those that are needed, slower servers get this long and as long again as these took.
const GRACE: Duration = Duration::from_millis(2);

/// Held while at least `need` of its guards are.
pub(crate) struct MultiGuard {
    name: Arc<str>,
    guards: Vec<LockGuard>,
    need: usize,
}

impl MultiGuard {
    pub(crate) fn new(name: Arc<str>, guards: Vec<LockGuard>, need: usize) -> Self {
        MultiGuard { name, guards, need }
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
    /// Boxed, as guards may be of several locks themselves.
    pub(crate) fn unlock(self) -> BoxFuture<'static, Result<(), Error>> {
        let spare = self.guards.len() - self.need;
        let guards = self.guards.into_iter();
        let releases: FuturesUnordered<_> = guards.map(|guard| guard.unlock().boxed()).collect();
        released(releases, self.need, spare).boxed()
    }

    /// A further share in each of them.
    pub(crate) fn reenter(&self) -> BoxFuture<'_, Result<MultiGuard, Error>> {
        let again = self.guards.iter().map(|guard| guard.reenter().boxed());
        async move {
            // CANCEL: the guards that there are release their shares.
            let (guards, errors) = gather(again, self.need).await;
            if guards.len() < self.need {
                return Err(telling(errors, self.guards.len() - self.need));
            }
            Ok(MultiGuard::new(self.name.clone(), guards, self.need))
        }
        .boxed()
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.guards.iter().flat_map(LockGuard::holds).collect()
    }

    pub(crate) fn state(&self) -> HoldState {
        let count = |options: HoldState| {
            self.guards.iter().filter(|guard| guard.state() == options).count()
        };
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

    pub(crate) fn ended(&self) -> impl Future<Output = Ended> + Send + 'static {
        let mut ends: FuturesUnordered<_> =
            self.guards.iter().map(LockGuard::ended_later).collect();
        let mut spare = self.guards.len() - self.need;
        async move {
            loop {
                match ends.next().await {
                    Some(Ended::Lost(_)) if spare > 0 => spare -= 1,
                    Some(ended) => return ended,
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

/// Waits until so many are released; an error, if so many failed that it was not held.
async fn released(
    mut releases: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    need: usize,
    spare: usize,
) -> Result<(), Error> {
    let (mut fine, mut errors) = (0, Vec::new());
    while let Some(released) = releases.next().await {
        match released {
            Ok(()) => fine += 1,
            Err(error) => errors.push(error),
        }
        if fine == need {
            return Ok(());
        }
    }
    Err(telling(errors, spare))
}

/// Asks all at once. When so many have agreed, slower ones get as long again and a moment.
pub(in crate::lock) async fn gather<T>(
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
