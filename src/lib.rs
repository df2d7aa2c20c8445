//! Distributed locks on Redis and Valkey, wire-compatible with Java's Redisson.
//!
//! A [`Client`] is a set of connections to Redis, and makes [`Lock`] values. Each acquisition of a
//! lock gives a [`LockGuard`], which releases the lock when it is dropped. While the guard lives,
//! the lease is renewed in the background, and the guard knows without asking Redis whether the
//! lock is still held.
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
//! guard.run(async { /* the work: cancelled if the lock is lost */ }).await?;
//! guard.check()?; // before an irreversible step
//! guard.unlock().await?;
//!
//! client.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Lock::lock`] waits as long as it takes. [`Lock::try_lock`] takes a *wait* and a *lease*, in
//!   this order. [`Lock::acquire`] is a builder with all settings.
//! - Every acquisition is its own owner: two acquisitions exclude each other, even from one lock
//!   value, one task or one client.
//! - Code inside a section ([`Lock::run`], [`LockGuard::run`]) can take the same lock again by its
//!   name. [`LockGuard::reenter`] takes it again as well. See [taking it
//!   again](Lock#taking-it-again).
//! - [`Error`] says what the caller should do. [`Error::may_be_held`] is true if Redis may have
//!   changed.
//! - [`blocking`] has the same locks for threads without an async runtime.
//! - The crate [leasehold-admin](https://docs.rs/leasehold-admin) checks a deployment, and lists
//!   the locks that are held.
//! - `EmbeddedRedis` (feature `embedded`) is an in-memory engine for tests of *your* service under
//!   paused time.
//!
//! A lock with a lease cannot stop a holder that is paused for longer than the lease. See [what a
//! lock does not protect](Lock#what-it-does-not-protect), and [`FencingToken`] for the remedy.
//! [What the compiler cannot see](guide::what_the_compiler_cannot_see) shows code that compiles and
//! protects nothing.
//!
//! # Kinds
//!
//! | Call of [`Client`] | What it gives |
//! |--------------------|---------------|
//! | [`lock`](Client::lock) | one holder, re-entrant |
//! | [`fair_lock`](Client::fair_lock) | first come, first served, across all clients |
//! | [`fenced_lock`](Client::fenced_lock) | guards carry a growing number for the resource to check |
//! | [`read_write_lock`](Client::read_write_lock) | many readers or one writer: a [`ReadWriteLock`] |
//! | [`spin_lock`](Client::spin_lock) | waiters poll instead of listening |
//! | [`string_lock`](Client::string_lock) | `SET NX PX`, shared with Laravel, redsync, redis-py and others |
//! | [`semaphore`](Client::semaphore) | at most n at once across all clients: a [`Semaphore`] |
//! | [`permit_expirable_semaphore`](Client::permit_expirable_semaphore) | permits with ids and leases |
//! | [`count_down_latch`](Client::count_down_latch) | many wait until n things have happened: a [`CountDownLatch`] |
//!
//! Several locks become one with [`Lock::multi`] (all or none) or [`Lock::quorum`] (a majority of
//! independent servers). With [`Lock::non_reentrant`], taking a lock again while holding it is an
//! error.
//!
//! Take [`lock`](Client::lock) unless another kind fits better. All locks are [`Lock`] values with
//! the same calls. [Choosing](guide::choosing) compares the kinds and their costs. [Coming
//! from](guide::coming_from) maps the calls of other libraries to this crate. The [guide] has all
//! pages.
//!
//! # Cancel safety
//!
//! Any future of this crate may be dropped at any time. The section *Cancel safety* of each call
//! says what the drop leaves behind, with one of these verdicts:
//!
//! - **Cancel safe.** Nothing is left in Redis or in the process.
//! - **Cancel safe, with clean-up.** A release is queued. Until it is sent, others may see the lock
//!   held, for at most the lease. A waiter loses its place in the queue.
//! - **Not cancel safe.** Something is lost; the call says how to recover. None in this version.
//!
//! A future may also be kept without being polled, as in an idle branch of a `select!` loop or a
//! stream that is not drained. If a woken acquisition is not polled within [`Lock::POLL_WITHIN`],
//! the client cleans up as if the future had been dropped, and serves the next waiter. If the
//! future is polled later, it starts again and is allowed twice as long.
//!
//! The client cleans up on its own, without the caller's runtime. It repeats a release until Redis
//! confirms it or the lease is certainly over.
//!
//! # Runtimes
//!
//! A client is made within a tokio runtime that has timers and I/O (`enable_all`). Any executor may
//! poll its calls. While the runtime of a client runs nothing, a call with a bound still ends, and
//! its error says why. On a server, the connections move to the client's own thread after some
//! seconds.
//!
//! # Fork
//!
//! A client works only in the process that made it. In a forked child, its calls send nothing and
//! fail with [`Error::Forked`]: make a new client there. (A fork by a raw system call, without the
//! C library, goes unnoticed.) The parent keeps and renews its holds. Copies of its guards in the
//! child do nothing: an unlock may fail, and a drop has no effect.
//!
//! Forking a process with threads has other dangers: the parent's threads and runtimes do not run
//! in the child. Leave the child by `exec` or `exit`, or make a new runtime there.
//!
//! # Features
//!
//! | Feature    | Default | What it adds                                                           |
//! |------------|---------|------------------------------------------------------------------------|
//! | `tls`      | yes     | `rediss://` URLs with rustls: the system's root certificates or your own (`settings::TlsOptions`) |
//! | `embedded` | no      | `Client::embedded` and `EmbeddedRedis`: the same scripts in memory; compiles Lua |
//! | `metrics`  | no      | metrics for the `metrics` facade: [telemetry](guide::telemetry) |
//! | `tracing`  | no      | spans and events for the `tracing` facade |
//!
//! `test-util` and `history` are for this crate's own tests and may change at any time.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod client;
mod client_id;
mod clock;
#[cfg(all(doctest, feature = "embedded"))]
mod doctests;
mod durability;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod fencing;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
#[doc(hidden)]
pub mod harness;
mod holder;
pub mod inspect;
mod latch;
mod lease;
mod lock;
#[doc(hidden)]
pub mod parts;
mod permits;
mod protocol;
mod read_write;
mod semaphore;
mod session;
pub mod settings;
mod stats;
mod synchronizer;
mod telemetry;
mod wake;

use leasehold_transport as transport;
use leasehold_transport::{sync, timer};

pub use client::{Client, ClientBuilder};
pub use error::{Cause, ConfigError, Error, Refused};
pub use fencing::FencingToken;
pub use latch::CountDownLatch;
pub use lease::{Ended, ForcedRelease, HoldState, Lease, LossReason};
pub use lock::{Acquire, FencedGuard, FencedLock, Guard, Lock, LockGuard};
pub use permits::{ExpirablePermit, PermitExpirableSemaphore};
pub use read_write::ReadWriteLock;
pub use semaphore::{Semaphore, SemaphorePermit};
pub use stats::Stats;

#[cfg(feature = "embedded")]
pub use embedded::EmbeddedRedis;

/// Fault switches and inspection for this crate's own tests; no promise of stability.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod test_util {
    pub use crate::clock::{Machine, suspended};
    pub use crate::embedded::testing::{
        ConnectionControl, Delay, Direction, Dumped, ErrorReply, Faults, Hello, LinkControl,
        Profile, Refusal, Refused, Reply, Restart, Slots, Undeclared, scripts,
    };
}
