//! A hold as text, on its way from one guard to the next.

use std::sync::Arc;

use super::guard::Guard;
use super::one::Wanted;
use super::{Lock, LockGuard, Target};
use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::session::rejoin::{restore, take_over};
use crate::session::request::Wait;

/// The longest owner text, in bytes: every call about the hold repeats it.
const OWNER_MAX: usize = 64 * 1024;

/// The version of the text form.
const VERSION: &str = "leasehold2";

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
        let Target::One(one) = &self.target else {
            return Err(Error::Config(ConfigError::Several { call: "restore" }));
        };
        if text.len() > OWNER_MAX {
            return Err(Error::Config(ConfigError::OutOfRange {
                what: "length of the owner text",
                given: text.len().to_string(),
                allowed: format!("0 to {OWNER_MAX}"),
            }));
        }
        let request = one.request(&Wanted::new(Wait::Once, Lease::Renewed))?;
        let tenancy = if request.place.kind == Kind::String {
            restore(&one.handle, request, Arc::from(text)).await?
        } else {
            let field = field(&request.place.key, text)?;
            if !request.place.may_be_field(field) {
                return Err(Error::NotOwner { name: request.place.name.clone() });
            }
            take_over(&one.handle, request, Arc::from(field)).await?
        };
        G::of(LockGuard::new(tenancy))
    }
}

/// The text of a hold that left its guard. It carries a checksum of all of it, so that a cut or changed
/// text, or one of another lock, is refused before anything is sent.
pub(super) fn text(key: &str, field: &str) -> String {
    format!("{VERSION} {} {field}", checksum(key, field))
}

/// The field of the hold that a text speaks of.
pub(super) fn field<'a>(key: &str, text: &'a str) -> Result<&'a str, ConfigError> {
    let refuse = |reason| Err(ConfigError::HandOnText { reason });
    let [version, sum, field] = text.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        return refuse("it has not the three parts version, checksum and owner");
    };
    if version != VERSION {
        return refuse("it is of another version");
    }
    if sum != checksum(key, field) {
        return refuse("its checksum does not fit: it was cut or changed, or is of another lock");
    }
    Ok(field)
}

fn checksum(key: &str, field: &str) -> String {
    let mut sum = sha1_smol::Sha1::new();
    for part in [VERSION, field, key] {
        sum.update(part.as_bytes());
        sum.update(b"\n");
    }
    sum.digest().to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_survives_as_text() {
        let text = text("a key with spaces", "0b4e4b9c-9a1f:57");
        assert_eq!(field("a key with spaces", &text), Ok("0b4e4b9c-9a1f:57"));
    }

    #[test]
    fn every_cut_and_every_changed_byte_and_every_other_lock_is_refused() {
        let text = text("orders:42", "0b4e4b9c-9a1f:57");
        for cut in 0..text.len() {
            assert!(field("orders:42", &text[..cut]).is_err(), "{}", &text[..cut]);
        }
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ascii stays ascii");
            assert!(field("orders:42", &changed).is_err(), "{changed}");
        }
        assert!(field("orders:43", &text).is_err());
    }
}
