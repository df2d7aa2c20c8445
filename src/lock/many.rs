//! Several locks as one: all of them, or a majority.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::group::{Group, gather};
use super::members::{excluded, fault_of};
use super::one::{One, Wanted};
use super::{Holder, Lock, LockGuard, Target};
use crate::error::ConfigError;
use crate::error::{Cause, Error};
use crate::lease::Lease;
use crate::session::request::Wait;
use crate::session::several::acquire_together;

/// How long the next member is waited for while others are held, at most.
const HELD_WAIT: Duration = Duration::from_secs(1);
/// Between two rounds, at most: others get their chance.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two rounds for a quorum, at most: rivals that took a part each drift apart.
const QUORUM_PAUSE: Duration = Duration::from_millis(200);
/// A server may take this part of the lease to answer.
const SERVER_SHARE: u32 = 20;

#[derive(Clone)]
pub(crate) struct Many {
    pub(super) members: Vec<Lock>,
    /// How many of them must be held.
    need: usize,
    /// They are on servers that know nothing of each other.
    pub(super) quorum: bool,
    name: Arc<str>,
    pub(super) fault: Option<ConfigError>,
}

impl Many {
    pub(crate) fn all(members: Vec<Lock>) -> Self {
        // All of all are all: they have one order then, too.
        let mut members: Vec<_> = members.into_iter().flat_map(Lock::needed).collect();
        members.sort_by_cached_key(Lock::rank);
        let need = members.len();
        let mut all = Many::new(members, need);
        if all.fault.is_none() && excluded(&all.members) {
            let reason = "the same lock of one server was given twice";
            all.fault = Some(ConfigError::Members { reason });
        }
        all
    }

    pub(crate) fn majority(members: Vec<Lock>) -> Self {
        let majority = members.len() / 2 + 1;
        Many { quorum: true, ..Many::new(members, majority) }
    }

    fn new(members: Vec<Lock>, need: usize) -> Self {
        let names: Vec<_> = members.iter().map(Lock::name).collect();
        let name = Arc::from(names.join("+"));
        let fault = fault_of(&members);
        Many { members, need, quorum: false, name, fault }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn change(&mut self, change: &dyn Fn(&mut One)) {
        let members = std::mem::take(&mut self.members);
        self.members = members.into_iter().map(|member| member.changed(change)).collect();
    }

    /// For a caller that may stop polling: what was taken until then is released as by a drop.
    ///
    /// Boxed, as members may be several locks themselves.
    pub(super) fn attended(
        self: Arc<Self>,
        wanted: Wanted,
    ) -> BoxFuture<'static, Result<LockGuard, Error>> {
        Box::pin(async move {
            if let Some(fault) = &self.fault {
                return Err(Error::Config(fault.clone()));
            }
            let first = self.members.iter().find_map(|member| member.target.ones().pop());
            let session = first.expect("BUG: there are members").handle.session.clone();
            let started = Instant::now();
            let work = || {
                let (many, wanted) = (self.clone(), wanted.clone());
                async move { many.take(&wanted, started).await }
            };
            let done = session.attendance.attend_until_over(wanted.wait, work).await;
            done.unwrap_or_else(|| Err(self.timed_out(started, &[])))
        })
    }

    async fn take(&self, wanted: &Wanted, started: Instant) -> Result<LockGuard, Error> {
        let taken = if self.quorum {
            self.take_majority(wanted, started).await
        } else {
            self.take_all(wanted, started).await
        };
        taken.map(|guards| LockGuard::of(Group::new(self.name.clone(), guards, self.need)))
    }

    /// The last round came to these errors.
    fn timed_out(&self, started: Instant, errors: &[Error]) -> Error {
        let (name, waited) = (self.name.clone(), started.elapsed());
        let stays = |error: &&Error| matches!(error, Error::Timeout { no_expiry: true, .. });
        let no_expiry = self.in_the_way(errors.iter().filter(stays).count(), self.members.len());
        let own = errors.iter().find_map(|error| match error {
            Error::Timeout { by_this_client: true, holder, .. } => Some(holder.clone()),
            _ => None,
        });
        let by_this_client = own.is_some();
        Error::Timeout { name, waited, no_expiry, by_this_client, holder: own.flatten() }
    }

    async fn take_all(&self, wanted: &Wanted, started: Instant) -> Result<Vec<LockGuard>, Error> {
        let (mut doubt, mut last, mut first) = (None, Vec::new(), 0);
        loop {
            // CANCEL: the guards release what was taken.
            let taken = match self.take_together(wanted).await {
                Ok(Some(guards)) => Ok(guards),
                Err(error) if wanted.wait == Wait::Once || !error.is_retryable() => Err(error),
                Ok(None) => self.take_in_order(wanted, &mut first).await,
                Err(error) => {
                    doubt = doubt.or(Some(error).filter(Error::may_be_held));
                    self.take_in_order(wanted, &mut first).await
                }
            };
            match taken {
                Ok(guards) if guards.iter().all(|guard| guard.check().is_ok()) => {
                    return Ok(guards);
                }
                // The first one's lease ended while the last one was waited for.
                Ok(guards) => self.release(guards, wanted.wait).await,
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) if wanted.wait.is_over() && !error.is_timeout() => {
                    // What was in doubt stays so.
                    return Err(doubt.unwrap_or(error));
                }
                Err(error) => {
                    last = vec![error.clone()];
                    doubt = doubt.or(Some(error).filter(Error::may_be_held));
                }
            }
            if wanted.wait.is_over() {
                // What was in doubt stays so.
                return Err(doubt.unwrap_or_else(|| self.timed_out(started, &last)));
            }
            pause(PAUSE.mul_f64(fastrand::f64()), wanted.wait).await;
        }
    }

    /// One call for all, if all are plain locks of one client and free.
    async fn take_together(&self, wanted: &Wanted) -> Result<Option<Vec<LockGuard>>, Error> {
        let ones: Option<Vec<&One>> = self.members.iter().map(Lock::one).collect();
        let Some(ones) = ones.filter(|ones| ones.len() > 1) else { return Ok(None) };
        let handle = &ones[0].handle;
        if !ones.iter().all(|one| Arc::ptr_eq(&one.handle.session, &handle.session)) {
            return Ok(None);
        }
        let requests = ones.iter().map(|one| one.request(wanted));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let taken = acquire_together(handle, &requests).await?;
        Ok(taken.map(|tenancies| tenancies.into_iter().map(LockGuard::new).collect()))
    }

    /// One after another; what was taken is released if one cannot be had. That one is the `first` of
    /// the next round: with nothing held it may be waited for as long as its queue takes, as in the
    /// `std::lock` of C++.
    async fn take_in_order(
        &self,
        wanted: &Wanted,
        first: &mut usize,
    ) -> Result<Vec<LockGuard>, Error> {
        let mut guards = Vec::with_capacity(self.members.len());
        let others = (0..self.members.len()).filter(|at| *at != *first);
        let order: Vec<_> = std::iter::once(*first).chain(others).collect();
        for at in order {
            let free = guards.is_empty();
            let wait = if free { wanted.wait } else { at_most(wanted) };
            let taking = Box::pin(self.members[at].target.take(Wanted { wait, ..wanted.clone() }));
            let taken = tokio::select! {
                biased;
                taken = taking => taken,
                // CANCEL: the place in the member's room is left.
                () = self.closing(), if free => Err(Error::Closed),
            };
            match taken {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    self.release(guards, wanted.wait).await;
                    *first = at;
                    return Err(error);
                }
            }
        }
        self.begin_lease(&guards, wanted).await;
        Ok(guards)
    }

    /// Until the client of a member goes, without which nothing is held: the wait for another one
    /// would be in vain.
    async fn closing(&self) {
        let mut seen = HashSet::new();
        let clients = self.members.iter().filter_map(Lock::one).map(|one| &one.handle.session);
        let mut closing: FuturesUnordered<_> = clients
            .filter(|session| seen.insert(session.client_id()))
            .map(|session| session.stopping())
            .collect();
        if closing.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// A fixed lease begins when the last one is taken: the others have waited for it.
    async fn begin_lease(&self, guards: &[LockGuard], wanted: &Wanted) {
        let Lease::Fixed(lease) = wanted.lease else { return };
        let whole = Instant::now() + lease - lease / SERVER_SHARE;
        let older = guards.iter().filter(|guard| guard.deadline() < whole);
        // What is not confirmed keeps its deadline, and the guard knows it.
        self.within(wanted.wait, join_all(older.map(|guard| Box::pin(guard.extend(lease))))).await;
    }

    /// Releases all of them; what is not confirmed within the wait goes on in the background.
    async fn release(&self, guards: Vec<LockGuard>, wait: Wait) {
        // CANCEL: so does each release that is dropped.
        self.within(wait, join_all(guards.into_iter().map(|guard| Box::pin(guard.unlock())))).await;
    }

    async fn take_majority(
        &self,
        wanted: &Wanted,
        started: Instant,
    ) -> Result<Vec<LockGuard>, Error> {
        let (mut answered, mut last) = (0, Vec::new());
        loop {
            let (guards, errors) = self.ask_all(wanted).await;
            let valid = guards.iter().filter(|guard| guard.check().is_ok()).count();
            if valid >= self.need {
                return Ok(guards);
            }
            let heard = guards.len() + errors.iter().filter(|error| error.is_timeout()).count();
            self.release(guards, wanted.wait).await;
            // Beyond the spare ones, a server that will never agree is one too many.
            let mut fatal = errors.iter().filter(|error| !error.is_retryable());
            if let Some(error) = fatal.nth(self.members.len() - self.need) {
                return Err(error.clone());
            }
            // The last round may be too short for an answer.
            if heard >= answered || !wanted.wait.is_over() {
                (answered, last) = (heard, errors);
            }
            if wanted.wait.is_over() {
                return Err(if answered >= self.need {
                    self.timed_out(started, &last)
                } else {
                    let nodes = self.members.len();
                    Error::Quorum { needed: self.need, obtained: answered, nodes }
                });
            }
            // Where it is cut short by the end of the wait there is one more round.
            pause(QUORUM_PAUSE.mul_f64(0.25 + 0.75 * fastrand::f64()), wanted.wait).await;
        }
    }

    /// Asks all servers at once, each for a part of the lease at most.
    async fn ask_all(&self, wanted: &Wanted) -> (Vec<LockGuard>, Vec<Error>) {
        let once = &Wanted { wait: Wait::Once, drifts: true, ..wanted.clone() };
        let started = Instant::now();
        let asked = self.members.iter().map(|member| async move {
            let share = started + member.lease(wanted.lease) / SERVER_SHARE;
            let limit = match wanted.wait {
                Wait::Until(_) => self.latest(wanted.wait).map_or(share, |at| at.min(share)),
                Wait::Once | Wait::Forever => share,
            };
            // CANCEL: an answer that is not waited for is undone.
            let answer = timeout_at(limit, Box::pin(member.target.take(once.clone()))).await;
            answer.unwrap_or_else(|_| Err(member.too_slow()))
        });
        gather(asked, self.need).await
    }

    /// When an answer comes too late for the wait.
    fn latest(&self, wait: Wait) -> Option<Instant> {
        let ones = self.members.iter().flat_map(|member| member.target.ones());
        let grace =
            ones.map(|one| one.handle.session.reply_times.grace()).max().unwrap_or_default();
        let now = Instant::now();
        match wait {
            Wait::Once => Some(now + grace),
            Wait::Until(deadline) => Some(deadline.max(now) + grace),
            Wait::Forever => None,
        }
    }

    /// Does what is worth an answer within the wait, and no longer.
    async fn within(&self, wait: Wait, work: impl Future) {
        match self.latest(wait) {
            Some(limit) => drop(timeout_at(limit, work).await),
            None => drop(work.await),
        }
    }

    pub(crate) async fn is_locked(&self) -> Result<bool, Error> {
        let seen = self.of_enough(Lock::is_locked).await?;
        Ok(self.in_the_way(seen.iter().filter(|locked| **locked).count(), seen.len()))
    }

    /// So many of those that were seen are locked that the others do not suffice.
    fn in_the_way(&self, locked: usize, seen: usize) -> bool {
        seen - locked < self.need
    }

    pub(crate) async fn hold_count(&self) -> Result<u64, Error> {
        let mut seen = self.of_enough(Lock::hold_count).await?;
        seen.sort_unstable_by(|one, other| other.cmp(one));
        Ok(seen.get(self.need - 1).copied().unwrap_or(0))
    }

    pub(crate) async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        let seen = self.of_enough(Lock::remaining_lease).await?;
        let all = seen.len();
        let mut held: Vec<_> = seen.into_iter().flatten().collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        // That of the last one that its holder needs.
        let last = self.need.min(held.len());
        Ok(if self.in_the_way(held.len(), all) { held.get(last - 1).copied() } else { None })
    }

    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let seen = self.of_enough(Lock::holder).await?;
        let all = seen.len();
        let mut holders: Vec<_> = seen.into_iter().flatten().collect();
        Ok(self.in_the_way(holders.len(), all).then(|| holders.swap_remove(0)))
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool, Error> {
        let seen = self.of_enough(Lock::force_unlock).await?;
        Ok(seen.contains(&true))
    }

    /// What the members say, if enough of them say something.
    async fn of_enough<'a, T, F>(&'a self, ask: impl Fn(&'a Lock) -> F) -> Result<Vec<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        if let Some(fault) = &self.fault {
            return Err(Error::Config(fault.clone()));
        }
        let (mut seen, mut first_error) = (Vec::new(), None);
        for answer in join_all(self.members.iter().map(|member| Box::pin(ask(member)))).await {
            match answer {
                Ok(answer) => seen.push(answer),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match first_error {
            Some(error) if seen.len() < self.need => Err(error),
            _ => Ok(seen),
        }
    }
}

impl Lock {
    fn lease(&self, lease: Lease) -> Duration {
        match (lease, &self.target) {
            (Lease::Fixed(lease) | Lease::RenewedFor(lease), _) => lease,
            (Lease::Renewed, Target::One(one)) => one.handle.session.settings.lease,
            (Lease::Renewed, Target::Many(many)) => {
                many.members.iter().map(|member| member.lease(lease)).min().unwrap_or_default()
            }
        }
    }

    fn too_slow(&self) -> Error {
        let source = Cause::new("no answer within its part of the lease");
        Error::Unavailable { name: Arc::from(self.name()), source }
    }
}

/// The wait for a member while others are held: their lease runs meanwhile.
fn at_most(wanted: &Wanted) -> Wait {
    let most = match wanted.lease {
        Lease::Fixed(lease) => HELD_WAIT.min(lease / 2),
        Lease::Renewed | Lease::RenewedFor(_) => HELD_WAIT,
    };
    let limit = Instant::now() + most.mul_f64(0.5 + fastrand::f64());
    match wanted.wait {
        Wait::Once => Wait::Once,
        Wait::Until(deadline) => Wait::Until(deadline.min(limit)),
        Wait::Forever => Wait::Until(limit),
    }
}

/// Between two rounds, within the wait.
async fn pause(span: Duration, wait: Wait) {
    let end = Instant::now() + span;
    match wait {
        Wait::Until(deadline) => sleep_until(end.min(deadline)).await,
        Wait::Once | Wait::Forever => sleep_until(end).await,
    }
}
