//! A guard from the value of a string lock.

use std::sync::Arc;

use super::{Lock, LockGuard, LockSet};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::session::poll_watch::{PollLimit, Wait};
use crate::session::request::Options;
use crate::session::share::restore;

/// The longest owner, in bytes: every call about the hold repeats it.
const OWNER_MAX: usize = 64 * 1024;

impl Lock {
    /// Takes over the hold of a string lock by its owner, the value of the key.
    ///
    /// The owner comes from another program, such as the owner of Laravel's lock or the value of
    /// redsync's mutex, or from [`LockGuard::owner`] of a guard that was
    /// [forgotten](LockGuard::forget). The hold has the lease of this client, and is renewed from
    /// now on. The value stays the same, because that program may still use it. So two *processes*
    /// that restore the same owner both believe that they hold the lock: give it to one process
    /// only, and protect it like the guard. Within one client, only one caller gets the hold.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. If a call is in flight, the hold is released.
    ///
    /// # Errors
    ///
    /// - [`Error::NotOwner`]: the hold has ended, or is being released by this client.
    /// - [`Error::AlreadyHeld`]: a guard of this client holds this value. Nothing changed.
    /// - [`Error::Unavailable`]: Redis did not execute the call. The hold did not change.
    /// - [`Error::Unknown`], [`Error::Protocol`] or [`Error::Closed`]: the reply was lost, Redis
    ///   refused the call, or the client was shut down. If the hold was taken, it is being
    ///   released.
    /// - [`Error::Lost`]: the reply came after the lease had ended.
    /// - [`Error::Forked`]: the client was made before a fork.
    /// - [`Error::Config`]: the name cannot be used, the owner is too long, or this is another kind
    ///   of lock.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::EmbeddedRedis;
    ///
    /// let redis = EmbeddedRedis::new();
    /// let (web, worker) = (redis.client(), redis.client());
    /// let guard = web.string_lock("upload:7").lock().await?;
    /// let owner = guard.owner().to_owned(); // … sent with the job …
    /// guard.forget();
    ///
    /// let guard = worker.string_lock("upload:7").restore(&owner).await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn restore(&self, owner: &str) -> Result<LockGuard, Error> {
        let LockSet::Single(single) = &self.set else {
            return Err(Error::Config(ConfigError::Several { call: "restore" }));
        };
        let mut request = single.request(&Options::new(Wait::Once, Lease::Renewed))?;
        if request.resource.kind != Kind::String {
            return Err(Error::Config(ConfigError::Setting {
                setting: "restore",
                kind: request.resource.kind.to_string(),
                reason: "only the value of a string lock is its owner for every program",
            }));
        }
        if owner.len() > OWNER_MAX {
            let (what, allowed) = ("length of the owner", format!("0 to {OWNER_MAX}"));
            return Err(ConfigError::out_of_range(what, owner.len(), allowed).into());
        }
        // An unwatched caller cannot restore the hold a second time, so it has as long as the
        // lease that it takes over.
        request.poll_limit = PollLimit::lasting(request.terms.first_lease());
        let share = restore(&single.handle, request, Arc::from(owner)).await?;
        Ok(LockGuard::new(share))
    }
}
