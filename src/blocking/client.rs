//! The blocking client.

use std::time::Duration;

use super::driver::Driver;
use super::latch::CountDownLatch;
use super::lock::{FencedLock, Lock};
use super::permits::PermitExpirableSemaphore;
use super::read_write::ReadWriteLock;
use super::semaphore::Semaphore;
use crate::client::ClientBuilder;
use crate::deadlocks::Deadlock;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::lock::Guard;
use crate::locks::LockList;
use crate::stats::Stats;

/// A client of Redis or Valkey whose locks, semaphores and latches have blocking methods.
///
/// Clones are the same client. The rules for names, and for how long the connections are kept, are those of
/// [`Client`](crate::Client).
///
/// # Examples
///
/// Threads that exclude each other:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::thread;
/// use std::time::Duration;
///
/// use leasehold::{Error, Lease, blocking};
///
/// let client = blocking::Client::embedded();
/// let workers: Vec<_> = (0..4)
///     .map(|_| {
///         let lock = client.lock("report"); // each thread may have its own value, or share one
///         thread::spawn(move || {
///             lock.run(Duration::from_secs(10), Lease::Renewed, |_guard| { /* one at a time */ })
///         })
///     })
///     .collect();
/// for worker in workers {
///     worker.join().expect("no panic")?;
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    driver: Driver,
}

/// Methods that make a lock, a semaphore or a latch. They do no I/O.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident -> $blocking:ident;)*) => {$(
        $(#[$doc])*
        pub fn $kind(&self, name: impl AsRef<str>) -> $blocking {
            $blocking::new(self.inner.$kind(name), &self.driver)
        }
    )*};
}

impl Client {
    /// Connects to `url` with the default settings. See [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    ///
    /// The errors of that method. [`Error::Unavailable`] if the system cannot start a thread.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(url: &str) -> Result<Client, Error> {
        Client::connect_with(crate::Client::builder(url))
    }

    /// Connects with settings. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// The errors of that method. [`Error::Unavailable`] if the system cannot start a thread.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use leasehold::{Client, blocking};
    ///
    /// let settings = Client::builder("redis://127.0.0.1:6379").lease(Duration::from_secs(10));
    /// let client = blocking::Client::connect_with(settings)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[track_caller]
    pub fn connect_with(settings: ClientBuilder) -> Result<Client, Error> {
        Client::connect_by(settings.connect())
    }

    /// Connects with settings, without waiting for a server that cannot be reached. See
    /// [`ClientBuilder::connect_in_background`].
    ///
    /// # Errors
    ///
    /// The errors of that method. [`Error::Unavailable`] if the system cannot start a thread.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect_in_background(settings: ClientBuilder) -> Result<Client, Error> {
        Client::connect_by(settings.connect_in_background())
    }

    #[track_caller]
    fn connect_by(
        connecting: impl Future<Output = Result<crate::Client, Error>>,
    ) -> Result<Client, Error> {
        let driver = Driver::start()?;
        let inner = driver.block_on(connecting)?;
        driver.go_on_until(inner.ended());
        Ok(Client { inner, driver })
    }

    /// Adds blocking calls to the session of an async client. Does not block.
    ///
    /// Use it in an async service that also has threads. Each `new` starts a thread, so keep the returned
    /// client and clone it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the system cannot start a thread.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use leasehold::{Client, Lease, blocking};
    ///
    /// let client = Client::embedded();
    /// let threads = blocking::Client::new(client.clone())?;
    ///
    /// let guard = client.lock("orders:42").lock().await?;
    /// let waiting = tokio::task::spawn_blocking(move || {
    ///     threads.lock("orders:42").try_lock(Duration::from_secs(10), Lease::Renewed)?.unlock()
    /// });
    /// guard.unlock().await?; // the thread gets it
    /// waiting.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: crate::Client) -> Result<Client, Error> {
        Ok(Client {
            inner: client,
            driver: Driver::start()?,
        })
    }

    /// Makes a client with its own in-memory engine. See [`Client::embedded`](crate::Client::embedded).
    ///
    /// # Panics
    ///
    /// If the system cannot start a thread.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        Client::new(crate::Client::embedded()).expect("a thread to wait with")
    }

    kinds! {
        /// Like [`Client::lock`](crate::Client::lock). Does not block.
        lock -> Lock;
        /// Like [`Client::fair_lock`](crate::Client::fair_lock). Does not block.
        fair_lock -> Lock;
        /// Like [`Client::fenced_lock`](crate::Client::fenced_lock). Does not block.
        fenced_lock -> FencedLock;
        /// Like [`Client::spin_lock`](crate::Client::spin_lock). Does not block.
        spin_lock -> Lock;
        /// Like [`Client::string_lock`](crate::Client::string_lock). Does not block.
        string_lock -> Lock;
        /// Like [`Client::read_write_lock`](crate::Client::read_write_lock). Does not block.
        read_write_lock -> ReadWriteLock;
        /// Like [`Client::semaphore`](crate::Client::semaphore). Does not block.
        semaphore -> Semaphore;
        /// Like [`Client::permit_expirable_semaphore`](crate::Client::permit_expirable_semaphore). Does not block.
        permit_expirable_semaphore -> PermitExpirableSemaphore;
        /// Like [`Client::count_down_latch`](crate::Client::count_down_latch). Does not block.
        count_down_latch -> CountDownLatch;
    }

    /// Adds blocking calls to a lock that was made with async calls. Does not block.
    ///
    /// # Examples
    ///
    /// Several locks of different kinds, as one:
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use leasehold::{Lock, blocking};
    ///
    /// let client = blocking::Client::embedded();
    /// let shop = client.as_async();
    /// let both = Lock::multi([shop.lock("account:7"), shop.fair_lock("account:9")]);
    /// client.blocking_lock(both).lock()?.unlock()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn blocking_lock<G: Guard>(&self, lock: crate::Lock<G>) -> Lock<G> {
        Lock::new(lock, &self.driver)
    }

    /// The async client of the same session, for its methods that do not wait, and for
    /// [`block_on`](Client::block_on).
    pub fn as_async(&self) -> &crate::Client {
        &self.inner
    }

    /// Blocks the thread until `call` is done. Use it for async calls without a blocking version.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// let client = leasehold::blocking::Client::embedded();
    /// let report = client.block_on(client.as_async().preflight().name("orders:1"))?;
    /// println!("{report}");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F: IntoFuture>(&self, call: F) -> F::Output {
        self.driver.block_on(call.into_future())
    }

    /// See [`Client::stats`](crate::Client::stats). Does not block.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    blocking_calls! {
        /// Blocks the thread; otherwise like [`Client::locks`](crate::Client::locks).
        locks(pattern: &str) -> LockList;
        /// Blocks the thread; otherwise like [`Client::deadlocks`](crate::Client::deadlocks).
        deadlocks() -> Vec<Deadlock>;
        /// Blocks the thread; otherwise like [`Client::ping`](crate::Client::ping).
        ping() -> ();
        /// Blocks the thread; otherwise like [`Client::set_fenced`](crate::Client::set_fenced).
        set_fenced(key: impl AsRef<str>, token: FencingToken, value: &str) -> ();
        /// Blocks the thread; otherwise like [`Client::shutdown`](crate::Client::shutdown).
        shutdown(deadline: Duration) -> ();
    }
}
