//! The operations that are counted, on a runtime of one thread.
//!
//! What is counted must not depend on how fast the machine is:
//!
//! - Time stands still and passes in steps. Timers fire when this says so, each time after the same
//!   work.
//! - Before the thread waits for the server, the server has answered everything that was sent
//!   ([`Server::has_answered`]), so all replies to a burst come in one read.
//! - Jitter is the same in every run.
//!
//! What remains is chance: the ids of clients and the seeds of hash tables differ from process to
//! process.

use std::io::{self, Read as _, Write as _};
use std::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use leasehold::{Client, Lock, LockGuard};
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::time::{advance, sleep};

/// So many that maps and buffers are full, scripts are loaded and channels are known.
const WARM_UP: u32 = 100;
/// Locks whose renewals are counted.
const RENEWED: u32 = 100;
/// Waiters of a queue that is lost.
const WAITING: u32 = 100;
/// For the clients it passes in a few steps, for the server as slowly as ever.
const LEASE: Duration = Duration::from_secs(15);
/// More than is ever in flight.
const BUFFER: usize = 1 << 16;
/// How much time passes in a step.
const STEP: Duration = Duration::from_millis(1);
/// The same, until renewals are due.
const LONG_STEP: Duration = Duration::from_millis(250);
/// A waiter that listens asks once more, which takes one step, and then sleeps.
const FALLS_ASLEEP: usize = 4;
/// Until the next heartbeat.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// It finds a place gone, and the waiter asks twice.
const COMES_BACK: usize = 12;
/// So long that a slow machine loses no place.
const CLAIM: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Lock and unlock, uncontended.
    Pair,
    /// A client unlocks, and another one, which waits, gets the lock.
    HandOver,
    /// The same with a fair lock.
    FairHandOver,
    /// A hold is renewed.
    Renewal,
    /// Two clients always want the same lock, and one of them gets it.
    TurnOfTwo,
    /// The same with 64 clients.
    TurnOfMany,
    /// The queue of a fair lock is lost, and one of its waiters goes back.
    LostPlace,
}

impl Operation {
    pub(crate) const ALL: [Self; 7] = [
        Self::Pair,
        Self::HandOver,
        Self::FairHandOver,
        Self::Renewal,
        Self::TurnOfTwo,
        Self::TurnOfMany,
        Self::LostPlace,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::HandOver => "hand-over",
            Self::FairHandOver => "fair hand-over",
            Self::Renewal => "renewal",
            Self::TurnOfTwo => "turn among 2 clients",
            Self::TurnOfMany => "turn among 64 clients",
            Self::LostPlace => "lost place",
        }
    }

    fn clients(self) -> usize {
        if self == Self::TurnOfMany { 64 } else { 2 }
    }

    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.expect("an operation")
    }
}

pub(crate) struct Prepared {
    runtime: Runtime,
    operation: Operation,
    clients: Vec<Client>,
    /// What is renewed.
    guards: Vec<LockGuard>,
    server: Arc<Server>,
    /// A blocking task waits for its end. Until then, tokio does not advance its paused clock.
    standstill: Sender<()>,
}

impl Prepared {
    pub(crate) fn new(operation: Operation, url: &str) -> Self {
        // Jitter decides which holds are renewed together.
        fastrand::seed(1);
        let server = Arc::new(Server::at(url));
        let parking = server.clone();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .on_thread_park(move || parking.has_answered())
            .build()
            .expect("a runtime");
        let (standstill, ended) = channel();
        runtime.spawn_blocking(move || ended.recv());
        let connect = async || {
            let builder = Client::builder(url).lease(LEASE).dial_by(dialed);
            let builder = match operation {
                Operation::LostPlace => builder.fair_claim(CLAIM),
                _ => builder,
            };
            builder.connect().await
        };
        let (clients, guards) = runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..operation.clients() {
                clients.push(connect().await.expect("a client"));
            }
            let mut guards = Vec::new();
            if operation == Operation::Renewal {
                for number in 0..RENEWED {
                    guards.push(locked(clients[0].lock(format!("x{number}"))).await);
                }
            }
            if operation == Operation::LostPlace {
                guards.push(locked(clients[0].fair_lock("x")).await);
                for client in clients.iter().cycle().take(WAITING as usize) {
                    // It waits until the runtime ends.
                    drop(Handle::current().spawn(locked(client.fair_lock("x"))));
                }
                let wait = |client: &Client| client.stats().waiting == u64::from(WAITING) / 2;
                server.until(STEP, || clients.iter().all(wait)).await;
            }
            (clients, guards)
        });
        let prepared = Prepared {
            runtime,
            operation,
            clients,
            guards,
            server,
            standstill,
        };
        prepared.run(WARM_UP);
        prepared
    }

    /// The PINGs of this program so far.
    pub(crate) fn pings(&self) -> u64 {
        self.server.pings.load(Ordering::Relaxed)
    }

    pub(crate) fn run(&self, times: u32) {
        let (one, other) = (&self.clients[0], &self.clients[1]);
        let server = &*self.server;
        self.runtime.block_on(async {
            match self.operation {
                Operation::Pair => pairs(&one.lock("x"), times).await,
                Operation::HandOver => {
                    let sides = [(one, one.lock("x")), (other, other.lock("x"))];
                    hand_overs(server, sides, times).await;
                }
                Operation::FairHandOver => {
                    let sides = [(one, one.fair_lock("x")), (other, other.fair_lock("x"))];
                    hand_overs(server, sides, times).await;
                }
                Operation::Renewal => renewals(server, one, times).await,
                Operation::TurnOfTwo | Operation::TurnOfMany => {
                    turns(server, &self.clients, times).await;
                }
                Operation::LostPlace => losses(server, times).await,
            }
        });
    }

    /// All holds are still there.
    pub(crate) fn end(self) {
        for guard in self.guards {
            let released = self.runtime.block_on(guard.unlock());
            released.expect("unlocked");
        }
        // The runtime waits for the task that waits for this.
        drop(self.standstill);
    }
}

/// A client whose connections a test dials does everything on the runtime of its caller. Others
/// have a thread and a runtime of their own, where time does not stand still.
fn dialed(address: &str) -> io::Result<DuplexStream> {
    let server = net::TcpStream::connect(address)?;
    server.set_nodelay(true)?;
    server.set_nonblocking(true)?;
    let mut server = TcpStream::from_std(server)?;
    let (client, mut here) = duplex(BUFFER);
    Handle::current().spawn(async move { copy_bidirectional(&mut here, &mut server).await });
    Ok(client)
}

async fn pairs(lock: &Lock, times: u32) {
    for _ in 0..times {
        locked(lock.clone()).await.unlock().await.expect("unlocked");
    }
}

/// The clients hold the lock in turn. Each release meets a waiter that sleeps.
async fn hand_overs(server: &Server, sides: [(&Client, Lock); 2], times: u32) {
    fastrand::seed(1);
    let first = Handle::current().spawn(locked(sides[0].1.clone()));
    // Now and then a client lets others go first.
    server.until(STEP, || first.is_finished()).await;
    let mut guard = first.await.expect("no panic");
    for round in 1..=times {
        let (client, lock) = &sides[usize::from(round % 2 == 1)];
        let next = Handle::current().spawn(locked(lock.clone()));
        server.until(STEP, || client.stats().listeners == 1).await;
        for _ in 0..FALLS_ASLEEP {
            server.step(STEP).await;
        }
        guard.unlock().await.expect("unlocked");
        server.until(STEP, || next.is_finished()).await;
        guard = next.await.expect("no panic");
    }
    guard.unlock().await.expect("unlocked");
}

async fn locked(lock: Lock) -> LockGuard {
    lock.lock().await.expect("locked")
}

/// All clients always want the lock, each for a step.
async fn turns(server: &Server, clients: &[Client], times: u32) {
    fastrand::seed(1);
    let begun = Arc::new(AtomicU32::new(0));
    let turns = |client: &Client| {
        let (lock, begun) = (client.lock("x"), begun.clone());
        async move {
            while begun.fetch_add(1, Ordering::Relaxed) < times {
                let guard = locked(lock.clone()).await;
                sleep(STEP).await;
                guard.unlock().await.expect("unlocked");
            }
        }
    };
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| Handle::current().spawn(turns(client)))
        .collect();
    for task in tasks {
        server.until(STEP, || task.is_finished()).await;
        task.await.expect("no panic");
    }
}

/// All locks are renewed together, as often as it takes.
async fn renewals(server: &Server, client: &Client, times: u32) {
    assert_eq!(times % RENEWED, 0, "all are renewed equally often");
    for _ in 0..times / RENEWED {
        let before = client.stats().renewed;
        let all = || client.stats().renewed == before + u64::from(RENEWED);
        server.until(LONG_STEP, all).await;
    }
}

/// The queue is lost as often as it takes. Heartbeats find out.
async fn losses(server: &Server, times: u32) {
    assert_eq!(times % WAITING, 0, "all lose their places equally often");
    for _ in 0..times / WAITING {
        server.step(HEARTBEAT).await;
        for _ in 0..COMES_BACK {
            server.step(STEP).await;
        }
        server.answers("LLEN redisson_lock_queue:{x}", &format!(":{WAITING}"));
        server.answers(
            "DEL redisson_lock_queue:{x} redisson_lock_timeout:{x}",
            ":2",
        );
    }
}

/// A connection of this program to the server.
struct Server {
    connection: net::TcpStream,
    pings: AtomicU64,
    /// The thread has nothing to do, and the server has answered.
    idle: Notify,
}

impl Server {
    fn at(url: &str) -> Self {
        let address = url.strip_prefix("redis://").expect("a URL of a server");
        let connection = net::TcpStream::connect(address).expect("a connection");
        connection.set_nodelay(true).expect("no delay");
        Server {
            connection,
            pings: AtomicU64::new(0),
            idle: Notify::new(),
        }
    }

    /// Waits until the server has answered everything that it was sent before. Redis answers all
    /// connections from which it has read before it reads again. So when the second answer is here,
    /// those to earlier commands are, too.
    fn has_answered(&self) {
        for _ in 0..2 {
            // Without allocations, which are counted.
            let mut connection = &self.connection;
            connection.write_all(b"PING\r\n").expect("sent");
            let mut answer = [0; b"+PONG\r\n".len()];
            connection.read_exact(&mut answer).expect("answered");
            self.pings.fetch_add(1, Ordering::Relaxed);
        }
        self.idle.notify_waiters();
    }

    fn answers(&self, command: &str, answer: &str) {
        let (mut connection, expected) = (&self.connection, format!("{answer}\r\n"));
        let command = format!("{command}\r\n");
        connection.write_all(command.as_bytes()).expect("sent");
        let mut answer = vec![0; expected.len()];
        connection.read_exact(&mut answer).expect("answered");
        assert_eq!(String::from_utf8_lossy(&answer), expected, "{command}");
    }

    /// The only way how time passes.
    async fn step(&self, span: Duration) {
        self.idle.notified().await;
        advance(span).await;
    }

    async fn until(&self, step: Duration, holds: impl Fn() -> bool) {
        loop {
            let mut over = false;
            // Looking allocates, and the operation does not look.
            allocation_counter::opt_out(|| over = holds());
            if over {
                return;
            }
            self.step(step).await;
        }
    }
}
