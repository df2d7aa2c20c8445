//! One worker: asks, holds and writes, releases, rests.

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
use crate::told::Told;

/// How long rslock's example of a shared lock waits before it asks again.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Worker {
    number: u32,
    arguments: Arc<Arguments>,
    locks: LockManager,
    told: Told,
    orders: Orders,
    random: fastrand::Rng,
    resource: BufStream<TcpStream>,
}

struct Hold {
    lock: Lock,
    /// Of the monotonic clock. rslock says for how long the lock is valid, not since when: since the call began is
    /// certain.
    until: u64,
    /// When the lease is to be extended.
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
        told: Told,
        orders: Orders,
    ) -> io::Result<Self> {
        let resource = BufStream::new(TcpStream::connect(&arguments.resource).await?);
        let seed = arguments.seed ^ (u64::from(told.process()) << 32 | u64::from(number));
        let random = fastrand::Rng::with_seed(seed);
        Ok(Worker { number, arguments, locks, told, orders, random, resource })
    }

    /// An error is one of the resource.
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
        self.tell(name, What::Asked { mode: Mode::Exclusive, fixed_ms: None, renewed_ms: None });
        let mut hold = match self.acquire(plan).await {
            Ok(hold) => hold,
            Err(error) => {
                let timeout = matches!(error, LockError::Unavailable);
                self.tell(name, What::Refused { error: kind(&error), timeout });
                return Ok(());
            }
        };
        self.tell(name, What::Granted { until: Some(hold.until), token: None });
        self.section(plan, &mut hold).await?;
        self.tell(name, What::Releasing);
        // It does not say how that went.
        hold.lock.release().await;
        self.tell(name, What::Released { error: None });
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

    /// Goes on as planned, or until the lock is no longer held for certain.
    async fn section(&mut self, plan: &Plan, hold: &mut Hold) -> io::Result<()> {
        let (name, leave) = (&*plan.name, Instant::now() + plan.stay);
        if plan.is_paused {
            self.tell(name, What::Did { what: Doing::Paused, error: None });
            if !self.idle(name, hold, plan.stay).await {
                return Ok(());
            }
        }
        loop {
            if clock::monotonic() >= hold.until {
                self.tell(name, What::Doubted);
                return Ok(());
            }
            self.tell(name, What::Held { until: Some(hold.until) });
            self.orders.freeze()?;
            let accepted = self.write(name).await?;
            self.tell(name, What::Wrote { accepted });
            let is_over = Instant::now() >= leave || self.orders.stopping();
            if is_over || !self.idle(name, hold, plan.step).await {
                return Ok(());
            }
        }
    }

    /// Extends the lease when a third of it is over. Ends early if the worker is to stop; false: the lock is lost.
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

    /// Extends the lock as the README shows. After an error that does not say that the lock is lost it is tried again
    /// soon.
    async fn extend(&self, name: &str, hold: &mut Hold) -> bool {
        let (asked, sent) = (clock::monotonic(), Instant::now());
        let error = match self.locks.extend(&hold.lock, self.lease()).await {
            Ok(lock) => {
                *hold = Hold::new(lock, asked, sent + self.lease() / 3);
                self.tell(name, What::Did { what: Doing::Renewed, error: None });
                return true;
            }
            Err(error) => error,
        };
        hold.due = sent + self.lease() / 10;
        let reason = kind(&error);
        self.tell(name, What::Did { what: Doing::Renewed, error: Some(reason.clone()) });
        // rslock has released the lock before it says this.
        let is_lost = matches!(error, LockError::Unavailable);
        if is_lost {
            self.tell(name, What::Lost { reason });
        }
        !is_lost
    }

    async fn write(&mut self, name: &str) -> io::Result<bool> {
        let line = format!("W {name} - {}.{}\n", self.told.process(), self.number);
        self.resource.write_all(line.as_bytes()).await?;
        self.resource.flush().await?;
        let mut answer = String::new();
        self.resource.read_line(&mut answer).await?;
        match &*answer {
            "ok\n" => Ok(true),
            "refused\n" => Ok(false),
            other => Err(io::Error::other(format!("the resource says {other:?}"))),
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.arguments.lease_ms)
    }

    fn tell(&self, name: &str, what: What) {
        self.told.tell(self.number, name, what);
    }
}

/// The variant.
fn kind(error: &LockError) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
