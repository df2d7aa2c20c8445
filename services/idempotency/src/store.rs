//! Where replies are kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::{Client, Error, FencedValue, FencingToken};
use tokio::time::{Instant, sleep};

/// Between two tries while Redis is not available.
const PAUSE: Duration = Duration::from_millis(100);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where replies are kept, as texts. It compares fencing tokens, as [`FencedValue`] does.
///
/// For each name the store remembers the highest token that it has seen, as durably as the text, and for as long. Both
/// calls compare it with theirs and do their work in one step. In SQL each is one statement, for a table `reply` with the
/// primary key `name`. If it returns or changes no row, the token is stale:
///
/// ```sql
/// -- get
/// INSERT INTO reply (name, token) VALUES ($name, $token)
///     ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE reply.token <= excluded.token
///     RETURNING text;
/// -- put
/// UPDATE reply SET token = $token, text = $text WHERE name = $name AND token <= $token;
/// ```
pub trait Store: Send + Sync + 'static {
    /// Shuts earlier tokens out, and then reads the text. `None` if there is none, or if it is forgotten.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if a later token was there.
    fn get(
        &self,
        name: &str,
        token: FencingToken,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;

    /// Keeps the text.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if a later token was there. Then the text must not be kept.
    fn put(
        &self,
        name: &str,
        token: FencingToken,
        text: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why a store did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A later request with the key was there. The client gets 409.
    #[error("a later request with the key was there")]
    Stale,
    /// The store is not available, or refuses the call. The client gets 503.
    #[error("the store failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error {
            Error::StaleToken { .. } => StoreError::Stale,
            other => StoreError::Failed(other.into()),
        }
    }
}

/// Keeps replies in Redis, next to their locks: as `{scope}:{digest}:reply`.
///
/// During an outage of Redis it tries again for as long as the lock is held.
#[derive(Clone, Debug)]
pub struct RedisStore {
    client: Client,
    keep: Duration,
}

impl RedisStore {
    /// Makes a store. Does no I/O.
    pub fn new(client: &Client) -> Self {
        RedisStore {
            client: client.clone(),
            keep: DAY,
        }
    }

    /// Sets how long a reply is kept. Default: a day. At most a year.
    ///
    /// It must be longer than clients try again, and than a process may stand still.
    #[must_use = "the store is moved into the returned value"]
    pub fn with_keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    fn value(&self, name: &str) -> FencedValue {
        let value = self.client.fenced_value(format!("{name}:reply"));
        value.with_keep(self.keep)
    }
}

impl Store for RedisStore {
    async fn get(&self, name: &str, token: FencingToken) -> Result<Option<String>, StoreError> {
        let value = self.value(name);
        loop {
            match value.get(token).await {
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                answer => return Ok(answer?),
            }
        }
    }

    async fn put(&self, name: &str, token: FencingToken, text: &str) -> Result<(), StoreError> {
        let value = self.value(name);
        loop {
            match value.set(token, text).await {
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                answer => return Ok(answer?),
            }
        }
    }
}

/// Keeps replies for a day in this process, for tests of services. A clone is the same store.
#[derive(Clone, Default)]
pub struct MemoryStore {
    replies: Arc<Mutex<HashMap<String, Kept>>>,
}

struct Kept {
    token: FencingToken,
    text: Option<(String, Instant)>,
}

impl MemoryStore {
    fn step<T>(
        &self,
        name: &str,
        token: FencingToken,
        step: impl FnOnce(&mut Kept) -> T,
    ) -> Result<T, StoreError> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = replies
            .entry(name.to_owned())
            .or_insert(Kept { token, text: None });
        if kept.token > token {
            return Err(StoreError::Stale);
        }
        kept.token = token;
        Ok(step(kept))
    }
}

impl Store for MemoryStore {
    async fn get(&self, name: &str, token: FencingToken) -> Result<Option<String>, StoreError> {
        self.step(name, token, |kept| {
            let (text, since) = kept.text.as_ref()?;
            (since.elapsed() < DAY).then(|| text.clone())
        })
    }

    async fn put(&self, name: &str, token: FencingToken, text: &str) -> Result<(), StoreError> {
        let text = Some((text.to_owned(), Instant::now()));
        self.step(name, token, |kept| kept.text = text)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}
