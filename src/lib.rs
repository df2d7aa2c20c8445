//! Distributed locks on Redis and Valkey, wire-compatible with Java's Redisson.
//!
//! A [`Client`] is one set of connections to a Redis server. A client makes [`Lock`] values, a lock
//! gives a [`LockGuard`] for each acquisition, and the guard releases the lock when it is dropped. While
//! the guard lives, the lease is renewed in the background, and the guard knows without asking Redis
//! whether the lock is still held.
//!
//! # First steps
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use leasehold::{Client, Error, Lease};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let lock = client.lock("orders:42");
//!
//! // Waits at most two seconds; not getting the lock is an error.
//! let guard = lock.try_lock(Duration::from_secs(2), Lease::Renewed).await?;
//! guard.run(async { /* the work: dropped if the lock is lost */ }).await?;
//! guard.check()?; // before a step that cannot be taken back
//! guard.unlock().await?;
//!
//! client.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Lock::lock`] waits as long as it takes; [`Lock::try_lock`] takes *wait* and *lease*, in this
//!   order; [`Lock::acquire`] is the fluent form with all settings.
//! - Every acquisition is an owner of its own: two acquisitions exclude each other, even from one lock
//!   value, one task or one client.
//! - Code inside a section ([`Lock::run`], [`LockGuard::run`]) takes the same lock again by its name;
//!   so does [`LockGuard::reenter`]. See [taking it again](Lock#taking-it-again).
//! - [`Error`] says what the caller should do; [`Error::may_be_held`] is true if Redis may have changed.
//! - [`blocking`] has the same locks for threads without a runtime.
//! - `EmbeddedRedis` (feature `embedded`) is an engine in memory, for tests of *your* service under
//!   paused time.
//!
//! A lock with a lease cannot stop a holder that is paused beyond it: see
//! [what a lock does not protect](Lock#what-it-does-not-protect), and [`FencingToken`] for what helps.
//!
//! # Kinds
//!
//! | Call of [`Client`] | What it gives |
//! |--------------------|---------------|
//! | [`lock`](Client::lock) | one holder, re-entrant |
//! | [`non_reentrant_lock`](Client::non_reentrant_lock) | taking it again while it is held is an error |
//! | [`fair_lock`](Client::fair_lock) | first come, first served, over all clients |
//! | [`fenced_lock`](Client::fenced_lock) | guards with a growing number that the resource checks |
//! | [`read_write_lock`](Client::read_write_lock) | many readers or one writer: a [`ReadWriteLock`] |
//! | [`multi_lock`](Client::multi_lock), [`Lock::multi`] | several locks as one: all or none |
//! | [`quorum_lock`](Client::quorum_lock), [`Lock::quorum`] | a majority of independent servers |
//! | [`spin_lock`](Client::spin_lock) | waiters ask again instead of listening |
//! | [`string_lock`](Client::string_lock) | `SET NX PX`, shared with Laravel, redsync, redis-py and others |
//! | [`semaphore`](Client::semaphore) | a number of permits for all clients: a [`Semaphore`] |
//! | [`permit_expirable_semaphore`](Client::permit_expirable_semaphore) | permits with ids and leases |
//! | [`count_down_latch`](Client::count_down_latch) | many wait for a count: a [`CountDownLatch`] |
//!
//! Take [`lock`](Client::lock) unless another kind fits better; `docs/choosing.md` says when, and what
//! each kind costs. All locks are [`Lock`] values with the same calls. `docs/coming-from.md` lists the
//! calls of other libraries beside those of this crate.
//!
//! # Cancel safety
//!
//! Any future of this crate may be dropped at any time. *Cancel safety* says at each call what the drop
//! leaves behind, with one of these verdicts:
//!
//! - **Cancel safe.** Nothing is left in Redis, and nothing in the process.
//! - **Cancel safe, with clean-up.** A release is queued. Until it is sent, others may see the lock
//!   held, at most for the lease. A place among waiters is lost.
//! - **Not cancel safe.** Something is lost; the call says what settles it. None in this version.
//!
//! A future may also be kept without being polled (a branch of `select!` in a loop, a stream that is not
//! drained). An acquisition that was woken and is not polled within [`Lock::UNATTENDED`] is passed over:
//! the client cleans up as if the future had been dropped. A future that is polled later begins again, and is
//! allowed twice as long.
//!
//! The client does the clean-up, not the caller's runtime. The client repeats a release until Redis
//! confirms it or the lease is certainly over.
//!
//! # Fork
//!
//! A client works in the process that made it. In a fork of that process (by the C library: a raw system call is not
//! noticed) its calls fail with [`Error::Forked`], and nothing is sent: make a client there. The guards that the fork
//! has copied are still those of its parent, which goes on holding and renewing: in the fork an unlock fails or does
//! nothing, and a drop does nothing. Forking a process with threads has other dangers, which are not of this crate: the
//! threads and runtimes of the parent do not run in the fork. Leave it by `exec` or `exit`, or make a runtime of its
//! own.
//!
//! # Features
//!
//! | Feature    | Default | What it adds                                                           |
//! |------------|---------|------------------------------------------------------------------------|
//! | `tls`      | yes     | `rediss://` URLs, by rustls: the system's root certificates or your own (`TlsOptions`) |
//! | `embedded` | no      | `Client::embedded` and `EmbeddedRedis`: the same scripts on an engine in memory; compiles Lua |
//! | `metrics`  | no      | what a client does as metrics, by the facade `metrics`: `docs/telemetry.md` |
//! | `tracing`  | no      | the same as spans and events, by the facade `tracing` |
//! | `fred`     | no      | `Client::builder_with_fred`: connections by the client fred, and its limits |
//!
//! `test-util` is for this crate's own tests: it promises nothing and may change at any time.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod client;
mod clock;
mod connections;
#[cfg(all(doctest, feature = "embedded"))]
mod doctests;
mod durability;
mod error;
mod fencing;
mod holder;
mod latch;
mod lease;
mod lock;
mod locks;
mod permits;
pub mod preflight;
mod process;
mod protocol;
mod read_write;
mod semaphore;
mod session;
mod stats;
mod sync;
mod synchronizer;
mod telemetry;
mod transport;

pub use client::{Client, ClientBuilder, LocalHandover};
pub use connections::Connection;
pub use durability::Durability;
pub use error::{Cause, ConfigError, Error, Unmet};
pub use fencing::FencingToken;
pub use holder::Holder;
pub use latch::CountDownLatch;
pub use lease::{Ended, HoldState, Lease, LossReason};
pub use lock::{Acquire, FencedGuard, FencedLock, Guard, Lock, LockGuard, Waiters};
pub use locks::{LockInfo, LockKind, LockList};
pub use permits::{ExpirablePermit, PermitExpirableSemaphore};
pub use read_write::ReadWriteLock;
pub use semaphore::{Semaphore, SemaphorePermit};
pub use session::Owner;
pub use stats::Stats;
pub use transport::{DeploymentKind, ShardedPubSub};

/// The crate fred, in the version whose clients [`Client::builder_with_fred`] takes.
#[cfg(feature = "fred")]
pub use ::fred;

pub use transport::redis::credentials::{Credentials, CredentialsFuture, CredentialsProvider};
#[cfg(feature = "tls")]
pub use transport::redis::tls::TlsOptions;

#[cfg(feature = "embedded")]
pub use transport::embedded::EmbeddedRedis;

/// Fault switches and inspection for this crate's own tests; no promise of stability.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod test_util {
    pub use crate::clock::{Machine, suspended};
    pub use crate::session::gate::Gate;
    pub use crate::transport::embedded::testing::{
        ConnectionControl, Delay, Direction, Dumped, ErrorReply, Faults, LinkControl, Reply,
        Restart, scripts,
    };
}
