//! The calls that take a lock.
//!
//! Rustdoc shows the implementations of a type in the order of their files. So this file decides
//! which calls come first.

use std::sync::Arc;
use std::time::Duration;

use super::guard::run::{flat, run};
use super::{Acquire, Guard, Lock};
use crate::error::Error;
use crate::lease::Lease;
use crate::session::poll_watch::Wait;
use crate::session::request::Options;

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
    #[doc = include_str!("../error/returned_by/acquisition.md")]
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
    #[doc = include_str!("../error/returned_by/acquisition.md")]
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
    #[doc = include_str!("../error/returned_by/acquisition.md")]
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
