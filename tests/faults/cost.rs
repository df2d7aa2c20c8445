//! What calls cost Redis, counted by Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leasehold::{ClientBuilder, Lease};
use leasehold_testbed::{
    Outside, Proxy, Reply, Server, connected, eventually_within, ms, take_and_release,
};

use crate::testbed::{SILENCE, alone, builder};

const LIMIT: Duration = Duration::from_secs(20);

/// A client that sends nothing on its own for a while: no safety poll, no renewal within the test,
/// no retries of late replies.
fn quiet(server: &Server) -> ClientBuilder {
    builder(&server.url())
        .safety_poll(Duration::from_secs(60))
        .command_timeout(SILENCE)
}

#[test]
fn renewals_of_many_holds_share_calls() {
    alone(LIMIT, async {
        let server = Server::start();
        let client = connected(quiet(&server).lease(ms(3_000))).await;
        let mut outside = Outside::of(&server);
        let mut guards = Vec::new();
        let taking = Instant::now();
        for number in 0..1_000 {
            guards.push(
                client
                    .lock(format!("n{number}"))
                    .lock()
                    .await
                    .expect("free"),
            );
        }
        let taking = taking.elapsed();
        let before = client.stats();
        outside.reset_stats();
        eventually_within(LIMIT, "all were renewed twice", async || {
            client.stats().renewed >= before.renewed + 2_000
        })
        .await;
        let calls = outside.calls("evalsha");
        let renewed = client.stats().renewed - before.renewed;
        // Batches of up to 500, on a grid of more than 13 ms over the time in which the holds were
        // taken.
        let batches = taking.as_millis() / 13 + 4;
        let rounds = u128::from(renewed.div_ceil(1_000));
        let text = format!("{renewed} renewals of holds taken in {taking:?}: {calls} calls");
        assert!(u128::from(calls) <= rounds * batches, "{text}");
        crate::testbed::note(&text);
        drop(guards);
        eventually_within(LIMIT, "all free", async || outside.keys() == 0).await;
    });
}

const QUEUE: &str = "redisson_lock_queue:{n}";
/// The longest claim, so that a client that is cut off keeps its place.
const CLAIM: Duration = Duration::from_secs(60);

/// The number of scripts run since the last reset, and all commands that they ran.
fn work(outside: &mut Outside) -> (u64, Vec<(String, u64)>) {
    let stats = outside.command_stats().into_iter();
    let mut work: Vec<_> = stats
        .map(|(command, stats)| (command, stats.calls))
        .collect();
    let ours = ["info", "config|resetstat", "llen"];
    // Subscriptions and probes of connections continue on the side. A cluster client of another
    // test may ask for a node that had this port before.
    let discovery = ["hello", "cluster|slots", "pubsub|shardnumsub", "ping"];
    let beside = |command: &str| command.ends_with("subscribe") || discovery.contains(&command);
    work.retain(|(command, _)| !ours.contains(&&**command) && !beside(command));
    let scripts = work.iter().find(|(command, _)| command == "evalsha");
    (scripts.map_or(0, |(_, calls)| *calls), work)
}

/// The commands of this many scripts, if no other script ran.
async fn work_of(scripts: u64, outside: &mut Outside) -> Option<Vec<(String, u64)>> {
    let mut seen = (0, Vec::new());
    eventually_within(LIMIT, "it ran", async || {
        seen = work(outside);
        seen.0 >= scripts
    })
    .await;
    (seen.0 == scripts).then_some(seen.1)
}

async fn in_queue(outside: &mut Outside, number: i64) {
    let number = Reply::Int(number);
    eventually_within(LIMIT, "so many are in the queue", async || {
        outside.command(&["LLEN", QUEUE]) == number
    })
    .await;
}

/// What one waiter and one holder of a fair lock cost with this many others in the queue.
async fn fair_costs(others: i64) -> Vec<(&'static str, Vec<(String, u64)>)> {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut outside = Outside::of(&server);
    let client = connected(quiet(&server).fair_claim(CLAIM)).await;
    let crowd = connected(builder(&proxy.url()).fair_claim(CLAIM)).await;
    let lock = || client.fair_lock("n");
    take_and_release(&lock()).await;
    let guard = lock()
        .try_lock_now(Lease::Fixed(ms(600_000)))
        .await
        .expect("free");
    let connections = server.clients("id=").len();
    for _ in 0..others {
        let lock = crowd.fair_lock("n");
        tokio::spawn(async move { lock.lock().await.map(drop) });
    }
    in_queue(&mut outside, others).await;
    // The others stay in the queue and send nothing more.
    proxy.refuse();
    proxy.cut();
    eventually_within(LIMIT, "they are cut off", async || {
        server.clients("id=").len() < connections
    })
    .await;

    let commands = Commands::of(&server);
    let mut costs = Vec::new();
    outside.reset_stats();
    lock()
        .try_lock_now(Lease::Fixed(ms(600_000)))
        .await
        .expect_err("it is held");
    costs.push((
        "a zero wait",
        work_of(1, &mut outside).await.expect("nothing else"),
    ));
    let (waits, joins) = loop {
        outside.reset_stats();
        let lock = lock();
        let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
        if let Some(work) = work_of(2, &mut outside).await {
            break (waits, work);
        }
        // So slow that the waiter sent a heartbeat.
        waits.abort();
        in_queue(&mut outside, others).await;
    };
    costs.push(("to join", joins));
    // The first heartbeat may be sent twice, because its script was not loaded.
    work_of(4, &mut outside).await;
    costs.push((
        "a beat",
        loop {
            outside.reset_stats();
            if let Some(work) = work_of(1, &mut outside).await {
                break work;
            }
        },
    ));
    waits.abort();
    in_queue(&mut outside, others).await;
    outside.reset_stats();
    guard.unlock().await.expect("held");
    costs.push((
        "a release",
        work_of(1, &mut outside).await.expect("nothing else"),
    ));
    // No script reads the whole queue either.
    let seen = commands.seen_until_now(&mut outside);
    let reads = |command: &&String| {
        ["\"lrange\"", "\"zrange\"", "\"zrangebyscore\""]
            .iter()
            .any(|name| command.contains(name))
    };
    for command in seen.iter().filter(reads) {
        assert!(command.ends_with("\"0\" \"1\""), "{command}");
    }
    assert!(seen.iter().any(|command| reads(&command)), "{seen:#?}");
    costs
}

/// The commands of a server, also those of scripts.
struct Commands(BufReader<TcpStream>);

impl Commands {
    fn of(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("it runs");
        stream.write_all(b"MONITOR\r\n").expect("it listens");
        let mut lines = BufReader::new(stream);
        let mut answer = String::new();
        lines.read_line(&mut answer).expect("it answers");
        assert_eq!(answer, "+OK\r\n");
        Commands(lines)
    }

    fn seen_until_now(self, outside: &mut Outside) -> Vec<String> {
        const END: &str = "the end of what is seen";
        outside.command(&["ECHO", END]);
        let lines = self.0.lines().map(|line| line.expect("a line"));
        lines.take_while(|line| !line.contains(END)).collect()
    }
}

#[test]
fn the_length_of_a_fair_queue_costs_nothing() {
    alone(LIMIT * 2, async {
        let (one, many) = (fair_costs(1).await, fair_costs(500).await);
        crate::testbed::note(&format!("{one:?}"));
        assert_eq!(one, many);
    });
}

#[test]
fn a_release_among_many_readers_looks_at_few_of_them() {
    alone(LIMIT, async {
        let server = Server::start();
        let client = quiet(&server).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        let mut guards = Vec::new();
        for _ in 0..300 {
            guards.push(
                client
                    .read_write_lock("n")
                    .read()
                    .lock()
                    .await
                    .expect("nobody writes"),
            );
        }
        outside.reset_stats();
        for guard in guards.drain(100..200) {
            guard.unlock().await.expect("held");
        }
        // Its own lease, that of the lock, and those of eight readers.
        assert!(
            outside.calls("pttl") <= 100 * 10,
            "{}",
            outside.calls("pttl")
        );
        assert_eq!(outside.calls("hgetall"), 0);
        assert_eq!(outside.calls("evalsha") + outside.calls("eval"), 100 + 1);
    });
}

/// The commands of one acquisition that is granted and of one that is refused, after the scripts
/// are loaded and the limit is applied.
async fn semaphore_costs(limit: Option<u32>, permits: u32) -> [Vec<(String, u64)>; 2] {
    let server = Server::start();
    let client = quiet(&server).connect().await.expect("connects");
    let mut outside = Outside::of(&server);
    let semaphore = client.semaphore("n");
    semaphore.set_permits(2).await.expect("set");
    let semaphore = match limit {
        Some(limit) => semaphore.with_limit(limit),
        None => semaphore,
    };
    let warm = semaphore.acquire(permits).await.expect("there are enough");
    warm.release().await.expect("held");
    outside.reset_stats();
    let held = semaphore.acquire(permits).await.expect("there are enough");
    let granted = work_of(1, &mut outside).await.expect("nothing else");
    let others = client.semaphore("n").acquire(2 - permits).await;
    outside.reset_stats();
    let refused = semaphore.try_acquire(permits, Duration::ZERO).await;
    assert!(refused.expect_err("all are out").is_timeout());
    let refused = work_of(1, &mut outside).await.expect("nothing else");
    drop((held, others));
    [granted, refused]
}

/// How many commands more there are.
fn more(work: &[(String, u64)], than: &[(String, u64)]) -> Vec<(String, u64)> {
    let before = |command: &str| {
        than.iter()
            .find(|(name, _)| name == command)
            .map_or(0, |(_, calls)| *calls)
    };
    work.iter()
        .map(|(command, calls)| (command.clone(), calls - before(command)))
        .filter(|(_, calls)| *calls > 0)
        .collect()
}

#[test]
fn a_limit_costs_one_read_and_its_absence_nothing() {
    alone(LIMIT * 2, async {
        let get = || vec![("get".to_owned(), 1)];
        let none = semaphore_costs(None, 1).await;
        let commands: Vec<_> = none[0]
            .iter()
            .map(|(command, calls)| format!("{calls} {command}"))
            .collect();
        assert_eq!(
            commands.join(", "),
            "1 decrby, 1 evalsha, 1 get, 1 persist, 1 pttl, 1 time, 1 zadd, 1 zrangebyscore, 1 \
             zscore"
        );
        for (work, than) in semaphore_costs(Some(2), 1).await.iter().zip(&none) {
            assert_eq!(more(work, than), get());
        }
        // Several permits without a limit: the limit of others is read if they are refused.
        let several = semaphore_costs(None, 2).await;
        assert_eq!(more(&several[0], &none[0]), []);
        assert_eq!(more(&several[1], &none[1]), get());
    });
}
