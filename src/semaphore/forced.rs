//! The forced release of permits.

use super::Semaphore;
use crate::error::{ConfigError, Error};
use crate::protocol::calls::Force;
use crate::protocol::replies::yes_or_no;
use crate::protocol::semaphore;

impl Semaphore {
    /// Gives the permits of an owner back by force, even if it is another client; returns false if
    /// it holds none.
    ///
    /// `owner` is the text of [`Holder::owner`](crate::inspect::Holder::owner), which ends with the
    /// number of permits. Its client gets a message with the `reason`, and the permit's guard
    /// reports the loss, as after [`Lock::force_unlock`](crate::Lock::force_unlock). The permits
    /// that Java holds have no owner.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The permits are either given back or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: `owner` is not the owner of permits, or the `reason` cannot be
    ///   used.
    pub async fn force_release_of(&self, owner: &str, reason: &str) -> Result<bool, Error> {
        if semaphore::permits_of(owner).is_none() {
            let allowed = "an owner as `leasehold show` lists it";
            return Err(ConfigError::out_of_range("owner", owner, allowed).into());
        }
        let note = &*self.inner.handle.calls().forced_note(reason)?;
        let owner = Some(owner);
        let force = Force { owner, note };
        let call = |resource: &_, publish| semaphore::force_release(resource, publish, force);
        self.inner.ask(call, yes_or_no).await
    }
}
