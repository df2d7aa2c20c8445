//! Several locks as one: all of them. [`quorum`] has the other rule: a majority of them.

mod inspect;
mod quorum;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::guard::multi::MultiGuard;
use super::members::{excluded, fault_of};
use super::single::SingleLock;
use super::{Lock, LockGuard, Target};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::session::batch_acquire::acquire_batch;
use crate::session::request::Options;
use crate::session::wait::Wait;

/// How long the next member is waited for while others are held, at most.
const HELD_WAIT: Duration = Duration::from_secs(1);
/// Between two rounds, at most: others get their chance.
const PAUSE: Duration = Duration::from_millis(50);
/// A server may take this part of the lease to answer.
const SERVER_SHARE: u32 = 20;

#[derive(Clone)]
pub(crate) struct MultiLock {
    pub(super) members: Vec<Lock>,
    /// How many of them must be held.
    need: usize,
    /// They are on servers that know nothing of each other.
    pub(super) quorum: bool,
    name: Arc<str>,
    pub(super) fault: Option<ConfigError>,
}

impl Lock {
    /// Several locks as one: all of them or none.
    ///
    /// They may be of any kinds and of any clients. They are taken in one order, by key and then by
    /// the address of the server, whatever the order in which they are given, so that two owners of
    /// overlapping sets do not wait for each other; a failure releases exactly what was taken. Plain,
    /// spin, fenced, string and write locks of one client are asked for by one script call while all
    /// of them are free. There is one deadline for all; the guard is lost when one member is. A fixed
    /// lease begins when the last one is taken: members that waited for it are extended.
    ///
    /// If a member stays busy for about a second, everything is released, and that member is waited for
    /// first. So nobody keeps what it cannot use, a member with a long queue is taken in the end, and a
    /// program that takes such locks in another order (Redisson's `RMultiLock` keeps the given one) is
    /// given way.
    ///
    /// Refused at the first call: no members, or more than 1024; a member with a bad name; the same lock
    /// of one client twice, also within members that are several themselves; the same lock of two clients
    /// of one address, unless both read.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use leasehold::Lock;
    ///
    /// let accounts = [client.lock("account:7"), client.fair_lock("account:9")];
    /// let both = Lock::multi(accounts);
    /// let guard = both.lock().await?;
    /// # guard.unlock().await
    /// # }
    /// ```
    pub fn multi(members: impl IntoIterator<Item = impl Into<Lock>>) -> Lock {
        let members = members.into_iter().map(Into::into).collect();
        Lock::of(Target::multi(MultiLock::all(members)))
    }
}

impl MultiLock {
    pub(crate) fn all(members: Vec<Lock>) -> Self {
        // All of all are all: they have one order then, too.
        let mut members: Vec<_> = members.into_iter().flat_map(Lock::needed).collect();
        members.sort_by_cached_key(Lock::rank);
        let need = members.len();
        let mut all = MultiLock::new(members, need);
        if all.fault.is_none() && excluded(&all.members) {
            let reason = "the same lock of one server was given twice";
            all.fault = Some(ConfigError::Members { reason });
        }
        all
    }

    fn new(members: Vec<Lock>, need: usize) -> Self {
        let names: Vec<_> = members.iter().map(Lock::name).collect();
        let name = Arc::from(names.join("+"));
        let fault = fault_of(&members);
        MultiLock { members, need, quorum: false, name, fault }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn change(&mut self, change: &dyn Fn(&mut SingleLock)) {
        let members = std::mem::take(&mut self.members);
        self.members = members.into_iter().map(|member| member.changed(change)).collect();
    }

    /// For a caller that may stop polling: what was taken until then is released as by a drop.
    ///
    /// Boxed, as members may be several locks themselves.
    pub(super) fn attended(
        self: Arc<Self>,
        options: Options,
    ) -> BoxFuture<'static, Result<LockGuard, Error>> {
        Box::pin(async move {
            if let Some(fault) = &self.fault {
                return Err(Error::Config(fault.clone()));
            }
            let first = self.members.iter().find_map(|member| member.target.ones().pop());
            let session = first.expect("BUG: there are members").handle.session.clone();
            let started = Instant::now();
            let work = || {
                let (multi, options) = (self.clone(), options.clone());
                async move { multi.take(&options, started).await }
            };
            let done = session.attendance.attend_until_over(options.wait, work).await;
            done.unwrap_or_else(|| Err(self.timed_out(started, &[])))
        })
    }

    async fn take(&self, options: &Options, started: Instant) -> Result<LockGuard, Error> {
        let taken = if self.quorum {
            self.take_majority(options, started).await
        } else {
            self.take_all(options, started).await
        };
        taken.map(|guards| LockGuard::of(MultiGuard::new(self.name.clone(), guards, self.need)))
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

    async fn take_all(&self, options: &Options, started: Instant) -> Result<Vec<LockGuard>, Error> {
        let (mut doubt, mut last, mut first) = (None, Vec::new(), 0);
        loop {
            // CANCEL: the guards release what was taken.
            let taken = match self.take_together(options).await {
                Ok(Some(guards)) => Ok(guards),
                Err(error) if options.wait == Wait::Once || !error.is_retryable() => Err(error),
                Ok(None) => self.take_in_order(options, &mut first).await,
                Err(error) => {
                    doubt = doubt.or(Some(error).filter(Error::may_be_held));
                    self.take_in_order(options, &mut first).await
                }
            };
            match taken {
                Ok(guards) if guards.iter().all(|guard| guard.check().is_ok()) => {
                    return Ok(guards);
                }
                // The first one's lease ended while the last one was waited for.
                Ok(guards) => self.release(guards, options.wait).await,
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) if options.wait.is_over() && !error.is_timeout() => {
                    // What was in doubt stays so.
                    return Err(doubt.unwrap_or(error));
                }
                Err(error) => {
                    last = vec![error.clone()];
                    doubt = doubt.or(Some(error).filter(Error::may_be_held));
                }
            }
            if options.wait.is_over() {
                // What was in doubt stays so.
                return Err(doubt.unwrap_or_else(|| self.timed_out(started, &last)));
            }
            pause(PAUSE.mul_f64(fastrand::f64()), options.wait).await;
        }
    }

    /// One call for all, if all are plain locks of one client and free.
    async fn take_together(&self, options: &Options) -> Result<Option<Vec<LockGuard>>, Error> {
        let ones: Option<Vec<&SingleLock>> = self.members.iter().map(Lock::one).collect();
        let Some(ones) = ones.filter(|ones| ones.len() > 1) else { return Ok(None) };
        let handle = &ones[0].handle;
        if !ones.iter().all(|one| Arc::ptr_eq(&one.handle.session, &handle.session)) {
            return Ok(None);
        }
        let requests = ones.iter().map(|one| one.request(options));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let taken = acquire_batch(handle, &requests).await?;
        Ok(taken.map(|shares| shares.into_iter().map(LockGuard::new).collect()))
    }

    /// One after another; what was taken is released if one cannot be had. That one is the `first` of
    /// the next round: with nothing held it may be waited for as long as its queue takes, as in the
    /// `std::lock` of C++.
    async fn take_in_order(
        &self,
        options: &Options,
        first: &mut usize,
    ) -> Result<Vec<LockGuard>, Error> {
        let mut guards = Vec::with_capacity(self.members.len());
        let others = (0..self.members.len()).filter(|at| *at != *first);
        let order: Vec<_> = std::iter::once(*first).chain(others).collect();
        for at in order {
            let free = guards.is_empty();
            let wait = if free { options.wait } else { at_most(options) };
            let taking =
                Box::pin(self.members[at].target.take(Options { wait, ..options.clone() }));
            let taken = tokio::select! {
                biased;
                taken = taking => taken,
                // CANCEL: the place in the member's room is left.
                () = self.closing(), if free => Err(Error::Closed),
            };
            match taken {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    self.release(guards, options.wait).await;
                    *first = at;
                    return Err(error);
                }
            }
        }
        self.begin_lease(&guards, options).await;
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
    async fn begin_lease(&self, guards: &[LockGuard], options: &Options) {
        let Lease::Fixed(lease) = options.lease else { return };
        let whole = Instant::now() + lease - lease / SERVER_SHARE;
        let older = guards.iter().filter(|guard| guard.deadline() < whole);
        // What is not confirmed keeps its deadline, and the guard knows it.
        self.within(options.wait, join_all(older.map(|guard| Box::pin(guard.extend(lease))))).await;
    }

    /// Releases all of them; what is not confirmed within the wait goes on in the background.
    async fn release(&self, guards: Vec<LockGuard>, wait: Wait) {
        // CANCEL: so does each release that is dropped.
        self.within(wait, join_all(guards.into_iter().map(|guard| Box::pin(guard.unlock())))).await;
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
}

/// The wait for a member while others are held: their lease runs meanwhile.
fn at_most(options: &Options) -> Wait {
    let most = match options.lease {
        Lease::Fixed(lease) => HELD_WAIT.min(lease / 2),
        Lease::Renewed | Lease::RenewedFor(_) => HELD_WAIT,
    };
    let limit = Instant::now() + most.mul_f64(0.5 + fastrand::f64());
    match options.wait {
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
