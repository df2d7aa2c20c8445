//! One leader among any number of processes, on Redis or Valkey.
//!
//! Every candidate waits for one fenced lock with a renewed lease. The holder leads, and its
//! fencing token is the number of the [`Term`]. A leader that ends in order is followed at once.
//! The term of a leader that dies or stands still ends with its lease.
//!
//! A deposed leader does not go on: its work is dropped at its next await, before the lease ends in
//! Redis, and the leader campaigns again. An election in client-go ends after one lost lease, and
//! the code that led runs on unless it watches a context.
//!
//! # What it does not protect
//!
//! A step that is already running when the process is paused continues when the process wakes up.
//! Another leader may be in office by then. So whatever a leader changes should refuse the number
//! of an older term: see [`FencingToken`].
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold::Client;
//! use leasehold_leader::Leader;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let leader = Leader::new(&client, "billing").with_lease(Duration::from_secs(5));
//!
//! let terminated = std::future::pending(); // in a service: SIGTERM
//! let billed = leader
//!     .lead(terminated, |term| async move {
//!         term.check()?; // before each step that cannot be undone
//!         Ok::<_, leasehold::Error>(term.number())
//!     })
//!     .await?;
//! assert!(billed.is_some(), "it led, and stepped down when its work was done");
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold::inspect::Holder;
use leasehold::{Client, Error, FencedGuard, FencedLock, FencingToken};
use tokio::sync::watch;

/// A candidate for one office.
///
/// Each process has one, and calls [`lead`](Leader::lead). The office is the name of a fenced lock:
/// other programs, also in Java, can campaign by taking that lock.
pub struct Leader {
    lock: FencedLock,
    status: watch::Sender<Status>,
}

/// What a candidate is, as far as its process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It does not lead: it waits for the office, or does not campaign.
    Following,
    /// It leads in the term with this number.
    Leading(FencingToken),
}

/// One time in office: from an election to the release or the loss of the lock.
///
/// A clone is the same term. It does not keep the office, so it may outlive the term.
#[derive(Clone)]
pub struct Term {
    guard: Weak<FencedGuard>,
    number: FencingToken,
    office: Arc<str>,
}

impl Leader {
    /// Makes a candidate for the office of this name. Does no I/O.
    pub fn new(client: &Client, office: impl AsRef<str>) -> Self {
        Leader {
            lock: client.fenced_lock(office),
            status: watch::Sender::new(Status::Following),
        }
    }

    /// Sets how long the office stays taken after its leader died. Default: the client's lease, 30
    /// s.
    ///
    /// A shorter lease makes the vacancy shorter. A longer one survives a longer outage of Redis.
    #[must_use = "the candidate is moved into the returned value"]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.with_lease(lease);
        self
    }

    /// Campaigns until it leads, and runs `work` for the term. Campaigns again when the term is
    /// lost.
    ///
    /// The candidate steps down when `work` returns or when `stop` resolves. In both cases this
    /// call waits for the release, for a command's timeout at most, and returns the output of
    /// `work`, or `None` after `stop`. When `stop` resolves during a term, `work` is dropped at its
    /// current await. `stop` is a signal to end such as SIGTERM, or
    /// [`pending`](std::future::pending) for none.
    ///
    /// An outage of Redis does not end a campaign. It ends the term if it lasts longer than the
    /// rest of the lease: then `work` is dropped before another candidate can lead.
    ///
    /// # Redis cost
    ///
    /// That of a fenced lock. All waiting candidates of one client are one waiter for Redis.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. `work` is dropped, and the release continues in the background.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::lock`](leasehold::Lock::lock): Redis refuses the call for good, the
    /// client was shut down, or the name or the lease cannot be used. If `work` ends but Redis does
    /// not confirm the release, its output is returned anyway, and the release continues in the
    /// background.
    pub async fn lead<T, W>(
        &self,
        stop: impl Future<Output = ()>,
        mut work: impl FnMut(Term) -> W,
    ) -> Result<Option<T>, Error>
    where
        W: Future<Output = T>,
    {
        tokio::pin!(stop);
        loop {
            let guard = tokio::select! {
                biased;
                () = &mut stop => return Ok(None),
                guard = self.lock.lock() => Arc::new(guard?),
            };
            let term = Term {
                guard: Arc::downgrade(&guard),
                number: guard.token(),
                office: Arc::from(self.lock.name()),
            };
            let in_office = InOffice::new(&self.status, term.number);
            let led = tokio::select! {
                biased;
                () = &mut stop => None,
                led = guard.run(work(term)) => Some(led),
            };
            drop(in_office);
            // A term upgrades its reference for a moment only; the last one to go releases the
            // lock.
            if let Ok(guard) = Arc::try_unwrap(guard) {
                // A release that was not confirmed goes on in the background.
                let _released: Result<(), Error> = guard.unlock().await;
            }
            match led {
                None => return Ok(None),
                Some(Ok(output)) => return Ok(Some(output)),
                // Deposed: it stands for election again.
                Some(Err(Error::Lost { .. })) => {}
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Watches whether this candidate leads: for metrics, health checks and requests that only a
    /// leader serves.
    ///
    /// [`lead`](Leader::lead) updates it while it is polled. A process that stood still may read an
    /// old value, so check the [`Term`] before a step that must not be done by a former leader.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Asks Redis who leads, in whichever process; `None` if the office is vacant.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// See [`Lock::holder`](leasehold::Lock::holder).
    pub async fn current(&self) -> Result<Option<Holder>, Error> {
        self.lock.holder().await
    }
}

impl Term {
    /// The number of the term. It grows with every term of any candidate.
    ///
    /// Pass it to whatever the leader changes, so that the change of an older term is refused.
    pub fn number(&self) -> FencingToken {
        self.number
    }

    /// Returns an error if the term is over. Local and free: call it before each irreversible step.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the lock was lost, and another candidate may lead.
    /// - [`Error::NotOwner`]: the leader has stepped down.
    pub fn check(&self) -> Result<(), Error> {
        match self.guard.upgrade() {
            Some(guard) => guard.check(),
            None => Err(Error::NotOwner {
                name: self.office.clone(),
            }),
        }
    }

    /// Resolves when the term is over: a stop signal for tasks outside the work of
    /// [`Leader::lead`].
    ///
    /// It resolves before another candidate can lead, unless this process stands still.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.guard.upgrade().map(|guard| guard.ended());
        async move {
            if let Some(ended) = ended {
                ended.await;
            }
        }
    }
}

/// Says that the candidate leads until it is dropped, however the term ends.
struct InOffice<'a>(&'a watch::Sender<Status>);

impl<'a> InOffice<'a> {
    fn new(status: &'a watch::Sender<Status>, number: FencingToken) -> Self {
        status.send_replace(Status::Leading(number));
        InOffice(status)
    }
}

impl Drop for InOffice<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Status::Following);
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader")
            .field("office", &self.lock.name())
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("office", &self.office)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
