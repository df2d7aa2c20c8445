//! One worker: asks, holds and writes, releases, rests.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rslock::{Lock, LockError, LockManager};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Arguments;
use crate::clock;
use crate::history::{Mode, What};
use crate::orders::Orders;
use crate::told::Told;

/// How often a section writes to the resource.
const STEP: Duration = Duration::from_millis(5);
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
    extended: Instant,
}

impl Hold {
    fn new(lock: Lock, asked: u64) -> Self {
        let validity = Duration::from_millis(lock.validity_time as u64);
        let until = asked + u64::try_from(validity.as_nanos()).expect("some seconds");
        Hold { lock, until, extended: Instant::now() }
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
            let names = &self.arguments.names;
            let name = format!("plain:{}", names[self.random.usize(..names.len())]);
            self.turn(&name).await?;
            let rest = self.one_of(&self.arguments.think_ms.clone());
            self.orders.pause(rest).await;
        }
        Ok(())
    }

    async fn turn(&mut self, name: &str) -> io::Result<()> {
        self.tell(name, What::Asked { mode: Mode::Exclusive });
        let mut hold = match self.acquire(name).await {
            Ok(hold) => hold,
            Err(error) => {
                let timeout = matches!(error, LockError::Unavailable);
                self.tell(name, What::Refused { error: kind(&error), timeout });
                return Ok(());
            }
        };
        self.tell(name, What::Granted { until: Some(hold.until), token: None });
        self.section(name, &mut hold).await?;
        self.tell(name, What::Releasing);
        // It does not say how that went.
        hold.lock.release().await;
        self.tell(name, What::Released { error: None });
        Ok(())
    }

    async fn acquire(&self, name: &str) -> Result<Hold, LockError> {
        let end = Instant::now() + Duration::from_millis(self.arguments.wait_ms);
        loop {
            let asked = clock::monotonic();
            match self.locks.lock(name.as_bytes(), self.lease()).await {
                Ok(lock) => return Ok(Hold::new(lock, asked)),
                Err(error) if Instant::now() + RETRY > end => return Err(error),
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    /// Goes on for a random time, or until the lock is no longer held for certain.
    async fn section(&mut self, name: &str, hold: &mut Hold) -> io::Result<()> {
        let end = Instant::now() + self.one_of(&self.arguments.hold_ms.clone());
        while Instant::now() < end && !self.orders.stopping() {
            if let Err(error) = self.keep(hold).await {
                self.tell(name, What::Lost { reason: kind(&error) });
                return Ok(());
            }
            if clock::monotonic() >= hold.until {
                self.tell(name, What::Doubted);
                return Ok(());
            }
            self.tell(name, What::Held { until: Some(hold.until) });
            let accepted = self.write(name).await?;
            self.tell(name, What::Wrote { accepted, order: None });
            sleep(STEP).await;
        }
        Ok(())
    }

    /// Extends the lock as the README shows.
    async fn keep(&self, hold: &mut Hold) -> Result<(), LockError> {
        if hold.extended.elapsed() >= self.lease() / 3 {
            let asked = clock::monotonic();
            *hold = Hold::new(self.locks.extend(&hold.lock, self.lease()).await?, asked);
        }
        Ok(())
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

    fn one_of(&mut self, millis: &RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.random.u64(millis.clone()))
    }
}

/// The variant.
fn kind(error: &LockError) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
