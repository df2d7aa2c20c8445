//! A service of several tasks that share locks: each of the ways in which service code uses them.
//!
//! `cargo run --example small_service`; with `REDIS_URL` set on a real server.
#![expect(clippy::disallowed_methods, reason = "a service spawns tasks")]
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::future::{BoxFuture, join_all};
use leasehold::{Client, Error, FencedLock, Lease, Lock, LockGuard};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

const WAIT: Duration = Duration::from_secs(5);

/// Shared by all tasks. Locks are values to clone; no mutex stands around them.
#[derive(Clone)]
struct Service {
    client: Client,
    stock: Lock,
    ledger: FencedLock,
    shelf: Arc<Mutex<Shelf>>,
    reports: Arc<dyn Reports>,
}

#[derive(Debug, Default)]
struct Shelf {
    pieces: u32,
    /// Tasks in the critical section, which must never be more than one.
    inside: u32,
    booked: Vec<(i64, u32)>,
}

/// Where the service sends its reports: a trait object, as tests replace it.
trait Reports: Send + Sync {
    fn sold(&self, order: u32, pieces: u32) -> BoxFuture<'_, anyhow::Result<()>>;
}

/// A job that keeps its lock for as long as it lives.
struct Inventory {
    guard: LockGuard,
    counted: u32,
}

impl Service {
    fn new(client: Client, reports: Arc<dyn Reports>) -> Self {
        let stock = client.lock("shop:stock");
        let ledger = client.fenced_lock("shop:ledger");
        let shelf = Arc::new(Mutex::new(Shelf {
            pieces: 30,
            ..Shelf::default()
        }));
        Service {
            client,
            stock,
            ledger,
            shelf,
            reports,
        }
    }

    /// One order: the work has errors of its own, and takes the stock again further down.
    async fn order(&self, order: u32, pieces: u32) -> anyhow::Result<()> {
        self.stock
            .try_run(WAIT, Lease::Renewed, async |_guard| {
                self.enter()?;
                self.take(pieces).await?;
                self.reports.sold(order, pieces).await?;
                self.leave();
                Ok(())
            })
            .await
    }

    fn enter(&self) -> anyhow::Result<()> {
        let mut goods = self.shelf.lock();
        goods.inside += 1;
        ensure!(
            goods.inside == 1,
            "{} tasks are in the section",
            goods.inside
        );
        Ok(())
    }

    fn leave(&self) {
        self.shelf.lock().inside -= 1;
    }

    /// Called with and without the lock: by its name, so it is right in both cases.
    async fn take(&self, pieces: u32) -> anyhow::Result<()> {
        let guard = self
            .client
            .lock("shop:stock")
            .try_lock(WAIT, Lease::Renewed)
            .await?;
        {
            let mut goods = self.shelf.lock();
            let Some(left) = goods.pieces.checked_sub(pieces) else {
                bail!("sold out")
            };
            goods.pieces = left;
        }
        guard.unlock().await?;
        Ok(())
    }

    /// Books with a token that the books check.
    async fn book(&self, pieces: u32) -> Result<(), Error> {
        let guard = self.ledger.lock().await?;
        let token = guard.token().value();
        guard
            .run(async { self.shelf.lock().booked.push((token, pieces)) })
            .await?;
        guard.unlock().await
    }

    async fn inventory(&self) -> Result<Inventory, Error> {
        Ok(Inventory {
            guard: self.stock.lock().await?,
            counted: 0,
        })
    }
}

impl Inventory {
    async fn count(mut self, goods: &Mutex<Shelf>) -> anyhow::Result<u32> {
        for _ in 0..3 {
            sleep(Duration::from_millis(5)).await;
            self.guard.check()?; // before each step that counts
            self.counted = goods.lock().pieces;
        }
        self.guard.unlock().await?;
        Ok(self.counted)
    }
}

/// Generic code: the future can be spawned wherever the work can.
fn spawn_under<F, W>(lock: Lock, work: F) -> tokio::task::JoinHandle<Result<W::Output, Error>>
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(async move { lock.acquire().wait(WAIT).run(|_guard| work()).await })
}

/// Waits for the lock, but no longer than the service lives.
async fn until_stopped(service: &Service, stop: impl Future<Output = ()>) -> Option<LockGuard> {
    tokio::select! {
        guard = service.stock.lock() => guard.ok(),
        () = stop => None, // the place among the waiters is left
    }
}

struct Printed;

impl Reports for Printed {
    fn sold(&self, order: u32, pieces: u32) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            println!("order {order}: {pieces} pieces");
            Ok(())
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect(&url)
            .await
            .context("no server at REDIS_URL")?,
        Err(_) => Client::embedded(),
    };
    let service = Service::new(client.clone(), Arc::new(Printed));

    // Orders from several tasks, the lock shared by all of them.
    let mut orders = JoinSet::new();
    for order in 0..10 {
        let service = service.clone();
        orders.spawn(async move { service.order(order, 2).await });
    }
    while let Some(done) = orders.join_next().await {
        done??;
    }

    // A loop that spawns with each guard: the next turn waits for the task before.
    for order in 10..13 {
        let (service, guard) = (service.clone(), service.stock.lock().await?);
        tokio::spawn(async move {
            let done = guard.try_run(service.take(1)).await;
            guard.unlock().await?;
            done.with_context(|| format!("order {order}"))
        });
    }

    // An iterator of futures.
    let booked: Result<Vec<()>, Error> = join_all((1..=5).map(|pieces| service.book(pieces)))
        .await
        .into_iter()
        .collect();
    booked?;

    // A waiter that is given up, a guard in a struct, work in generic code.
    let inventory = service.inventory().await?;
    let given_up = until_stopped(&service, sleep(Duration::from_millis(20))).await;
    ensure!(given_up.is_none(), "the inventory holds the lock");
    let left = inventory.count(&service.shelf).await?;
    let again = {
        let shelf = service.shelf.clone();
        spawn_under(
            service.stock.clone(),
            move || async move { shelf.lock().pieces },
        )
        .await??
    };
    ensure!(
        left == again && left == 7,
        "{left} and {again} pieces are left"
    );

    let tokens: Vec<_> = service
        .shelf
        .lock()
        .booked
        .iter()
        .map(|(token, _)| *token)
        .collect();
    ensure!(
        tokens.is_sorted() && tokens.len() == 5,
        "the ledger is out of order: {tokens:?}"
    );
    println!("{left} pieces are left");
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
