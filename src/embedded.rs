//! The embedded engine: the crate `leasehold-engine`, dialed like a server.
//!
//! It runs the same `.lua` files as a server does. A test compares it with a real server (`tests/parity`).

#[cfg(feature = "test-util")]
pub(crate) mod testing;
#[cfg(all(test, feature = "test-util"))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_engine::Engine;
use tokio::runtime::Handle;

use crate::transport::{Deployment, StreamDialer};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An in-memory stand-in for a Redis server, for examples and for tests of *your* service.
///
/// Clients that share one engine contend for the same locks, as processes that share a Redis do.
/// Clones are handles to the same engine. It runs the scripts that a server would run; nothing is
/// kept when the last handle and the last client are gone. [Testing](crate::guide::testing) has more tests of services.
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
#[derive(Clone, Debug)]
pub struct EmbeddedRedis {
    engine: Arc<Engine>,
    /// Numbers engines in the order in which they were made.
    number: u64,
}

impl EmbeddedRedis {
    /// Makes an empty engine.
    pub fn new() -> Self {
        EmbeddedRedis {
            engine: Engine::new(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Deletes the key of a lock, and tells no client.
    ///
    /// The holder finds out when it renews or releases, as after an operator's `DEL` or the failover
    /// to a replica that had not seen the lock. The name is the key: with a prefix, if the clients
    /// have one. Answers whether the key was there.
    pub fn lose(&self, name: &str) -> bool {
        self.engine.remove(name.as_bytes())
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

    /// The texts of deployments sort as their engines were made.
    pub(crate) fn deployment(&self) -> Deployment {
        let url = format!("redis://embedded-{:020}", self.number);
        Deployment::parse(&url).expect("BUG: a good URL")
    }

    /// How one client reaches the engine, whose tasks run on `runtime`.
    pub(crate) fn stream_dialer(&self, runtime: &Handle) -> StreamDialer {
        let dialer = self.engine.dialer(runtime);
        let back = dialer.reachable();
        StreamDialer::new(move |_| dialer.dial()).back_at(back)
    }
}

impl Default for EmbeddedRedis {
    fn default() -> Self {
        Self::new()
    }
}
