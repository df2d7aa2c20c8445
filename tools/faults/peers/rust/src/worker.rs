//! A worker: takes a lock, writes while it holds the lock, releases it, and rests.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rslock::{Lock, LockError, LockManager};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Arguments;
use crate::clock;
use crate::habits::Plan;
use crate::history::{Doing, Mode, What};
use crate::orders::Orders;
use crate::recorder::Recorder;

/// Pause between two attempts, as in rslock's example of a shared lock.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Worker {
    number: u32,
    arguments: Arc<Arguments>,
    locks: LockManager,
    recorder: Recorder,
    orders: Orders,
    random: fastrand::Rng,
    resource: BufStream<TcpStream>,
}

struct Hold {
    lock: Lock,
    /// A time of the monotonic clock. rslock says how long the lock is valid, but not when that
    /// time begins. The driver counts from before the call, which is safe.
    until: u64,
    /// When to extend the lease.
    due: Instant,
}

impl Hold {
    fn new(lock: Lock, asked: u64, due: Instant) -> Self {
        let validity = Duration::from_millis(lock.validity_time as u64);
        let until = asked + u64::try_from(validity.as_nanos()).expect("some seconds");
        Hold { lock, until, due }
    }
}

impl Worker {
    pub(crate) async fn new(
        number: u32,
        arguments: Arc<Arguments>,
        locks: LockManager,
        recorder: Recorder,
        orders: Orders,
    ) -> io::Result<Self> {
        let resource = BufStream::new(TcpStream::connect(&arguments.resource).await?);
        let seed = arguments.seed ^ (u64::from(recorder.process()) << 32 | u64::from(number));
        let random = fastrand::Rng::with_seed(seed);
        Ok(Worker { number, arguments, locks, recorder, orders, random, resource })
    }

    /// Works until `stop`. Fails only if the resource fails.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        while !self.orders.stopping() {
            let plan = Plan::next(self.number, &self.arguments, &mut self.random);
            self.turn(&plan).await?;
            let rest = self.random.u64(self.arguments.think_ms.clone());
            self.orders.pause(Duration::from_millis(rest)).await;
        }
        Ok(())
    }

    async fn turn(&mut self, plan: &Plan) -> io::Result<()> {
        let name = &*plan.name;
        self.record(name, What::Asked { mode: Mode::Exclusive, fixed_ms: None, renewed_ms: None });
        let mut hold = match self.acquire(plan).await {
            Ok(hold) => hold,
            Err(error) => {
                let timeout = matches!(error, LockError::Unavailable);
                self.record(name, What::Refused { error: kind(&error), timeout });
                return Ok(());
            }
        };
        self.record(name, What::Granted { until: Some(hold.until), token: None });
        self.section(plan, &mut hold).await?;
        self.record(name, What::Releasing);
        // The release has no result.
        hold.lock.release().await;
        self.record(name, What::Released { error: None });
        Ok(())
    }

    async fn acquire(&self, plan: &Plan) -> Result<Hold, LockError> {
        let end = Instant::now() + plan.wait;
        loop {
            let asked = clock::monotonic();
            match self.locks.lock(plan.name.as_bytes(), self.lease()).await {
                Ok(lock) => return Ok(Hold::new(lock, asked, Instant::now() + self.lease() / 3)),
                Err(error) if Instant::now() + RETRY > end => return Err(error),
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    /// Works as planned, or until the lock is no longer certainly held.
    async fn section(&mut self, plan: &Plan, hold: &mut Hold) -> io::Result<()> {
        let (name, leave) = (&*plan.name, Instant::now() + plan.stay);
        if plan.is_paused {
            self.record(name, What::Did { what: Doing::Paused, error: None });
            if !self.idle(name, hold, plan.stay).await {
                return Ok(());
            }
        }
        loop {
            if clock::monotonic() >= hold.until {
                self.record(name, What::Doubted);
                return Ok(());
            }
            self.record(name, What::Held { until: Some(hold.until) });
            self.orders.freeze()?;
            let accepted = self.write(name).await?;
            self.record(name, What::Wrote { accepted });
            let is_over = Instant::now() >= leave || self.orders.stopping();
            if is_over || !self.idle(name, hold, plan.step).await {
                return Ok(());
            }
        }
    }

    /// Waits, and extends the lease each time a third of it has passed. Returns early if the worker
    /// must stop. Returns false if the lock is lost.
    async fn idle(&mut self, name: &str, hold: &mut Hold, length: Duration) -> bool {
        let end = Instant::now() + length;
        loop {
            let wake = end.min(hold.due);
            self.orders.pause(wake.saturating_duration_since(Instant::now())).await;
            if wake == end || self.orders.stopping() {
                return true;
            }
            if !self.extend(name, hold).await {
                return false;
            }
        }
    }

    /// Extends the lock as the README shows. After an error that does not mean that the lock is
    /// lost, it is due again soon.
    async fn extend(&self, name: &str, hold: &mut Hold) -> bool {
        let (asked, sent) = (clock::monotonic(), Instant::now());
        let error = match self.locks.extend(&hold.lock, self.lease()).await {
            Ok(lock) => {
                *hold = Hold::new(lock, asked, sent + self.lease() / 3);
                self.record(name, What::Did { what: Doing::Renewed, error: None });
                return true;
            }
            Err(error) => error,
        };
        hold.due = sent + self.lease() / 10;
        let reason = kind(&error);
        self.record(name, What::Did { what: Doing::Renewed, error: Some(reason.clone()) });
        // rslock has released the lock before it returns this error.
        let is_lost = matches!(error, LockError::Unavailable);
        if is_lost {
            self.record(name, What::Lost { reason });
        }
        !is_lost
    }

    async fn write(&mut self, name: &str) -> io::Result<bool> {
        let line = format!("W {name} - {}.{}\n", self.recorder.process(), self.number);
        self.resource.write_all(line.as_bytes()).await?;
        self.resource.flush().await?;
        let mut answer = String::new();
        self.resource.read_line(&mut answer).await?;
        match &*answer {
            "ok\n" => Ok(true),
            "refused\n" => Ok(false),
            other => Err(io::Error::other(format!("unexpected answer of the resource: {other:?}"))),
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.arguments.lease_ms)
    }

    fn record(&self, name: &str, what: What) {
        self.recorder.record(self.number, name, what);
    }
}

/// The variant of the error.
fn kind(error: &LockError) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
