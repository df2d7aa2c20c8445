//! The holder of a lock.

use std::fmt;
use std::time::Duration;

/// A holder of a lock, as Redis sees it; see [`Lock::holder`](crate::Lock::holder) and
/// [`Error::Timeout`](crate::Error::Timeout).
///
/// `name`, `purpose` and `held_for` are only known if the hold was described. That is the case if
/// the holder's client [describes its holds](crate::ClientBuilder::describe_holds) or its
/// acquisition has a [purpose](crate::Acquire::purpose).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let lock = leasehold::Client::embedded().lock("orders:42");
/// let guard = lock.lock().await?;
/// let holder = lock.holder().await?.expect("held");
/// assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1));
/// assert!(holder.is_this_client && holder.is_this_task);
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner on the wire: `<client uuid>:<number>`, or `<client uuid>:<thread>` for Redisson.
    /// Empty in a [`Timeout`](crate::Error::Timeout) that only knows that the key has no expiry.
    pub owner: String,
    /// How many times this owner holds the lock.
    pub holds: u64,
    /// The remaining lease. `None` if the key has no expiry: only its owner or a forced unlock can
    /// free the lock, and the key may be other data.
    pub lease: Option<Duration>,
    /// The [name](crate::ClientBuilder::name) of the holder's client.
    pub name: Option<String>,
    /// What the lock is held for.
    pub purpose: Option<String>,
    /// How long the lock has been held.
    pub held_for: Option<Duration>,
    /// It is a hold of this client.
    pub is_this_client: bool,
    /// This very task took the hold. Outside of all tasks, as in `block_on`, this thread took it.
    /// If the task waits for the lock, it waits for its own release.
    pub is_this_task: bool,
}

impl Holder {
    /// False if only the missing expiry of the key is known.
    pub(crate) fn has_owner(&self) -> bool {
        !self.owner.is_empty()
    }
}

/// The name, or else the owner; and the purpose.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(&self.owner))?;
        match &self.purpose {
            Some(purpose) => write!(f, " ({purpose})"),
            None => Ok(()),
        }
    }
}
