//! A hold leaves its guard as text, and another guard takes it over.

mod hold_text;
mod text;

use std::sync::Arc;

use super::guard::Guard;
use super::{Lock, LockGuard, LockSet};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::session::attendance::Patience;
use crate::session::existing_hold::{restore, take_over};
use crate::session::hold::Heir;
use crate::session::options::Options;
use crate::session::wait::Wait;

pub use hold_text::HoldText;

/// The longest text, in bytes: every call about the hold repeats the owner in it.
const TEXT_MAX: usize = 64 * 1024;

impl LockGuard {
    /// Turns the guard into a [text](HoldText), from which [`Lock::restore`](crate::Lock::restore) makes a guard again.
    ///
    /// The receiver may be another task, client or process. If several processes restore the same text, only
    /// one of them gets the hold. String locks are the exception, because their text is the value of the key.
    /// The hold is not renewed until it is restored. If its lease ends first, the lock is free.
    ///
    /// The text is the right to be in the section: protect it like the guard.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the hold is lost.
    /// - [`Error::Config`]: the hold has other guards, or this is the guard of several locks as one, or it is
    ///   a write hold whose owner has also taken the read lock since.
    ///
    /// In each case this guard is released, as if it were dropped.
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
    /// let guard = web.lock("upload:7").lock().await?;
    /// let text = guard.hand_on()?; // … sent with the job …
    ///
    /// let guard = worker.lock("upload:7").restore(&text).await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hand_on(self) -> Result<HoldText, Error> {
        self.check()?;
        let Some(share) = self.into_single() else {
            return Err(Error::Config(ConfigError::Several { call: "hand_on" }));
        };
        let hold = share.hold();
        let (resource, name) = (&hold.resource, hold.resource.name.clone());
        let text = match resource.kind {
            Kind::String => hold.field.to_string(),
            _ => text::encode(&resource.key, &hold.field),
        };
        if share.let_go(Heir::NextOwner) {
            return Ok(HoldText::new(text));
        }
        Err(Error::Config(ConfigError::OtherGuards {
            name: name.to_string(),
        }))
    }
}

impl<G: Guard> Lock<G> {
    /// Takes over a hold that was handed on, in this process or in another.
    ///
    /// `text` comes from [`LockGuard::hand_on`]. The hold gets a new owner on the wire and the lease of this
    /// client, and is renewed from now on. Because of the new owner, only one of several callers with the
    /// same text gets the hold.
    ///
    /// **For a string lock** the text is the value of the key. It may come from another program, such as the
    /// owner of Laravel's lock or the value of redsync's mutex. The value stays the same, because that
    /// program may still use it. So two *processes* that restore the same text both believe that they hold
    /// the lock: give the text to one process only. Within one client, only one caller gets the hold.
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
    /// - [`Error::NotOwner`]: the hold has ended, was taken over, or is being released by this client.
    /// - [`Error::AlreadyHeld`]: a guard of this client holds this value of a string lock. Nothing changed.
    /// - [`Error::Unavailable`]: Redis did not execute the call. The hold did not change.
    /// - [`Error::Unknown`], [`Error::Protocol`] or [`Error::Closed`]: the reply was lost, Redis refused the
    ///   call, or the client was shut down. If the hold was taken, it is being released.
    /// - [`Error::Config`]: the name cannot be used, the text was changed or belongs to another lock, or this
    ///   is several locks as one.
    pub async fn restore(&self, text: &str) -> Result<G, Error> {
        let LockSet::Single(single) = &self.set else {
            return Err(Error::Config(ConfigError::Several { call: "restore" }));
        };
        if text.len() > TEXT_MAX {
            let (what, allowed) = ("length of the owner text", format!("0 to {TEXT_MAX}"));
            return Err(ConfigError::out_of_range(what, text.len(), allowed).into());
        }
        let mut request = single.request(&Options::new(Wait::Once, Lease::Renewed))?;
        // An unattended caller cannot restore the hold a second time, so it has as long as the lease that it
        // takes over.
        let patience = Patience::lasting(request.terms.first_lease());
        request.patience = patience;
        let share = if request.resource.kind == Kind::String {
            restore(&single.handle, request, Arc::from(text)).await?
        } else {
            let field = text::decode(&request.resource.key, text)?;
            if !request.resource.may_be_field(field) {
                return Err(Error::NotOwner {
                    name: request.resource.name.clone(),
                });
            }
            take_over(&single.handle, request, Arc::from(field)).await?
        };
        G::of(LockGuard::new(share))
    }
}
