//! Where replies are kept.

use std::time::Duration;

use leasehold::{Client, ConfigError, Error, Lease};
use tokio::time::sleep;

/// Between two tries while Redis is not available.
const PAUSE: Duration = Duration::from_millis(100);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where replies are kept, as texts: the first one for a name stays. In SQL, for a table `reply`
/// with the primary key `name`:
///
/// ```sql
/// -- get
/// SELECT text FROM reply WHERE name = $name;
/// -- put
/// INSERT INTO reply (name, text) VALUES ($name, $text) ON CONFLICT (name) DO NOTHING;
/// SELECT text FROM reply WHERE name = $name;
/// ```
///
/// A clone is the same store.
pub trait Store: Clone + Send + Sync + 'static {
    /// Reads the text. `None` if there is none, or if it is forgotten.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. The client gets its status, and the handler does not run.
    fn get(&self, name: &str) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;

    /// Keeps the text unless there is one, in one step. Returns the text that is there then.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. The client gets its status, although the handler has run.
    fn put(
        &self,
        name: &str,
        text: &str,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;
}

/// Why a store did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A later try may succeed: the client gets 503.
    #[error("the store is not available")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No later try succeeds before somebody helps, such as for a missing right: the client
    /// gets 500.
    #[error("the store refuses the call")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        if error.is_retryable() || matches!(error, Error::Closed) {
            StoreError::Unavailable(error.into())
        } else {
            StoreError::Refused(error.into())
        }
    }
}

/// Keeps replies in Redis, next to their locks: as `{scope}:{digest}:reply`. In tests of services,
/// on the engine of [`Client::embedded`].
///
/// During an outage of Redis it tries again for as long as the lock is held; a request that only
/// looks for a reply gets 503.
#[derive(Clone, Debug)]
pub struct RedisStore {
    client: Client,
    keep: Duration,
}

impl RedisStore {
    /// Makes a store. Does no I/O.
    pub fn new(client: &Client) -> Self {
        let (client, keep) = (client.clone(), DAY);
        RedisStore { client, keep }
    }

    /// Sets how long a reply is kept. Default: a day.
    ///
    /// It must be longer than clients try again, and than a process may stand still.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] below a second, and above a year.
    pub fn with_keep(mut self, keep: Duration) -> Result<Self, ConfigError> {
        self.keep = Lease::at_least(Duration::from_secs(1), "keep", keep)?;
        Ok(self)
    }
}

fn key(name: &str) -> String {
    format!("{name}:reply")
}

impl Store for RedisStore {
    async fn get(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.client.kept(&key(name)).await?)
    }

    async fn put(&self, name: &str, text: &str) -> Result<String, StoreError> {
        loop {
            match self.client.keep(&key(name), text, self.keep).await {
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                there => return Ok(there?.unwrap_or_else(|| text.to_owned())),
            }
        }
    }
}
