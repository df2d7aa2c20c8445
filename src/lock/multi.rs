//! Several locks as one: all of them. [`quorum`] implements the other rule, a majority.

mod inspect;
mod quorum;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::guard::multi::MultiGuard;
use super::members::{conflicts_on_a_server, set_error_of};
use super::single::SingleLock;
use super::{Lock, LockGuard, Target};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::session::batch_acquire::acquire_batch;
use crate::session::lock_settings::LockSettings;
use crate::session::options::Options;
use crate::session::wait::Wait;

/// The longest wait for a member while other members are held.
const HELD_WAIT: Duration = Duration::from_secs(1);
/// The longest pause between two rounds, so that other clients get a chance.
const PAUSE: Duration = Duration::from_millis(50);
/// The divisor of the lease that gives a server's time to answer: a twentieth.
const SERVER_SHARE: u32 = 20;

#[derive(Clone)]
pub(crate) struct MultiLock {
    pub(super) members: Vec<Lock>,
    /// The number of members that must be held.
    required: usize,
    /// Whether the members are on independent servers.
    pub(super) quorum: bool,
    name: Arc<str>,
    /// Why these members can never be one lock.
    set_error: Option<ConfigError>,
    /// How often a quorum retries, and when.
    pub(super) settings: LockSettings,
}

impl Lock {
    /// Combines several locks into one: all of them are held, or none.
    ///
    /// Members can be of any kind and from any client. The wait covers all members together. If an
    /// acquisition fails, exactly the members that it took are released. The guard is lost as soon as one
    /// member is lost. A fixed lease starts when the last member is taken: the members taken before are
    /// extended then.
    ///
    /// One script call takes all members if they are free, belong to one client and are plain, spin, fenced,
    /// string or write locks. Otherwise the members are taken one after another, by key and then by server
    /// address. The order of `members` does not matter, so two owners of overlapping sets do not deadlock.
    ///
    /// If a member stays busy for about a second, everything is released and that member is waited for first,
    /// as in the `std::lock` of C++. So a member with a long queue is taken in the end. A program that takes
    /// the same locks in another order makes progress too; Redisson's `RMultiLock`, for example, keeps the
    /// given order.
    ///
    /// The first call refuses these sets with [`ConfigError::Members`](crate::ConfigError::Members):
    ///
    /// - no members, or more than 1024
    /// - the same lock of one client twice, directly or in nested sets
    /// - the same lock of two clients with one server address, unless both are read sides
    ///
    /// A member with a bad name is refused with [`ConfigError::Name`](crate::ConfigError::Name).
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Lock};
    ///
    /// # let client = Client::embedded();
    /// let accounts = [client.lock("account:7"), client.fair_lock("account:9")];
    /// let both = Lock::multi(accounts);
    /// let guard = both.lock().await?;
    /// assert!(client.lock("account:7").is_locked().await?);
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi(members: impl IntoIterator<Item = impl Into<Lock>>) -> Lock {
        let members = members.into_iter().map(Into::into).collect();
        Lock::of(Target::multi(MultiLock::all(members)))
    }
}

impl MultiLock {
    pub(crate) fn all(members: Vec<Lock>) -> Self {
        // Members of nested sets are sorted with the others, so that there is one order for all.
        let mut members: Vec<_> = members.into_iter().flat_map(Lock::into_members).collect();
        members.sort_by_cached_key(Lock::rank);
        let required = members.len();
        let mut all = MultiLock::new(members, required);
        if all.set_error.is_none() && conflicts_on_a_server(&all.members) {
            let reason = "the same lock of one server was given twice";
            all.set_error = Some(ConfigError::Members { reason });
        }
        all
    }

    fn new(members: Vec<Lock>, required: usize) -> Self {
        let names: Vec<_> = members.iter().map(Lock::name).collect();
        let name = Arc::from(names.join("+"));
        let (set_error, settings) = (set_error_of(&members), LockSettings::default());
        MultiLock {
            members,
            required,
            quorum: false,
            name,
            set_error,
            settings,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Refuses bad settings, and members that can never be one lock.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Some(error) = &self.set_error {
            return Err(error.clone());
        }
        self.settings.own().check_retries()?;
        self.members.iter().try_for_each(Lock::check)
    }

    pub(crate) fn change(&mut self, change: impl Fn(Lock) -> Lock) {
        let members = std::mem::take(&mut self.members);
        self.members = members.into_iter().map(change).collect();
    }

    /// Takes the locks for a caller that may stop polling. The members taken until then are released, as if
    /// they were dropped.
    ///
    /// Boxed because a member may itself be a set.
    pub(super) fn attended(
        self: Arc<Self>,
        options: Options,
    ) -> BoxFuture<'static, Result<LockGuard, Error>> {
        Box::pin(async move {
            self.check()?;
            // Before any member is asked, because a quorum would continue without a bad one.
            let singles = self
                .members
                .iter()
                .flat_map(|member| member.target.singles());
            singles
                .into_iter()
                .try_for_each(|single| single.resource_for(&options).map(drop))?;
            let first = self
                .members
                .iter()
                .find_map(|member| member.target.singles().pop());
            let session = first
                .expect("BUG: there are members")
                .handle
                .session
                .clone();
            let started = Instant::now();
            // An unattended member would start again within its own part of the wait. So it has the patience
            // of the set.
            let work = |patience| {
                let (multi, options) = (
                    self.clone(),
                    Options {
                        patience,
                        ..options.clone()
                    },
                );
                async move { multi.take(&options, started).await }
            };
            let limits = (options.wait, options.patience);
            let timed_out = || self.timed_out(started, &[]);
            session
                .attendance
                .attend_until_over(limits, work, timed_out)
                .await
        })
    }

    async fn take(&self, options: &Options, started: Instant) -> Result<LockGuard, Error> {
        let taken = if self.quorum {
            self.take_majority(options, started).await
        } else {
            self.take_all(options, started).await
        };
        taken.map(|guards| LockGuard::of(MultiGuard::new(self.name.clone(), guards, self.required)))
    }

    /// The error when the wait ends; `errors` are those of the last round.
    fn timed_out(&self, started: Instant, errors: &[Error]) -> Error {
        let (name, waited) = (self.name.clone(), started.elapsed());
        let stays = |error: &&Error| {
            matches!(
                error,
                Error::Timeout {
                    no_expiry: true,
                    ..
                }
            )
        };
        let no_expiry = self.is_blocked(errors.iter().filter(stays).count(), self.members.len());
        let in_the_way = |own: bool| {
            errors.iter().find_map(|error| match error {
                Error::Timeout {
                    by_this_client,
                    holder,
                    ..
                } if *by_this_client == own => Some(holder.clone()),
                _ => None,
            })
        };
        let own = in_the_way(true);
        let by_this_client = own.is_some();
        let holder = own.or_else(|| in_the_way(false)).flatten();
        Error::Timeout {
            name,
            waited,
            no_expiry,
            by_this_client,
            holder,
            passed_over: 0,
        }
    }

    async fn take_all(&self, options: &Options, started: Instant) -> Result<Vec<LockGuard>, Error> {
        let (mut in_doubt, mut last_errors, mut first) = (None, Vec::new(), 0);
        loop {
            let waited_for = first;
            // CANCEL: the guards release what was taken.
            let taken = match self.take_together(options).await {
                Ok(Some(guards)) => Ok(guards),
                Err(error) if options.wait == Wait::Once || !is_tried_again(&error) => Err(error),
                Ok(None) => self.take_in_order(options, &mut first).await,
                Err(error) => {
                    in_doubt = in_doubt.or(Some(error).filter(Error::may_be_held));
                    self.take_in_order(options, &mut first).await
                }
            };
            match taken {
                Ok(guards) if guards.iter().all(|guard| guard.check().is_ok()) => {
                    return Ok(guards);
                }
                // The lease of one member ended while another member was waited for.
                Ok(guards) => self.release(guards, options.wait).await,
                Err(error) if !is_tried_again(&error) => return Err(error),
                // This member had the whole wait, and has used up its retries.
                Err(error) if first == waited_for && gave_up(&error, options.wait) => {
                    return Err(in_doubt.unwrap_or_else(|| self.timed_out(started, &[error])));
                }
                Err(error) if options.wait.is_over() && !error.is_timeout() => {
                    // A member that may be held is the worse news.
                    return Err(in_doubt.unwrap_or(error));
                }
                Err(error) => {
                    last_errors = vec![error.clone()];
                    in_doubt = in_doubt.or(Some(error).filter(Error::may_be_held));
                }
            }
            if options.wait.is_over() {
                // A member that may be held is the worse news.
                return Err(in_doubt.unwrap_or_else(|| self.timed_out(started, &last_errors)));
            }
            pause(PAUSE.mul_f64(fastrand::f64()), options.wait).await;
        }
    }

    /// Takes all members in one call. `None` if they are not single locks of one client, or not all free.
    async fn take_together(&self, options: &Options) -> Result<Option<Vec<LockGuard>>, Error> {
        let singles: Option<Vec<&SingleLock>> = self.members.iter().map(Lock::single).collect();
        let Some(singles) = singles.filter(|singles| singles.len() > 1) else {
            return Ok(None);
        };
        let handle = &singles[0].handle;
        if !singles
            .iter()
            .all(|single| Arc::ptr_eq(&single.handle.session, &handle.session))
        {
            return Ok(None);
        }
        let requests = singles.iter().map(|single| single.request(options));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let taken = acquire_batch(handle, &requests).await?;
        Ok(taken.map(|shares| shares.into_iter().map(LockGuard::new).collect()))
    }

    /// Takes one member after another. If a member cannot be taken, the members before it are released, and
    /// it becomes the `first` of the next round. With nothing held, it is waited for as long as its queue
    /// takes, as in the `std::lock` of C++.
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
            let wait = if free {
                options.wait
            } else {
                member_wait(options)
            };
            let taking = Box::pin(self.members[at].target.take(Options {
                wait,
                ..options.clone()
            }));
            let taken = tokio::select! {
                biased;
                taken = taking => taken,
                // CANCEL: the waiter leaves the member's local queue.
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

    /// Returns when the client of a member shuts down: the set cannot be held without that member.
    async fn closing(&self) {
        let mut seen = HashSet::new();
        let clients = self
            .members
            .iter()
            .filter_map(Lock::single)
            .map(|single| &single.handle.session);
        let mut closing: FuturesUnordered<_> = clients
            .filter(|session| seen.insert(session.calls.client_id()))
            .map(|session| session.calls.life.stopping())
            .collect();
        if closing.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Starts a fixed lease when the last member is taken: extends the members taken before.
    async fn begin_lease(&self, guards: &[LockGuard], options: &Options) {
        let Lease::Fixed(lease) = options.lease else {
            return;
        };
        let whole = Instant::now() + lease - lease / SERVER_SHARE;
        let older = guards.iter().filter(|guard| guard.deadline() < whole);
        // A member that does not confirm keeps its deadline, and its guard knows it.
        self.bounded(
            options.wait,
            join_all(older.map(|guard| Box::pin(guard.extend(lease)))),
        )
        .await;
    }

    /// Releases the members. Releases not confirmed within the wait continue in the background.
    async fn release(&self, guards: Vec<LockGuard>, wait: Wait) {
        // CANCEL: a dropped release continues in the background.
        self.bounded(
            wait,
            join_all(guards.into_iter().map(|guard| Box::pin(guard.unlock()))),
        )
        .await;
    }

    /// The instant after which a reply is too late for the wait.
    fn reply_deadline(&self, wait: Wait) -> Option<Instant> {
        let singles = self
            .members
            .iter()
            .flat_map(|member| member.target.singles());
        let grace = singles
            .map(|single| single.handle.session.calls.grace())
            .max()
            .unwrap_or_default();
        let now = Instant::now();
        match wait {
            Wait::Once => Some(now + grace),
            Wait::Until(deadline) => Some(deadline.max(now) + grace),
            Wait::Forever => None,
        }
    }

    /// Runs `work` until a reply would be too late for the wait.
    async fn bounded(&self, wait: Wait, work: impl Future) {
        match self.reply_deadline(wait) {
            Some(limit) => drop(timeout_at(limit, work).await),
            None => drop(work.await),
        }
    }
}

/// The wait for a member while others are held. It is short because their leases are running.
fn member_wait(options: &Options) -> Wait {
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

/// Whether the member that was waited for with nothing held gave up before the wait ended: it has a retry
/// count.
fn gave_up(error: &Error, wait: Wait) -> bool {
    matches!(error, Error::Timeout { .. } | Error::Quorum { .. }) && !wait.is_over()
}

/// Whether to retry within the wait. Missing replicas are reported at once, as for a single lock.
fn is_tried_again(error: &Error) -> bool {
    error.is_retryable() && !matches!(error, Error::NotDurable { .. })
}

/// Pauses between two rounds, within the wait.
async fn pause(span: Duration, wait: Wait) {
    let end = Instant::now() + span;
    match wait {
        Wait::Until(deadline) => sleep_until(end.min(deadline)).await,
        Wait::Once | Wait::Forever => sleep_until(end).await,
    }
}
