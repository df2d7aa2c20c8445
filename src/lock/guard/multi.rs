//! The guard of several locks as one, made of the guards of its members.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::LockGuard;
use crate::error::Error;
use crate::lease::{Ended, HoldState, LossReason};
use crate::session::hold::Hold;
use crate::timer::{Instant, timeout_at};

/// When enough members have agreed, slower servers get as long again as those took, plus this time.
const GRACE: Duration = Duration::from_millis(2);

/// Held while at least `required` of its guards are held.
pub(crate) struct MultiGuard {
    name: Arc<str>,
    guards: Vec<LockGuard>,
    required: usize,
}

impl MultiGuard {
    pub(crate) fn new(name: Arc<str>, guards: Vec<LockGuard>, required: usize) -> Self {
        MultiGuard {
            name,
            guards,
            required,
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn first(&self) -> &LockGuard {
        &self.guards[0]
    }

    /// Releases the members; an error if too few were still held.
    ///
    /// The future ends when enough members have confirmed. CANCEL: the other releases continue in
    /// the background.
    ///
    /// Boxed because a member may itself be a set.
    pub(crate) fn unlock(self) -> BoxFuture<'static, Result<(), Error>> {
        let spare = self.guards.len() - self.required;
        // The last member first: who waits for the first then finds the others free.
        let guards = self.guards.into_iter().rev();
        let releases: FuturesUnordered<_> = guards.map(|guard| guard.unlock().boxed()).collect();
        released(releases, self.required, spare).boxed()
    }

    /// Another share in the hold of each member.
    pub(crate) fn reenter(&self) -> BoxFuture<'_, Result<MultiGuard, Error>> {
        let again = self.guards.iter().map(|guard| guard.reenter().boxed());
        async move {
            // CANCEL: the new guards release their shares.
            let (guards, errors) = gather(again, self.required).await;
            if guards.len() < self.required {
                return Err(decisive(errors, self.guards.len() - self.required));
            }
            Ok(MultiGuard::new(self.name.clone(), guards, self.required))
        }
        .boxed()
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.guards.iter().flat_map(LockGuard::holds).collect()
    }

    pub(crate) fn state(&self) -> HoldState {
        let count = |state: HoldState| {
            self.guards
                .iter()
                .filter(|guard| guard.state() == state)
                .count()
        };
        let held = count(HoldState::Held);
        match held + count(HoldState::Uncertain) {
            _ if held >= self.required => HoldState::Held,
            live if live >= self.required => HoldState::Uncertain,
            _ => HoldState::Lost,
        }
    }

    /// The instant at which too few members are left.
    pub(crate) fn deadline(&self) -> Instant {
        // Lost members sort last.
        let end = |guard: &LockGuard| (guard.loss().is_none(), guard.deadline());
        let mut ends: Vec<_> = self.guards.iter().map(end).collect();
        ends.sort_unstable_by(|left, right| right.cmp(left));
        ends[self.required - 1].1
    }

    /// Why too few members are left; `None` if enough are.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let lost: Vec<_> = self.guards.iter().filter_map(LockGuard::loss).collect();
        let spare = self.guards.len() - self.required;
        lost.into_iter().nth(spare)
    }

    /// Resolves when too few members are left, with the end of the one that was needed. A member
    /// may end alone, because a guard that re-enters may lack it.
    pub(crate) fn ended(&self) -> impl Future<Output = Ended> + Send + 'static {
        let ends: FuturesUnordered<_> = self.guards.iter().map(LockGuard::ended_later).collect();
        let mut decisive = ends.skip(self.guards.len() - self.required);
        async move {
            match decisive.next().await {
                Some(ended) => ended,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let guards = self.guards.iter();
        let extended = guards.map(|guard| Box::pin(guard.extend(lease)));
        // CANCEL: each lease is either extended or not.
        let (extended, errors) = gather(extended, self.required).await;
        if extended.len() >= self.required {
            return Ok(());
        }
        Err(decisive(errors, self.guards.len() - self.required))
    }

    /// How many times enough members are held.
    pub(crate) fn hold_count(&self) -> u32 {
        let mut counts: Vec<_> = self.guards.iter().map(LockGuard::hold_count).collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        counts[self.required - 1]
    }

    pub(crate) fn record_taker(&self) {
        self.guards.iter().for_each(LockGuard::record_taker);
    }

    pub(crate) fn forget(self) {
        self.guards.into_iter().for_each(LockGuard::forget);
    }
}

/// Waits until enough members are released; an error if too many releases fail.
async fn released(
    mut releases: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    required: usize,
    spare: usize,
) -> Result<(), Error> {
    let (mut confirmed, mut errors) = (0, Vec::new());
    while let Some(released) = releases.next().await {
        match released {
            Ok(()) => confirmed += 1,
            Err(error) => errors.push(error),
        }
        if confirmed == required {
            return Ok(());
        }
    }
    Err(decisive(errors, spare))
}

/// Asks all members at once. Once enough have agreed, slower members get as long again plus
/// [`GRACE`].
pub(in crate::lock) async fn gather<T, E>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, E>>>,
    required: usize,
) -> (Vec<T>, Vec<E>) {
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
        if agreed.len() >= required && enough.is_none() {
            enough = Some(Instant::now() + started.elapsed() + GRACE);
        }
    }
}

/// The error that decides: a loss if too many members are lost, otherwise another failure.
fn decisive(errors: Vec<Error>, spare: usize) -> Error {
    let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
    let lost = errors.iter().filter(|error| is_loss(error)).count() > spare;
    errors
        .into_iter()
        .find(|error| is_loss(error) == lost)
        .unwrap_or(Error::Closed)
}
