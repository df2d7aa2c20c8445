//! The same locks for threads without a runtime.
//!
//! A blocking [`Client`] is a client of this crate and one thread that waits for it. Its calls have the
//! names, the Redis cost, the promises and the errors of the async calls, because they are the async calls:
//! each is polled by the thread that makes it. Blocking and async callers of one session exclude, wait for
//! and wake each other.
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use leasehold::{Error, Lease, blocking};
//!
//! fn main() -> Result<(), Error> {
//!     let client = blocking::Client::embedded(); // or blocking::Client::connect("redis://127.0.0.1:6379")?
//!     let lock = client.lock("orders:42");
//!
//!     // Waits at most two seconds; not getting the lock is an error.
//!     let guard = lock.try_lock(Duration::from_secs(2), Lease::Renewed)?;
//!     // … the work …
//!     guard.check()?; // before a step that cannot be taken back
//!     guard.unlock()?;
//!
//!     client.shutdown(Duration::from_secs(5))
//! }
//! ```
//!
//! # A wait cannot be dropped
//!
//! An async caller drops its future. A blocked thread goes on at the end of its wait, or when another thread
//! calls [`Client::shutdown`]: then with [`Error::Closed`](crate::Error::Closed). [`Lock::lock`] and
//! [`Semaphore::acquire`] have no other end, so prefer the calls that take a wait.
//!
//! # Work cannot be stopped
//!
//! [`Lock::run`] and [`Guard::run`] refuse to begin without the lock, and report a loss when the work has
//! ended. In between the work goes on, whatever happens to the lock. Call [`check`](crate::LockGuard::check)
//! before each step that cannot be taken back; it is local and free. [`Guard::ended`] tells another thread of
//! the loss. As with async calls, a [fencing token](crate::FencingToken) closes the rest of the window.
//!
//! # In async code
//!
//! A call panics if its thread is polling futures for a tokio runtime: in an async function or block, and in
//! the poll of a future. It panics before anything is sent, and the panic names the line of the call. Take the
//! async calls there, or make the blocking ones in `spawn_blocking`. To make a client from a client, to drop a
//! guard, a lock or a client, and all calls of [`Guard`] that do not wait are safe there as well.
//!
//! # Threads, and the end of the process
//!
//! One thread, `leasehold-wait`, in addition to the client's own. It ends after the last value of the client.
//! A guard may be moved to and dropped on any thread; a drop never blocks.
//!
//! When `main` returns, releases of dropped guards may not have been sent yet, and the leases of locks that are
//! held go on. [`Client::shutdown`] waits for both.
//!
//! Time is real: a clock that a test has paused is that of another runtime.

#[macro_use]
mod calls;

mod acquire;
mod client;
mod driver;
mod guard;
mod latch;
mod lock;
mod permits;
mod read_write;
mod semaphore;

pub use acquire::Acquire;
pub use client::Client;
pub use guard::Guard;
pub use latch::CountDownLatch;
pub use lock::{FencedLock, Lock};
pub use permits::{ExpirablePermit, PermitExpirableSemaphore};
pub use read_write::ReadWriteLock;
pub use semaphore::{Semaphore, SemaphorePermit};
