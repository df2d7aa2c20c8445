//! What clients cost a server while nothing happens, for docs/sizing.md: calls, bytes and CPU of a
//! second.
//!
//! ```text
//! cargo run --release -p leasehold-bench --bin sizing
//! ```
//!
//! It starts a server of its own, and prints the table.

use std::time::Duration;

use leasehold::settings::Wake;
use leasehold::{Client, ClientBuilder, Lock, LockGuard};
use leasehold_testbed::{Outside, Server, command_stats};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// As many processes.
const CLIENTS: usize = 20;
/// Locks that a client holds or waits for.
const EACH: usize = 10;
/// Connections and subscriptions that are kept warm have settled by then.
const SETTLE: Duration = Duration::from_secs(12);
/// Two renewals of a lease of 30 s.
const MEASURED: Duration = Duration::from_secs(20);

/// What clients send. Scripts call other commands.
const SENT: [&str; 6] = [
    "eval",
    "evalsha",
    "info",
    "ping",
    "subscribe",
    "unsubscribe",
];

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Make = fn(&Client, String) -> Lock;

/// What the server has counted so far.
struct Counts {
    at: Instant,
    calls: u64,
    in_scripts: u64,
    received: u64,
    sent: u64,
    /// The reply with these counts. The server counts it only after it has written them.
    reply: u64,
    cpu: f64,
}

fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then(|| value.trim().to_owned())
    })
}

fn counts(outside: &mut Outside) -> Result<Counts, Failure> {
    let info = outside.command(&["INFO", "everything"]).text();
    let number = |name: &str| field(&info, name).ok_or_else(|| format!("INFO has no {name}"));
    let stats = command_stats(&info);
    let of = |name: &&str| stats.get(*name).map_or(0, |stats| stats.calls);
    let calls: u64 = SENT.iter().map(of).sum();
    let total: u64 = stats.values().map(|stats| stats.calls).sum();
    Ok(Counts {
        at: Instant::now(),
        calls,
        in_scripts: total - calls,
        received: number("total_net_input_bytes")?.parse()?,
        sent: number("total_net_output_bytes")?.parse()?,
        reply: u64::try_from(info.len())?,
        cpu: number("used_cpu_user")?.parse::<f64>()? + number("used_cpu_sys")?.parse::<f64>()?,
    })
}

/// The row of what the clients do now, for each of them.
#[expect(clippy::cast_precision_loss, reason = "few, and rounded in the end")]
async fn row(what: &str, server: &Server) -> Result<String, Failure> {
    sleep(SETTLE).await;
    let mut outside = Outside::of(server);
    let before = counts(&mut outside)?;
    sleep(MEASURED).await;
    let after = counts(&mut outside)?;
    let span = after.at.duration_since(before.at).as_secs_f64() * CLIENTS as f64;
    let each = |after: u64, before: u64| (after - before) as f64 / span;
    Ok(format!(
        "| {what} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} |",
        each(after.calls, before.calls),
        each(after.in_scripts, before.in_scripts),
        each(after.received, before.received),
        each(after.sent, before.sent + before.reply),
        (after.cpu - before.cpu) * 1000.0 / span,
    ))
}

async fn clients(
    server: &Server,
    settings: fn(ClientBuilder) -> ClientBuilder,
) -> Result<Vec<Client>, Failure> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(settings(Client::builder(&server.url())).connect().await?);
    }
    Ok(clients)
}

async fn close(clients: Vec<Client>) -> Result<(), Failure> {
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// Each client holds locks of its own.
async fn holding(server: &Server, make: Make) -> Result<(Vec<Client>, Vec<LockGuard>), Failure> {
    let clients = clients(server, |builder| builder).await?;
    let mut guards = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        for lock in 0..EACH {
            guards.push(
                make(client, format!("orders:{number}:{lock}"))
                    .lock()
                    .await?,
            );
        }
    }
    Ok((clients, guards))
}

/// All clients but the first wait for the locks that the first one holds.
async fn waiting(
    what: &str,
    server: &Server,
    make: Make,
    settings: fn(ClientBuilder) -> ClientBuilder,
) -> Result<String, Failure> {
    let holder = Client::connect(&server.url()).await?;
    let mut guards = Vec::new();
    for lock in 0..EACH {
        guards.push(make(&holder, format!("orders:{lock}")).lock().await?);
    }
    let clients = clients(server, settings).await?;
    let mut waiters = JoinSet::new();
    for client in &clients {
        for lock in 0..EACH {
            let lock = make(client, format!("orders:{lock}"));
            waiters.spawn(async move { lock.lock().await.map(drop) });
        }
    }
    let row = row(what, server).await?;
    waiters.shutdown().await;
    drop(guards);
    close(clients).await?;
    close(vec![holder]).await?;
    Ok(row)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the result is what it prints")]
async fn main() -> Result<(), Failure> {
    let server = Server::start();
    println!(
        "| each process | calls/s | commands/s in their scripts | bytes/s to the server | bytes/s \
         from the server | CPU of the server, ms/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let idle = clients(&server, |builder| builder).await?;
    println!("{}", row("takes no lock", &server).await?);
    close(idle).await?;
    let kinds: [(&str, Make); 3] = [
        ("holds 10 locks", |client, name| client.lock(name)),
        ("holds 10 read locks", |client, name| {
            client.read_write_lock(&name).read().clone()
        }),
        ("holds 10 string locks", |client, name| {
            client.string_lock(name)
        }),
    ];
    for (what, make) in kinds {
        let (clients, guards) = holding(&server, make).await?;
        println!("{}", row(what, &server).await?);
        drop(guards);
        close(clients).await?;
    }
    let plain: Make = |client, name| client.lock(name);
    let fair: Make = |client, name| client.fair_lock(name);
    let spin: Make = |client, name| client.spin_lock(name);
    let as_it_is = |builder: ClientBuilder| builder;
    let polls = |builder: ClientBuilder| builder.wake(Wake::Poll);
    println!(
        "{}",
        waiting("waits for 10 locks", &server, plain, as_it_is).await?
    );
    println!(
        "{}",
        waiting("waits for 10 fair locks", &server, fair, as_it_is).await?
    );
    println!(
        "{}",
        waiting("waits for 10 spin locks", &server, spin, as_it_is).await?
    );
    println!(
        "{}",
        waiting("waits for 10 locks, `Wake::Poll`", &server, plain, polls).await?
    );
    println!(
        "{}",
        waiting(
            "waits for 10 fair locks, `Wake::Poll`",
            &server,
            fair,
            polls
        )
        .await?
    );
    Ok(())
}
