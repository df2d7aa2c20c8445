//! All of several locks: those that are free at once, the others one after another.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{MultiLock, SERVER_SHARE, pause};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::lock::SingleLock;
use crate::lock::members::conflicts_on_a_server;
use crate::lock::{Lock, LockGuard, LockSet};
use crate::session::poll_watch::Wait;
use crate::session::request::Options;

/// The longest wait for a member while other members are held.
const HELD_WAIT: Duration = Duration::from_secs(1);
/// The longest pause between two rounds, so that other clients get a chance.
const PAUSE: Duration = Duration::from_millis(50);

impl Lock {
    /// Combines several locks into one: all of them are held, or none.
    ///
    /// Members can be of any kind and from any client. The wait covers all members together. If an
    /// acquisition fails, exactly the members that it took are released. The guard is lost as soon
    /// as one member is lost. A fixed lease starts when the last member is taken: the members taken
    /// before are extended then.
    ///
    /// The members are taken in the order of their keys, and then of their server addresses. So the
    /// order of `members` does not matter, and two owners of overlapping sets do not deadlock. Free
    /// members are taken at once, by one write for those of one client. A member that is not free
    /// is waited for before the members after it are taken.
    ///
    /// If a member stays busy for about a second, everything is released and that member is waited
    /// for first, as in the `std::lock` of C++. So a member with a long queue is taken in the end.
    /// A program that takes the same locks in another order makes progress too; Redisson's
    /// `RMultiLock`, for example, keeps the given order.
    ///
    /// The first call refuses these sets with [`ConfigError::Members`]:
    ///
    /// - no members, or more than 1024
    /// - the same lock of one client twice, directly or in nested sets
    /// - the same lock of two clients with one server address, unless both are read sides
    ///
    /// A member with a bad name is refused with [`ConfigError::Name`].
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
        Lock::of(LockSet::multi(MultiLock::all(members)))
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

    pub(super) async fn take_all(
        &self,
        options: &Options,
        started: Instant,
    ) -> Result<Vec<LockGuard>, Error> {
        let (mut in_doubt, mut last_errors, mut first) = (None, Vec::new(), 0);
        loop {
            let waited_for = first;
            // CANCEL: the guards release what was taken.
            let taken = self.take_in_order(options, &mut first, &mut in_doubt).await;
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
                    in_doubt = longer_doubt(in_doubt, &error);
                    last_errors = vec![error];
                }
            }
            if options.wait.is_over() {
                // A member that may be held is the worse news.
                return Err(in_doubt.unwrap_or_else(|| self.timed_out(started, &last_errors)));
            }
            pause(PAUSE.mul_f64(fastrand::f64()), options.wait).await;
        }
    }

    /// Takes the members in their order. If a member cannot be taken, those taken before are
    /// released, and it becomes the `first` of the next round. With nothing held, it is waited for
    /// as long as its queue takes, as in the `std::lock` of C++.
    async fn take_in_order(
        &self,
        options: &Options,
        first: &mut usize,
        in_doubt: &mut Option<Error>,
    ) -> Result<Vec<LockGuard>, Error> {
        let others = (0..self.members.len()).filter(|at| *at != *first);
        let order: Vec<_> = std::iter::once(*first).chain(others).collect();
        let mut guards = Vec::new();
        while guards.len() < order.len() {
            let rest = &order[guards.len()..];
            let taken = self.take_more(&mut guards, rest, options, in_doubt);
            if let Err(error) = taken.await {
                *first = order[guards.len()];
                self.release(guards, options.wait).await;
                return Err(error);
            }
        }
        self.begin_lease(&guards, options).await;
        Ok(guards)
    }

    /// Takes the free members of `rest` at once, up to the first that is not free, which is waited
    /// for.
    async fn take_more(
        &self,
        guards: &mut Vec<LockGuard>,
        rest: &[usize],
        options: &Options,
        in_doubt: &mut Option<Error>,
    ) -> Result<(), Error> {
        let asked = &rest[..self.number_to_ask(rest, options)];
        let free = self.take_free(asked, options, in_doubt).await?;
        let not_free = (free.len() < asked.len() || asked.is_empty()).then(|| rest[free.len()]);
        guards.extend(free);
        if let Some(at) = not_free {
            let guard = self.wait_for(at, guards, options).await?;
            guards.push(guard);
        }
        Ok(())
    }

    /// How many of these members to ask at once: all before the first member that another caller of
    /// this client holds or waits for. The members after that one would be given back at once, and
    /// other callers would find them taken meanwhile. A single member is not asked but waited for.
    fn number_to_ask(&self, rest: &[usize], options: &Options) -> usize {
        if options.wait == Wait::Once {
            return rest.len();
        }
        let is_own = |single: &SingleLock| options.shown.iter().any(|hold| single.is_lock_of(hold));
        let is_busy = |at: &usize| {
            let single = self.members[*at].single();
            single.is_some_and(|single| single.is_in_use_here() && !is_own(single))
        };
        match rest.iter().take_while(|at| !is_busy(at)).count() {
            1 => 0,
            number => number,
        }
    }

    async fn wait_for(
        &self,
        at: usize,
        held: &[LockGuard],
        options: &Options,
    ) -> Result<LockGuard, Error> {
        let wait = if held.is_empty() {
            options.wait
        } else {
            member_wait(options)
        };
        let taking = Box::pin(self.members[at].set.take_member(Options {
            wait,
            ..options.clone()
        }));
        tokio::select! {
            biased;
            taken = taking => taken,
            // CANCEL: the waiter leaves the member's local queue.
            () = self.closing(), if held.is_empty() => Err(Error::Closed),
        }
    }

    /// Asks these members at once, and keeps those before the first that is not free: what is held
    /// must not be out of order while another member is waited for.
    async fn take_free(
        &self,
        asked: &[usize],
        options: &Options,
        in_doubt: &mut Option<Error>,
    ) -> Result<Vec<LockGuard>, Error> {
        let once = Options {
            wait: Wait::Once,
            ..options.clone()
        };
        let asked = asked
            .iter()
            .map(|at| Box::pin(self.members[*at].set.take_member(once.clone())));
        let (mut guards, mut behind, mut refusal) = (Vec::new(), Vec::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(guard) if refusal.is_none() => guards.push(guard),
                Ok(guard) => behind.push(guard),
                Err(error) => {
                    *in_doubt = longer_doubt(in_doubt.take(), &error);
                    refusal.get_or_insert(error);
                }
            }
        }
        let is_over = |refusal: &Error| options.wait == Wait::Once || !is_tried_again(refusal);
        let refusal = refusal.filter(is_over);
        if refusal.is_some() {
            behind.append(&mut guards);
        }
        self.release(behind, options.wait).await;
        refusal.map_or(Ok(guards), Err)
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

/// Whether the member that was waited for with nothing held gave up before the wait ended: it has a
/// retry count.
fn gave_up(error: &Error, wait: Wait) -> bool {
    matches!(error, Error::Timeout { .. } | Error::Quorum { .. }) && !wait.is_over()
}

/// Whether to retry within the wait. Missing replicas are reported at once, as for a single lock.
fn is_tried_again(error: &Error) -> bool {
    error.is_retryable() && !matches!(error, Error::NotDurable { .. })
}

/// Of the errors that say that a member may be held, the one that says so for longest.
fn longer_doubt(before: Option<Error>, error: &Error) -> Option<Error> {
    let lease = |error: &Error| match error {
        Error::Unknown { lease, .. } => Some(*lease),
        _ => None,
    };
    let longer = lease(error) > before.as_ref().and_then(lease);
    if longer { Some(error.clone()) } else { before }
}
