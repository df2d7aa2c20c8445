//! A value in Redis that a holder which was paused for too long cannot change.

use std::error::Error;
use std::fmt;

use leasehold::FencingToken;
use redis::aio::ConnectionManager;
use redis::{Client, RedisError, Script};

/// Redis runs a script as a whole, so nobody writes between its comparison and its write. A number
/// in Lua is exact up to 2^53, and the counter of a lock stays below that.
const TOUCH: &str = r"
-- KEYS[1]  hash     the value, and the highest token that has touched it
-- ARGV[1]  token
-- ARGV[2]  text     the new value; without it, the script only shuts earlier tokens out
-- Returns  array    {value}, or {''} if there is none; {} if a higher token was here
local highest = redis.call('hget', KEYS[1], 'token')
if highest and tonumber(highest) > tonumber(ARGV[1]) then
  return {}
end
redis.call('hset', KEYS[1], 'token', ARGV[1])
if ARGV[2] then
  redis.call('hset', KEYS[1], 'value', ARGV[2])
end
return { redis.call('hget', KEYS[1], 'value') or '' }
";

/// A text at one key. Only these methods may write the key.
#[derive(Clone)]
pub struct FencedValue {
    connection: ConnectionManager,
    key: String,
}

/// Why a value was not read or written.
#[derive(Debug)]
pub enum FencedError {
    /// A later holder has touched the value: stop the work. Nothing was written.
    Stale(FencingToken),
    /// Redis did not answer, or refused the script.
    Redis(RedisError),
}

impl FencedValue {
    /// The value at `key` on the server at `url`.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn open(url: &str, key: &str) -> Result<Self, RedisError> {
        let connection = ConnectionManager::new(Client::open(url)?).await?;
        let key = key.to_owned();
        Ok(FencedValue { connection, key })
    }

    /// Shuts all earlier holders out, and then reads: no earlier holder changes what is read. Empty
    /// if there is no value.
    ///
    /// # Errors
    ///
    /// [`FencedError::Stale`] if a later holder has been here.
    pub async fn get(&self, token: FencingToken) -> Result<String, FencedError> {
        self.touch(token, None).await
    }

    /// Sets the value. The same token may set it again.
    ///
    /// # Errors
    ///
    /// [`FencedError::Stale`] if a later holder has been here.
    pub async fn set(&self, token: FencingToken, value: &str) -> Result<(), FencedError> {
        self.touch(token, Some(value)).await.map(drop)
    }

    async fn touch(&self, token: FencingToken, value: Option<&str>) -> Result<String, FencedError> {
        let script = Script::new(TOUCH);
        let mut call = script.key(&self.key);
        call.arg(token.value());
        if let Some(value) = value {
            call.arg(value);
        }
        let found: Vec<String> = call.invoke_async(&mut self.connection.clone()).await?;
        found.into_iter().next().ok_or(FencedError::Stale(token))
    }
}

impl fmt::Debug for FencedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedValue")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl From<RedisError> for FencedError {
    fn from(error: RedisError) -> Self {
        FencedError::Redis(error)
    }
}

impl fmt::Display for FencedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FencedError::Stale(token) => {
                write!(f, "token {token} is stale: a later holder has been here")
            }
            FencedError::Redis(error) => error.fmt(f),
        }
    }
}

impl Error for FencedError {}
