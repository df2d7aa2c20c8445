//! The same locks for threads without a runtime.
//!
//! A blocking [`Client`] is a client of this crate plus one helper thread. A blocking call polls the
//! async call of the same name on the thread that makes it. So the names, the Redis cost, the guarantees and
//! the errors are the same. Blocking and async callers of one session exclude each other, wait for each other
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
//! An async caller can drop its future. A blocked thread returns when its wait ends, or when another thread
//! calls [`Client::shutdown`]; then it returns [`Error::Closed`](crate::Error::Closed). [`Lock::lock`] and
//! [`Semaphore::acquire`] have no wait that could end, so prefer the methods that take one.
//!
//! # Work cannot be stopped
//!
//! [`Lock::run`] and [`Guard::run`] do not start the work without the lock, and report a loss after the work
//! has ended. In between, nothing stops the work. Call [`check`](crate::LockGuard::check) before each
//! irreversible step; it is local and free. [`Guard::ended`] tells another thread about the loss. A [fencing
//! token](crate::FencingToken) closes the gap that remains, as with async calls.
//!
//! # In async code
//!
//! A blocking call panics if its thread is polling futures for a tokio runtime: in an async function or
//! block, and in the poll of a future. It panics before anything is sent, and the message names the line of
//! the call. Use the async calls there, or make the blocking call in `spawn_blocking`. These are safe in
//! async code: making a client from a client, dropping a guard, a lock or a client, and the methods of
//! [`Guard`] that do not wait.
//!
//! # Threads, and the end of the process
//!
//! There is one thread, `leasehold-wait`, in addition to the client's own. It ends after the last value of
//! the client is dropped. A guard can be moved to and dropped on any thread. A drop does not block, except for the last
//! one of a client, its locks and guards: it waits up to 0.1 s for the releases of dropped guards.
//!
//! When `main` returns, releases that Redis has not confirmed by then may be lost. Guards that are never dropped, as in
//! another thread or a `static`, release nothing. Their locks stay held until their leases end. [`Client::shutdown`]
//! waits for the releases, and releases the held locks as well.
//!
//! Blocking calls use real time. A test that pauses the clock of its runtime does not pause theirs.

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
