//! The same locks for threads without a runtime.
//!
//! A blocking [`Client`] is a client of this crate, and a thread that drives its connections.
//! [`block_on`](Client::block_on) waits for any call of the library, so the names, the Redis cost,
//! the guarantees and the errors are the same. Threads and tasks of one client exclude each other,
//! wait for each other and wake each other.
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use leasehold::{Client, Error, Lease, blocking};
//!
//! fn main() -> Result<(), Error> {
//!     // Or Client::connect("redis://127.0.0.1:6379").
//!     let connecting = async { Ok(Client::embedded()) };
//!     let client = blocking::Client::connect(connecting)?;
//!     let lock = client.lock("orders:42");
//!
//!     // Waits at most two seconds; not getting the lock is an error.
//!     let guard = client.block_on(lock.try_lock(Duration::from_secs(2), Lease::Renewed))?;
//!     // … the work …
//!     guard.check()?; // before a step that cannot be taken back
//!     client.block_on(guard.unlock())?;
//!
//!     client.shutdown(Duration::from_secs(5))
//! }
//! ```
//!
//! A blocked thread returns when its call ends, or when another thread calls [`Client::shutdown`];
//! then the call returns [`Error::Closed`]. [`Lock::lock`](crate::Lock::lock) has no wait that
//! could end, so prefer [`try_lock`](crate::Lock::try_lock). Nothing stops the work of a thread
//! whose lock is lost. Call [`check`](crate::LockGuard::check) before each irreversible step; it is
//! local and free.
//!
//! Guards can be moved to and dropped on any thread. A drop does not block, except for the last one
//! of a client, its locks and guards: it waits up to 0.1 s for the releases of dropped guards. When
//! `main` returns, releases that Redis has not confirmed by then may be lost. Guards that are never
//! dropped, as in another thread or a `static`, release nothing. Their locks stay held until their
//! leases end. [`Client::shutdown`] waits for the releases, and releases the held locks as well.
//!
//! In an async program, wait on a thread for blocking work with the
//! [`Handle`](tokio::runtime::Handle::block_on) of its runtime instead.

use std::convert::Infallible;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;

use crate::error::{Cause, Error};

/// A client for threads without a runtime.
///
/// It has all methods of [`crate::Client`]. Clones are the same client. The thread `leasehold-wait`
/// drives it, and ends after its last clone, lock and guard.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    runtime: Handle,
    /// The thread ends when all of these are gone. A call that [`Client::shutdown`] ends still
    /// needs its timers.
    _user: mpsc::Sender<Infallible>,
}

impl Client {
    /// Blocks the thread until a client is connected, for example by
    /// [`Client::connect`](crate::Client::connect) or
    /// [`ClientBuilder::connect`](crate::ClientBuilder::connect).
    ///
    /// # Errors
    ///
    /// The errors of `connecting`. [`Error::Unavailable`] if the system cannot start a thread.
    ///
    /// # Panics
    ///
    /// As [`block_on`](Client::block_on).
    #[track_caller]
    pub fn connect(
        connecting: impl Future<Output = Result<crate::Client, Error>>,
    ) -> Result<Client, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let handle = runtime.handle().clone();
        // Carries nothing.
        let (user, mut gone) = mpsc::channel::<Infallible>(1);
        let drive = move || {
            runtime.block_on(gone.recv());
        };
        thread::Builder::new()
            .name("leasehold-wait".to_owned())
            .spawn(drive)
            .map_err(no_thread)?;
        let client = handle.block_on(connecting)?;
        // Guards are released by the connections, after the last client. No drop waits for the
        // thread, because it may happen in async code.
        let (ended, connections) = (client.ended(), user.clone());
        drop(handle.spawn(async move {
            ended.await;
            drop(connections);
        }));
        Ok(Client {
            inner: client,
            runtime: handle,
            _user: user,
        })
    }

    /// Blocks the thread until `call` is done. The thread itself polls it.
    ///
    /// # Panics
    ///
    /// If the thread already polls futures for a tokio runtime: in an async function or block, and
    /// in the poll of a future. It panics before anything is sent.
    #[track_caller]
    pub fn block_on<F: IntoFuture>(&self, call: F) -> F::Output {
        self.runtime.block_on(call.into_future())
    }

    /// Blocks the thread; otherwise like [`Client::shutdown`](crate::Client::shutdown).
    ///
    /// # Errors
    ///
    /// The errors of that method.
    ///
    /// # Panics
    ///
    /// As [`block_on`](Client::block_on).
    #[track_caller]
    pub fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.block_on(self.inner.shutdown(deadline))
    }
}

impl Deref for Client {
    type Target = crate::Client;

    fn deref(&self) -> &crate::Client {
        &self.inner
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn no_thread(error: io::Error) -> Error {
    Error::Unavailable {
        name: Arc::from("connect"),
        cause: Cause::new(error.to_string()),
    }
}
