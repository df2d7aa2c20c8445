//! The embedded engine: the crate `leasehold-engine`, dialed like a server.
//!
//! It runs the same `.lua` files as a server does. A test compares it with a real server
//! (`engine/parity`).

mod faults;
#[cfg(feature = "test-util")]
pub(crate) mod testing;
#[cfg(all(test, feature = "test-util"))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_engine::{Engine, Restart};
use tokio::runtime::Handle;

use crate::transport::{Deployment, StreamDialer};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An in-memory stand-in for a Redis server, for examples and for tests of *your* service.
///
/// Clients that share one engine contend for the same locks, as processes that share a Redis do.
/// Clones are handles to the same engine. It runs the scripts that a server would run; nothing is
/// kept when the last handle and the last client are gone. [Testing](crate::guide::testing) has
/// more tests of services.
///
/// # Time
///
/// Leases are counted on tokio's clock. With `tokio::time::pause` a lease of thirty seconds ends
/// exactly when the test advances the clock by as much (`tokio::time::advance`); nothing sleeps.
///
/// # Faults
///
/// | call | what happens |
/// | --- | --- |
/// | [`lose`](Self::lose) | a lock is taken away from its holder |
/// | [`cut`](Self::cut), [`heal`](Self::heal) | all connections break, and come back |
/// | [`lose_next_reply`](Self::lose_next_reply) | the next call is executed, and its reply is lost |
/// | [`delay`](Self::delay) | replies come late |
/// | [`restart_empty`](Self::restart_empty) | the server restarts without its data |
/// | [`fail_over`](Self::fail_over) | a replica becomes the primary, with or without the last writes |
/// | [`set_replicas`](Self::set_replicas) | grants have too few copies |
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
        Self::of(Engine::new())
    }

    fn of(engine: Arc<Engine>) -> Self {
        EmbeddedRedis {
            engine,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The texts of deployments sort as their engines were made.
    pub(crate) fn deployment(&self) -> Deployment {
        let is_cluster = self
            .engine
            .profile()
            .is_some_and(|profile| profile.is_cluster);
        let scheme = if is_cluster { "redis-cluster" } else { "redis" };
        let url = format!("{scheme}://embedded-{:020}", self.number);
        Deployment::parse(&url).expect("BUG: a good URL")
    }

    /// How one client reaches the engine, whose tasks run on `runtime`. An engine with a profile
    /// gets the handshake that a server gets.
    pub(crate) fn stream_dialer(&self, runtime: &Handle) -> StreamDialer {
        let dialer = Arc::new(self.engine.dialer(runtime));
        let (back, engine) = (dialer.reachable(), dialer.clone());
        let streams = StreamDialer::new(move |_| dialer.dial());
        if self.is_like_a_server() {
            return streams;
        }
        streams.in_process(back, move || engine.run_id())
    }

    /// Whether clients reach it by a handshake.
    pub(crate) fn is_like_a_server(&self) -> bool {
        self.engine.profile().is_some()
    }
}

impl Default for EmbeddedRedis {
    fn default() -> Self {
        Self::new()
    }
}
