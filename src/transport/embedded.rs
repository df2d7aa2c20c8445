//! The embedded engine: Redis as far as the scripts need it, in memory, within this process.
//!
//! It runs the same `.lua` files as a server does, on tokio's clock, and knows how to fail: see
//! `faults.rs`. A test compares it with a real server (`tests/parity`).
#![cfg_attr(
    not(feature = "test-util"),
    expect(dead_code, unreachable_pub, reason = "raw commands and most switches are for tests")
)]

mod clock;
mod commands;
mod convert;
mod data;
mod engine;
mod faults;
mod lua;
mod number;
mod random;
mod reply;
mod resp_server;
mod store;
#[cfg(feature = "test-util")]
pub(crate) mod testing;
#[cfg(all(test, feature = "test-util"))]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::engine::Engine;

/// An in-memory stand-in for a Redis server, for examples and for tests of *your* service.
///
/// Clients that share one engine contend for the same locks, as processes that share a Redis do.
/// Clones are handles to the same engine. It runs the scripts that a server would run; nothing is
/// kept when the last handle and the last client are gone.
///
/// # Time
///
/// Leases are counted on tokio's clock. With `tokio::time::pause` a lease of thirty seconds ends
/// exactly when the test advances the clock by as much (`tokio::time::advance`); nothing sleeps.
///
/// # Faults
///
/// [`lose`](Self::lose) takes a lock away from its holder, [`cut`](Self::cut) breaks all
/// connections and [`heal`](Self::heal) lets them come back.
///
/// # Examples
///
/// A job must notice that its lock is gone:
///
/// ```
/// use leasehold::Lease;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let redis = leasehold::EmbeddedRedis::new();
/// let (ours, theirs) = (redis.client(), redis.client());
///
/// let guard = ours.lock("orders:42").lock().await?;
/// assert!(theirs.lock("orders:42").try_lock_now(Lease::Renewed).await.is_err());
///
/// redis.lose("orders:42");
/// assert!(theirs.lock("orders:42").try_lock_now(Lease::Renewed).await.is_ok());
/// assert!(guard.unlock().await.is_err(), "it was lost meanwhile");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EmbeddedRedis {
    engine: Arc<Engine>,
}

impl EmbeddedRedis {
    /// Makes an empty engine.
    pub fn new() -> Self {
        EmbeddedRedis { engine: Arc::new(Engine::new()) }
    }

    /// Deletes the key of a lock, and tells no client.
    ///
    /// The holder finds out when it renews or releases, as after an operator's `DEL` or the failover
    /// to a replica that had not seen the lock. The name is the key: with a prefix, if the clients
    /// have one. Answers whether the key was there.
    pub fn lose(&self, name: &str) -> bool {
        self.engine.with_store(|store| store.remove(name.as_bytes()))
    }

    /// Breaks the connections of all clients, until [`heal`](Self::heal).
    ///
    /// Calls in flight end without a reply, new calls fail at once. Keys and leases stay as they are.
    pub fn cut(&self) {
        self.engine.cut();
    }

    /// Lets broken connections come back.
    pub fn heal(&self) {
        self.engine.heal();
    }
}

impl Default for EmbeddedRedis {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EmbeddedRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.engine.with_store(|store| store.live().count());
        let clients = self.engine.links().len();
        f.debug_struct("EmbeddedRedis").field("keys", &keys).field("clients", &clients).finish()
    }
}
