//! Who holds a lock.

use std::fmt;
use std::time::Duration;

/// A holder of a lock, as Redis sees it; see [`Lock::holder`](crate::Lock::holder),
/// [`LockInfo`](crate::LockInfo) and [`Error::Timeout`](crate::Error::Timeout).
///
/// `name`, `purpose` and `held_for` are known of holders that tell them: those of a client that
/// [describes its holds](crate::ClientBuilder::describe_holds), and of an acquisition with a
/// [purpose](crate::Acquire::purpose).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let lock = leasehold::Client::embedded().lock("orders:42");
/// let guard = lock.lock().await?;
/// let holder = lock.holder().await?.expect("it is held");
/// assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1));
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's name on the wire, `<client uuid>:<number>`; of Redisson, `<client uuid>:<thread>`.
    pub owner: String,
    /// How many times this owner holds the lock.
    pub holds: u64,
    /// What is left of the lease; `None` if the key has no expiry.
    pub lease: Option<Duration>,
    /// What its client is [called](crate::ClientBuilder::name).
    pub name: Option<String>,
    /// What it holds the lock for.
    pub purpose: Option<String>,
    /// Since when it holds the lock: for so long.
    pub held_for: Option<Duration>,
}

/// The name, or else the owner, and the purpose.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(&self.owner))?;
        match &self.purpose {
            Some(purpose) => write!(f, " ({purpose})"),
            None => Ok(()),
        }
    }
}
