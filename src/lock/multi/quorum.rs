//! Several locks on independent servers as one: a majority of them. The algorithm is Redlock.

use std::sync::Arc;
use std::time::Duration;

use super::{MultiLock, SERVER_SHARE, pause};
use crate::error::{Cause, Error};
use crate::lease::Lease;
use crate::lock::guard::multi::gather;
use crate::lock::{Lock, LockGuard, LockSet};
use crate::session::poll_watch::Wait;
use crate::session::request::Options;
use crate::session::retry::GrowingPause;
use crate::timer::{Instant, timeout_at};
use crate::transport::{Fault, Lane};

/// The default pause between two rounds. It is random, so that rivals that each took a part drift
/// apart.
const PAUSE: Duration = Duration::from_millis(200);

impl Lock {
    /// Combines locks on independent servers into a quorum lock (`RedLock`): held while a majority
    /// of its members is held.
    ///
    /// Give each member its own server, independent of the others. The lock survives the loss of a
    /// minority of the servers. [Guarantees](crate::guide::guarantees#the-quorum-lock) says what it
    /// guarantees. With string locks as members it interoperates with redsync, node-redlock and
    /// others.
    ///
    /// The algorithm is Redlock. All members are asked at once, and each server has a twentieth of
    /// the lease to answer. The lock is granted if a majority agrees and some validity is left. The
    /// validity is the lease minus the time spent asking and an allowance for clock drift (1 % and
    /// 2 ms). Otherwise all members are released, even where a reply was lost, and asked again
    /// after a random pause. Members are renewed independently. The guard is lost when too few
    /// members are left for a majority.
    ///
    /// The first call refuses these sets with
    /// [`ConfigError::Members`](crate::ConfigError::Members): no members, more than 1024, or the
    /// same lock of one client twice. A member with a bad name is refused with
    /// [`ConfigError::Name`](crate::ConfigError::Name).
    ///
    /// # Errors
    ///
    /// Acquisitions have one more error than other locks: [`Error::Quorum`] if too few
    /// servers answered within the wait.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Lock};
    ///
    /// # let clients: [Client; 3] = std::array::from_fn(|_| Client::embedded());
    /// let lock = Lock::quorum(clients.iter().map(|client| client.string_lock("orders:42")));
    /// let guard = lock.lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "RedLock")]
    #[doc(alias = "red_lock")]
    pub fn quorum(members: impl IntoIterator<Item = impl Into<Lock>>) -> Lock {
        let members = members.into_iter().map(Into::into).collect();
        Lock::of(LockSet::multi(MultiLock::majority(members)))
    }
}

/// A member that did not grant the lock.
struct Refusal {
    member: usize,
    error: Error,
}

impl MultiLock {
    pub(crate) fn majority(members: Vec<Lock>) -> Self {
        let majority = members.len() / 2 + 1;
        MultiLock {
            quorum: true,
            ..MultiLock::new(members, majority)
        }
    }

    pub(super) async fn take_majority(
        &self,
        options: &Options,
        started: Instant,
    ) -> Result<Vec<LockGuard>, Error> {
        let (mut answered, mut last) = (0, Vec::new());
        let own = self.settings;
        let mut own_pause = own.retry_pause.map(GrowingPause::new);
        let mut retries = own.retry_count;
        let mut counted = None;
        loop {
            let (guards, refusals) = self.ask_all(options).await;
            let valid = guards.iter().filter(|guard| guard.check().is_ok()).count();
            if valid >= self.required {
                return Ok(guards);
            }
            let busy = refusals.iter().filter(|refusal| refusal.error.is_timeout());
            let heard = guards.len() + busy.count();
            counted.get_or_insert_with(|| self.counted_waiters());
            self.release(guards, options.wait).await;
            // If more servers refuse for good than the majority can spare, it can never be reached.
            let errors = refusals.iter().map(|refusal| &refusal.error);
            let mut fatal = errors.filter(|error| !error.is_retryable());
            if let Some(error) = fatal.nth(self.members.len() - self.required) {
                return Err(error.clone());
            }
            // The last round may be too short for an answer.
            if heard >= answered || !options.wait.is_over() {
                (answered, last) = (heard, refusals);
            }
            if options.wait.is_over() || retries == Some(0) {
                return Err(if answered >= self.required {
                    let errors: Vec<_> = last.into_iter().map(|refusal| refusal.error).collect();
                    self.timed_out(started, &errors)
                } else {
                    self.too_few(answered, last)
                });
            }
            retries = retries.map(|retries| retries - 1);
            let span = match &mut own_pause {
                Some(own) => own.next(),
                None => PAUSE.mul_f64(0.25 + 0.75 * fastrand::f64()),
            };
            // If the end of the wait cuts the pause short, there is one more round.
            pause(span, options.wait).await;
        }
    }

    /// While it lives, each member counts a waiter: between two rounds it is in no queue.
    fn counted_waiters(&self) -> Vec<Arc<()>> {
        let singles = self.members.iter().flat_map(|member| member.set.singles());
        singles
            .map(|single| single.handle.core().quorum_waiters.clone())
            .collect()
    }

    /// The error when too few servers answered in the last round.
    fn too_few(&self, answered: usize, mut refusals: Vec<Refusal>) -> Error {
        // In the order of the members, not of their failures.
        refusals.sort_by_key(|refusal| refusal.member);
        let silent = refusals
            .iter()
            .filter(|refusal| !refusal.error.is_timeout());
        let cause = |Refusal { member, error }: &Refusal| {
            Cause::new(format!(
                "{}: {}",
                self.members[*member].server(),
                error.cause()
            ))
        };
        Error::Quorum {
            needed: self.required,
            obtained: answered,
            nodes: self.members.len(),
            causes: silent.map(cause).collect(),
        }
    }

    /// Asks all servers at once, and gives each at most its share of the lease.
    async fn ask_all(&self, options: &Options) -> (Vec<LockGuard>, Vec<Refusal>) {
        let once = &Options {
            wait: Wait::Once,
            of_quorum: true,
            ..options.clone()
        };
        let started = Instant::now();
        let asked = self
            .members
            .iter()
            .enumerate()
            .map(|(at, member)| async move {
                let share = started + member.lease(options.lease) / SERVER_SHARE;
                let limit = match options.wait {
                    Wait::Until(_) => self
                        .reply_deadline(options.wait)
                        .map_or(share, |at| at.min(share)),
                    Wait::Once | Wait::Forever => share,
                };
                // CANCEL: a grant that comes later is undone.
                let answer = timeout_at(limit, Box::pin(member.set.take_member(once.clone())));
                let answer = match answer.await {
                    Ok(answer) => answer,
                    Err(_) => Err(member.too_slow().await),
                };
                answer.map_err(|error| Refusal { member: at, error })
            });
        gather(asked, self.required).await
    }
}

impl Lock {
    fn lease(&self, lease: Lease) -> Duration {
        match (lease, &self.set) {
            (Lease::Fixed(lease) | Lease::RenewedFor(lease), _) => lease,
            (Lease::Renewed, LockSet::Single(single)) => {
                single.settings.lease(&single.handle.calls().settings)
            }
            (Lease::Renewed, LockSet::Multi(multi)) => multi
                .members
                .iter()
                .map(|member| member.lease(lease))
                .min()
                .unwrap_or_default(),
        }
    }

    /// The server of a member; of a member that is a set, the first.
    fn server(&self) -> String {
        let singles = self.set.singles();
        let first = singles.first();
        first.map_or_else(String::new, |single| {
            single.handle.calls().transport.server()
        })
    }

    /// The error of a member that took longer than its share. The reason may be that it waits for
    /// the end of its own last attempt, which the server has not confirmed: then the connection
    /// says more.
    async fn too_slow(&self) -> Error {
        let fault = self.set.singles().into_iter().find_map(|single| {
            let key = &single.resource.as_ref().ok()?.key;
            single.handle.calls().transport.fault(Lane::Caller, key)
        });
        let why = match (&fault, self.set.singles().first()) {
            (None, Some(single)) => single.handle.calls().why_silent().await,
            _ => "",
        };
        let slow = || format!("no answer within its part of the lease{why}");
        Error::Unavailable {
            name: Arc::from(self.name()),
            cause: Cause::new(fault.map_or_else(slow, |Fault(text)| text)),
        }
    }
}
