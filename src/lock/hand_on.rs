//! A hold leaves its guard as text, and another guard takes it over.

mod text;

use std::sync::Arc;

use super::guard::Guard;
use super::{Lock, LockGuard, Target};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::session::attendance::Patience;
use crate::session::existing_hold::{restore, take_over};
use crate::session::hold::Heir;
use crate::session::request::Options;
use crate::session::wait::Wait;

/// The longest text, in bytes: every call about the hold repeats the owner in it.
const TEXT_MAX: usize = 64 * 1024;

impl LockGuard {
    /// Hands the hold on as text, which [`Lock::restore`](crate::Lock::restore) turns into a guard again.
    ///
    /// That may be in another task, client or process. If several processes restore one text, only one
    /// process gets the hold; the exception is a string lock, whose text is the value of the key. The hold is
    /// not renewed any more: if it is not taken over before its lease ends, the lock is free then. The text
    /// is the right to be in the section: keep it as you keep the guard.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost. [`Error::Config`] while other guards of the hold live, for a write
    /// lock whose owner has also taken the read lock since, and for several locks as one. In each case this
    /// guard is released as by a drop.
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
    pub fn hand_on(self) -> Result<String, Error> {
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
            return Ok(text);
        }
        Err(Error::Config(ConfigError::OtherGuards { name: name.to_string() }))
    }
}

impl<G: Guard> Lock<G> {
    /// Takes over a hold that was handed on, here or in another process.
    ///
    /// `text` is that of [`LockGuard::hand_on`]. The hold gets a fresh owner on the wire and this client's
    /// lease, and is renewed from now on. The fresh owner is why only one of several callers with the same
    /// text gets the hold.
    ///
    /// **For a string lock** the text is the value of the key, and may come from another program: the
    /// owner of Laravel's lock, the value of redsync's mutex. The value stays as it is, because that
    /// program may still use it. So two *processes* that restore the same text both believe that they hold
    /// the lock: give it to one process only. Within one client only one caller gets the hold.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: if a call is on its way, the hold is released.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwner`] if the hold has ended, was taken over, or is being released by this client;
    /// [`Error::AlreadyHeld`] if a guard of this client holds the value of a string lock: nothing changed.
    /// [`Error::Unavailable`] if Redis did not take the call: the hold is as it was. [`Error::Unknown`] if
    /// the reply was lost, [`Error::Protocol`] if Redis refused, [`Error::Closed`] after shutdown: a hold
    /// that was taken is being released. [`Error::Config`] for a bad name, for a text that was changed or
    /// is of another lock, and for several locks as one.
    pub async fn restore(&self, text: &str) -> Result<G, Error> {
        let Target::Single(single) = &self.target else {
            return Err(Error::Config(ConfigError::Several { call: "restore" }));
        };
        if text.len() > TEXT_MAX {
            return Err(Error::Config(ConfigError::OutOfRange {
                what: "length of the owner text",
                given: text.len().to_string(),
                allowed: format!("0 to {TEXT_MAX}"),
            }));
        }
        let request = single.request(&Options::new(Wait::Once, Lease::Renewed))?;
        // A caller that is passed over cannot take the hold again. So it has as long as the lease that it takes over.
        let patience = Patience::lasting(request.terms.first_lease());
        let request = request.with_patience(patience);
        let share = if request.resource.kind == Kind::String {
            restore(&single.handle, request, Arc::from(text)).await?
        } else {
            let field = text::decode(&request.resource.key, text)?;
            if !request.resource.may_be_field(field) {
                return Err(Error::NotOwner { name: request.resource.name.clone() });
            }
            take_over(&single.handle, request, Arc::from(field)).await?
        };
        G::of(LockGuard::new(share))
    }
}
