//! Takes over a hold that was handed on as text.

use std::sync::Arc;

use super::guard::Guard;
use super::owner_text::field;
use super::{Lock, LockGuard, Target};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::session::existing_hold::{restore, take_over};
use crate::session::request::Options;
use crate::session::wait::Wait;

/// The longest owner text, in bytes: every call about the hold repeats it.
const OWNER_MAX: usize = 64 * 1024;

impl<G: Guard> Lock<G> {
    /// Takes over a hold that was handed on, here or in another process.
    ///
    /// The text is that of [`LockGuard::hand_on`]. The hold gets a fresh owner on the wire, this client's
    /// lease, and is renewed from now on: of several that take over one text, one has it.
    ///
    /// **For a string lock** the text is the value of the key, and may come from another program: the
    /// owner of Laravel's lock, the value of redsync's mutex. That program may still use it, so the value
    /// stays as it is, and two *processes* that restore one text both believe to hold the lock; give the
    /// text to one only. Within one client one has it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a call on its way is undone, and with it the hold.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwner`] if that hold is not there any more, or was taken over, or if this client is
    /// ending it; [`Error::AlreadyHeld`] if a guard of this client holds the value of a string lock:
    /// nothing changed. [`Error::Unavailable`] if Redis did not take the call: the hold is as it was.
    /// [`Error::Unknown`] if the reply was lost, [`Error::Protocol`] if it was refused: what was taken is
    /// being released, as it is after [`Error::Closed`]. [`Error::Config`] for a bad name, for a text
    /// that was changed or is of another lock, and for a lock of several.
    pub async fn restore(&self, text: &str) -> Result<G, Error> {
        let Target::Single(one) = &self.target else {
            return Err(Error::Config(ConfigError::Several { call: "restore" }));
        };
        if text.len() > OWNER_MAX {
            return Err(Error::Config(ConfigError::OutOfRange {
                what: "length of the owner text",
                given: text.len().to_string(),
                allowed: format!("0 to {OWNER_MAX}"),
            }));
        }
        let request = one.request(&Options::new(Wait::Once, Lease::Renewed))?;
        let share = if request.resource.kind == Kind::String {
            restore(&one.handle, request, Arc::from(text)).await?
        } else {
            let field = field(&request.resource.key, text)?;
            if !request.resource.may_be_field(field) {
                return Err(Error::NotOwner { name: request.resource.name.clone() });
            }
            take_over(&one.handle, request, Arc::from(field)).await?
        };
        G::of(LockGuard::new(share))
    }
}
