//! Locks of every kind: one type, one set of methods.

mod acquire;
mod awaited;
mod fenced;
mod guard;
mod inspect;
mod members;
mod multi;
mod restore;
mod settings;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::Either;

use crate::error::{ConfigError, Error};
use crate::holder::Holder;
use crate::lease::Lease;
use crate::protocol::calls::Force;
use crate::protocol::forced::{Forced, forced};
use crate::protocol::replies::Inspected;
use crate::protocol::resource::Resource;
use crate::protocol::waiters;
use crate::protocol::waiters::Waiting;
use crate::session::acquire::acquire;
use crate::session::core::Handle;
use crate::session::hold::Hold;
use crate::session::poll_watch::{POLL_WITHIN, Wait};
use crate::session::reentry;
use crate::session::reentry::Proofs;
use crate::session::request::{Options, Request};
use crate::session::settings::LockSettings;
pub use acquire::Acquire;
pub use fenced::FencedGuard;
pub use guard::{Guard, LockGuard};
use guard::{flat, run};
pub use inspect::Waiters;
use multi::MultiLock;

/// A distributed lock of any kind: plain, fair, fenced, one side of a read/write lock, or several
/// locks as one.
///
/// The methods of [`Client`](crate::Client) make locks, and describe what is special about each
/// kind. Everything that all kinds share is described here. `G` is the type of the guards:
/// [`FencedGuard`] for a fenced lock, [`LockGuard`] for all others.
///
/// [Choosing](crate::guide::choosing) helps to find the kind, the wait and the lease. [What the
/// compiler cannot see](crate::guide::what_the_compiler_cannot_see) shows code that compiles and
/// protects nothing.
///
/// # Exclusion
///
/// **Every acquisition is its own owner.** Two acquisitions exclude each other, even if they come
/// from the same lock value, task or client. A lock value can be shared or cloned freely. A guard
/// does not borrow the lock, and can be moved to another thread and dropped there.
///
/// # Taking it again
///
/// A caller that can prove that it holds the lock takes it again without waiting, and the last
/// release frees the lock. The proof is a guard or a section:
///
/// - [`guard.reenter()`](LockGuard::reenter) returns another guard of the same hold.
/// - Code in a *section* takes the lock by its name, from the same client. A section is the work
///   passed to [`lock.run(..)`](Lock::run) or [`guard.run(..)`](LockGuard::run). Futures that run
///   concurrently in the section are all inside. Tasks spawned from it are not.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # use std::time::Duration;
/// # use leasehold::{Client, Error, Lease};
/// const WAIT: Duration = Duration::from_secs(2);
///
/// async fn transfer(client: &Client) -> Result<(), Error> {
///     client
///         .lock("account:7")
///         .try_run(WAIT, Lease::Renewed, async |_guard| {
///             // …
///             book(client).await // takes the lock again: it is inside
///         })
///         .await
/// }
///
/// async fn book(client: &Client) -> Result<(), Error> {
///     let guard = client.lock("account:7").try_lock(WAIT, Lease::Renewed).await?;
///     // …
///     guard.unlock().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> { transfer(&Client::embedded()).await }
/// ```
///
/// Every other acquisition waits for the release, even one in the task that holds the lock. The
/// [`Error::Timeout`] says whether a hold of this client was in the way.
///
/// # Futures that nobody polls
///
/// If a woken acquisition is not polled within [`POLL_WITHIN`](Lock::POLL_WITHIN), the next waiter
/// is served instead, or the lock is released. On a runtime that is slow for all its tasks, the
/// limit is about a second. When the future is polled again, it queues again behind the waiters
/// that came in the meantime, and its limit doubles. So a caller that polls late still gets the
/// lock. If its wait ends first, [`Error::Timeout`] reports how often this happened.
///
/// [`unlock`](LockGuard::unlock) does not depend on polling: the release is sent in any case. A
/// guard keeps the lock, even if its section is never polled. [`Acquire::max_hold`] limits that.
///
/// # Fairness
///
/// Waiters of one client are served in the order of arrival. An acquisition with a zero wait does
/// not queue. There is no order between clients. A client that has served its own waiters for a
/// while lets other clients go first.
///
/// # Lease
///
/// A hold with [`Lease::Renewed`](crate::Lease::Renewed) lasts while its guard is alive and its
/// process can reach Redis. A fixed lease expires even if the guard is alive. Taking the lock again
/// never shortens the lease, and releasing an inner guard does not change it.
///
/// # What it does not protect
///
/// A lock with a lease cannot stop a holder that is paused for longer than the lease. Check the
/// guard before each irreversible step. Where that is not enough, let the resource check a [fencing
/// token](crate::guide::fencing).
///
/// # Redis cost
///
/// | Path         | Round trips     | Sent                                               |
/// |--------------|-----------------|----------------------------------------------------|
/// | free         | 1               | `lock_acquire`                                     |
/// | held         | 2 + w, + 1      | `lock_acquire` each time, one `SUBSCRIBE` per name |
/// | timed out    | 1               | `lock_inspect`, by one waiter of a client: who is in the way |
/// | handed over  | 0               | none                                               |
/// | re-entered   | 1               | `lock_reenter`                                     |
/// | released     | 1               | `lock_release` |
/// | while held   | 1 per third of the lease | `lock_renew`, many holds in one call      |
/// | while waited for | 1 a second  | `keys_exist`, many names in one call               |
///
/// `w` is the number of times that the waiter is woken.
///
/// # Keys
///
/// The hash at the lock's name and the channel `redisson_lock__channel:{name}`, both as in
/// Redisson.
#[must_use = "a lock holds nothing until it is awaited, or `lock`, `try_lock` or `run` is"]
pub struct Lock<G = LockGuard> {
    set: LockSet,
    guard: PhantomData<fn() -> G>,
}

/// A fenced lock: its guards carry a growing number. Made by
/// [`Client::fenced_lock`](crate::Client::fenced_lock).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, FencedLock};
///
/// let lock: FencedLock = Client::embedded().fenced_lock("report");
/// let first = lock.lock().await?;
/// let earlier = first.token(); // goes with each write to the resource
/// first.unlock().await?;
///
/// let second = lock.lock().await?;
/// assert!(second.token() > earlier);
/// second.unlock().await?;
/// # Ok(())
/// # }
/// ```
pub type FencedLock = Lock<FencedGuard>;

/// One lock, or several as one.
#[derive(Clone)]
enum LockSet {
    Single(SingleLock),
    Multi(Arc<MultiLock>),
}

impl LockSet {
    fn multi(multi: MultiLock) -> Self {
        LockSet::Multi(Arc::new(multi))
    }
}

impl Lock {
    /// If a woken acquisition is not polled within this time, the next waiter is served instead.
    pub const POLL_WITHIN: Duration = POLL_WITHIN;
}

// These come first in the documentation, because rustdoc keeps the order of the source.
impl<G: Guard> Lock<G> {
    /// Takes the lock with a renewed lease, and waits as long as it takes.
    ///
    /// An outage of Redis does not end the wait.
    ///
    /// **A second `lock()` in one task waits for ever** if that task holds the first guard: it
    /// waits for its own release. Use [`guard.reenter()`](crate::LockGuard::reenter) or a
    /// [section](Lock#taking-it-again), or give the call a wait: the [`Error::Timeout`] of
    /// [`try_lock`](Lock::try_lock) then says that the holder [is this
    /// task](crate::inspect::Holder::is_this_task). After ten seconds, an event of the feature
    /// `tracing` says so.
    ///
    /// **In a loop around `select!`, make the future once, before the loop.** A call of `lock()` in
    /// the loop is dropped in each turn that another branch wins. It begins again behind all other
    /// waiters, and may never get the lock.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use std::time::Duration;
    /// # let client = leasehold::Client::embedded();
    /// # let lock = client.lock("orders:42");
    /// # let held = lock.lock().await?;
    /// # tokio::spawn(async move { tokio::time::sleep(Duration::from_secs(3)).await; drop(held) });
    /// # let mut ticks = tokio::time::interval(Duration::from_secs(1));
    /// let mut waiting = std::pin::pin!(lock.lock());
    /// let guard = loop {
    ///     tokio::select! {
    ///         guard = &mut waiting => break guard?, // the same future in each turn
    ///         // Short: the future is not polled meanwhile.
    ///         _ = ticks.tick() => println!("still waiting"),
    ///     }
    /// };
    /// # guard.unlock().await
    /// # }
    /// ```
    ///
    /// # Redis cost
    ///
    /// See the table on [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. See [`try_lock`](Lock::try_lock).
    ///
    /// # Errors
    ///
    /// - [`Error::Protocol`]: Redis refuses the call, and retrying does not help.
    /// - [`Error::NotDurable`]: too few copies of the grant were confirmed, and it is being undone.
    /// - [`Error::AlreadyHeld`]: the call would wait for its own owner.
    /// - [`Error::Timeout`] or [`Error::Quorum`]: a [retry count](Lock::with_retry_count) was used
    ///   up.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name or a setting of the lock cannot be used.
    pub async fn lock(&self) -> Result<G, Error> {
        self.take(|| Options::new(Wait::Forever, Lease::Renewed))
            .await
    }

    /// Takes the lock, and waits at most `wait` for others to release it.
    ///
    /// The hold lasts for `lease`. With [`Lease::Renewed`] the lease is renewed in the background
    /// while the guard is alive. A fixed lease expires even if the guard is alive.
    ///
    /// A `wait` of zero tries once, like [`try_lock_now`](Lock::try_lock_now). A `wait` of more
    /// than a year never ends. If a call is in flight when the wait ends, its reply still counts:
    /// the acquisition waits for it about as long as replies usually take.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The caller loses its place among the waiters of this client. If
    /// a call is in flight when the future is dropped, a release is queued behind that call. The
    /// release undoes this attempt only, never an outer hold of the same owner.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/acquisition.md")]
    pub async fn try_lock(&self, wait: Duration, lease: Lease) -> Result<G, Error> {
        self.take(|| Options::new(Wait::from(wait), lease)).await
    }

    /// Takes the lock, runs `work` while the lock is held, and releases it.
    ///
    /// `work` gets the guard and is a *section*: the code that it calls can take the same lock
    /// again. If the lock is lost, `work` is dropped at its next await. The lock stays held until
    /// the last clone of the guard is dropped, so do not keep a clone after `work`.
    ///
    /// **A task that `work` spawns is not part of it.** It is not inside the section, it goes on
    /// after the release, and it goes on if the lock is lost. Run concurrent work in one future
    /// instead, by `join!` or `try_join!`. Or let `work` own its tasks in a `JoinSet`, which ends
    /// them when it is dropped, and await them all.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use std::time::Duration;
    /// # use leasehold::{Client, Lease};
    /// # async fn book() {}
    /// # async fn ship() {}
    /// # let lock = Client::embedded().lock("orders:42");
    /// lock.run(Duration::from_secs(2), Lease::Renewed, async |_guard| {
    ///     tokio::join!(book(), ship()); // not tokio::spawn(ship())
    /// })
    /// .await
    /// # }
    /// ```
    ///
    /// # Redis cost
    ///
    /// One acquisition and one release: see the table on [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. `work` is dropped; see [`try_lock`](Lock::try_lock) for the
    /// acquisition.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the lock was lost before `work` ended. After each other error, `work` did
    ///   not start.
    #[doc = include_str!("error/returned_by/acquisition.md")]
    ///
    /// If `work` ended in time, its result is returned even if the release fails. The release then
    /// continues in the background, and [`Stats::releases_pending`](crate::Stats::releases_pending)
    /// counts it.
    pub async fn run<F, W>(&self, wait: Duration, lease: Lease, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Arc<G>) -> W,
        W: Future,
    {
        run(self.try_lock(wait, lease).await?, work).await
    }

    /// Like [`run`](Lock::run), for work that returns a `Result`.
    ///
    /// `E` is any error that a leasehold [`Error`] can become. If the work uses `?` and the result
    /// is used with `?` as well, the compiler cannot know `E`: *type annotations needed*. Name the
    /// error once, at the end of the work:
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use std::time::Duration;
    /// # use leasehold::{Client, Error, Lease};
    /// # async fn book() -> Result<(), Error> { Ok(()) }
    /// # let lock = Client::embedded().lock("orders:42");
    /// lock.try_run(Duration::from_secs(2), Lease::Renewed, async |_guard| {
    ///     book().await?;
    ///     Ok::<_, Error>(())
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Without the last `?`, as the last expression of a function, it needs no annotation.
    ///
    /// # Redis cost
    ///
    /// See [`run`](Lock::run).
    ///
    /// # Cancel safety
    ///
    /// See [`run`](Lock::run).
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](Lock::run).
    pub async fn try_run<T, E, F, W>(&self, wait: Duration, lease: Lease, work: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnOnce(Arc<G>) -> W,
        W: Future<Output = Result<T, E>>,
    {
        flat(self.run(wait, lease, work).await)
    }

    /// Takes the lock if it is free, without waiting.
    ///
    /// While a server does not answer, this takes up to twice the
    /// [`command_timeout`](crate::ClientBuilder::command_timeout): once for the client's own
    /// releases of the lock, if some are on their way, and once for the reply. For a shorter bound
    /// of one call, use [`try_lock`](Lock::try_lock) with a short wait, which then takes at most
    /// half a second longer than that wait. Or put any call of this crate into
    /// `tokio::time::timeout`: the client undoes what a dropped call has begun.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. See [`try_lock`](Lock::try_lock).
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/acquisition.md")]
    pub async fn try_lock_now(&self, lease: Lease) -> Result<G, Error> {
        self.take(|| Options::new(Wait::Once, lease)).await
    }

    /// Starts an acquisition with more settings than [`try_lock`](Lock::try_lock) takes. Set a
    /// [wait](Acquire::wait): without one it waits as long as it takes, like [`lock`](Lock::lock).
    pub fn acquire(&self) -> Acquire<'_, G> {
        Acquire::new(self)
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.set.name()
    }
}

impl<G: Guard> Lock<G> {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        Lock::of(LockSet::Single(SingleLock {
            handle,
            resource: resource.map(Arc::new),
            settings: LockSettings::default(),
        }))
    }

    /// The options are made by the future, because it would keep space for them otherwise.
    async fn take(&self, options: impl FnOnce() -> Options) -> Result<G, Error> {
        let taken = {
            let mut options = options();
            options.shows(reentry::holds());
            self.set.take(options)?
        };
        let guard = G::of(taken.await?)?;
        // Only now: an acquisition that never reached its caller is released at once.
        guard.as_ref().record_taker();
        Ok(guard)
    }

    /// Whether one of `holds` belongs to this lock or to one of its members.
    fn is_lock_of_any(&self, holds: &[Arc<Hold>]) -> bool {
        let singles = self.set.singles();
        singles
            .into_iter()
            .any(|single| holds.iter().any(|hold| single.is_lock_of(hold)))
    }
}

impl<G> Lock<G> {
    fn of(set: LockSet) -> Self {
        Lock {
            set,
            guard: PhantomData,
        }
    }
}

impl LockSet {
    fn name(&self) -> &str {
        match self {
            LockSet::Single(single) => single
                .resource
                .as_ref()
                .map_or("", |resource| &*resource.name),
            LockSet::Multi(multi) => multi.name(),
        }
    }

    fn take(
        &self,
        options: Options,
    ) -> Result<impl Future<Output = Result<LockGuard, Error>>, ConfigError> {
        Ok(match self {
            LockSet::Single(single) => {
                let request = single.request(&options)?;
                Either::Left(acquire(&single.handle, request).map_ok(LockGuard::new))
            }
            LockSet::Multi(multi) => Either::Right(multi.clone().watched(options)),
        })
    }

    /// Takes it as a member of several locks.
    async fn take_member(&self, options: Options) -> Result<LockGuard, Error> {
        self.take(options)?.await
    }
}

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Lock::of(self.set.clone())
    }
}

impl<G> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.set.name())
            .finish_non_exhaustive()
    }
}

// One lock on one server, and the calls that it makes to the session.

/// One lock and its client.
#[derive(Clone)]
pub(crate) struct SingleLock {
    pub(crate) handle: Arc<Handle>,
    pub(crate) resource: Result<Arc<Resource>, ConfigError>,
    pub(crate) settings: LockSettings,
}

impl SingleLock {
    /// The first step of every call: refuses a bad name and bad settings.
    pub(crate) fn resource(&self) -> Result<&Arc<Resource>, ConfigError> {
        let resource = self.resource.as_ref().map_err(Clone::clone)?;
        self.settings.check(resource.kind)?;
        Ok(resource)
    }

    /// Changes the resource for later acquisitions; existing holds keep the resource that they were
    /// taken for.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Resource)) {
        if let Ok(resource) = &mut self.resource {
            change(Arc::make_mut(resource));
        }
    }

    /// Like [`resource`](Self::resource), and refuses options that this lock does not support.
    pub(crate) fn resource_for(&self, options: &Options) -> Result<&Arc<Resource>, ConfigError> {
        let resource = self.resource()?;
        if options.purpose.is_some() && !resource.can_be_described() {
            let allowed = "none: the braces in the name would put it in another cluster slot";
            return Err(ConfigError::out_of_range("purpose", "a purpose", allowed));
        }
        Ok(resource)
    }

    /// Whether this client holds the lock, and is not releasing it, or waits for it.
    pub(crate) fn is_in_use_here(&self) -> bool {
        let queues = &self.handle.core().queues;
        let resource = self.resource.as_ref();
        resource.is_ok_and(|resource| queues.is_in_use(resource))
    }

    pub(crate) fn request(&self, options: &Options) -> Result<Request, ConfigError> {
        let (session, resource) = (&self.handle.session, self.resource_for(options)?.clone());
        let terms = options.terms(self.settings.lease(&session.calls.settings))?;
        let shown = options.shown.iter().filter(|hold| self.is_lock_of(hold));
        let proofs = Proofs(shown.cloned().collect());
        let description = session
            .core
            .description(&resource, options.purpose.as_deref());
        let mut request = Request::new(&session.calls, resource, proofs, terms, options.wait);
        request.settings = self.settings;
        request.poll_limit = options.poll_limit;
        // A client that describes its holds also learns who holds a lock. A quorum does not ask,
        // because it retries often.
        request.asks_who = description.is_some() && !options.of_quorum;
        request.description = description;
        Ok(request)
    }

    /// Whether `hold` is a hold of this lock: of its client, under its key.
    pub(crate) fn is_lock_of(&self, hold: &Hold) -> bool {
        let client = self.handle.calls().client_id();
        self.resource
            .as_ref()
            .is_ok_and(|resource| hold.is_under(client, &resource.key))
    }

    pub(crate) async fn inspect(&self) -> Result<Option<Inspected>, Error> {
        let resource = self.resource()?;
        let read = |reply| resource.inspected(reply);
        let holds = self.handle.core();
        let call = holds.calls.inspect_call(resource);
        holds.ask(resource, call, read).await
    }

    /// The first holder, marked if it is this client or the calling task.
    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let seen = self.inspect().await?;
        let mut holder = seen.and_then(|seen| seen.holders.into_iter().next());
        if let Some(holder) = &mut holder {
            self.handle.core().mark_own(&self.resource()?.key, holder);
        }
        Ok(holder)
    }

    pub(crate) async fn waiting(&self) -> Result<Waiting, Error> {
        let (resource, holds) = (self.resource()?, self.handle.core());
        let call = waiters::waiters(resource, holds.calls.publish_command(resource));
        holds.ask(resource, call, waiters::waiting).await
    }

    /// Ends every hold, or only those of one owner. False if there is none.
    pub(crate) async fn force_unlock(
        &self,
        owner: Option<&str>,
        reason: &str,
    ) -> Result<bool, Error> {
        let (resource, calls) = (self.resource()?, self.handle.calls());
        let note = &*calls.forced_note(reason)?;
        if let Some(owner) = owner.filter(|owner| owner.is_empty() || !resource.may_be_field(owner))
        {
            let allowed = "an owner as `Lock::holder` returns it";
            return Err(ConfigError::out_of_range("owner", owner, allowed).into());
        }
        let call = resource.force_release(calls.publish_command(resource), Force { owner, note });
        match calls.ask(&resource.name, call, forced).await? {
            Forced::Freed => Ok(true),
            Forced::WasFree => Ok(false),
            Forced::HeldByAnother => Err(Error::NotOwner {
                name: resource.name.clone(),
            }),
        }
    }
}
