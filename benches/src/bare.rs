//! S1 and S5 without a lock library. Tasks of the same runtime send the scripts of a simple lock
//! over sockets of their own.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::handover::{ROUNDS, pause};
use crate::options::Options;
use crate::report::Report;

const ACQUIRE: &str = "\
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// The message grants the lock, so nobody asks for it afterwards.
const RELEASE: &str = "\
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if left > 0 then return 0 end
redis.call('del', KEYS[1])
return redis.call('publish', ARGV[2], ARGV[1])";

const OWNER: &str = "5b0d8a3e-7a1c-4a53-9d0f-6a2f1f0c7e11:1";
const CHANNEL: &str = "bench:bare:released";

/// One task locks and unlocks; the latency is that of both.
pub(crate) async fn pairs(options: &Options) -> Result<Report, Failure> {
    let holder = Holder::open(options).await?;
    let (warmup, measured) = (options.warmup, options.measured);
    // On a worker, as the tasks of S1 are.
    let mut task = JoinSet::new();
    task.spawn(latencies(holder, warmup, measured));
    let latencies = task.join_next().await.ok_or("no task")???;
    let mut figures = Report::default();
    figures.put_rate(latencies.len(), measured);
    figures.put_latencies(latencies);
    Ok(figures)
}

async fn latencies(
    mut holder: Holder,
    warmup: Duration,
    measured: Duration,
) -> Result<Vec<Duration>, Failure> {
    let begin = Instant::now() + warmup;
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= begin + measured {
            return Ok(latencies);
        }
        holder.acquire().await?;
        holder.release(0).await?;
        if start >= begin {
            latencies.push(start.elapsed());
        }
    }
}

/// From just before the unlock until another task has the message.
pub(crate) async fn hand_over(options: &Options) -> Result<Report, Failure> {
    let mut holder = Holder::open(options).await?;
    let mut listener = Connection::open(options).await?;
    let subscribed = listener.ask(&request(&["SUBSCRIBE", CHANNEL])).await?;
    if !subscribed.ends_with(":1\r\n") {
        return Err(format!("not subscribed: {subscribed:?}").into());
    }
    let (mut latencies, start) = (Vec::new(), Instant::now());
    while latencies.len() < options.rounds.unwrap_or(ROUNDS) {
        holder.acquire().await?;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move {
            let granted = listener.text().await?.contains(OWNER);
            Ok::<_, Failure>((listener, granted, Instant::now()))
        });
        sleep(pause(options.hold)).await;
        let freed = Instant::now();
        holder.release(1).await?;
        let waited = waiting.join_next().await.ok_or("no waiter")??;
        let (back, granted, got) = waited?;
        if !granted {
            return Err("the message names another owner".into());
        }
        listener = back;
        if start.elapsed() > options.warmup {
            latencies.push(got - freed);
        }
    }
    let mut figures = Report::default();
    figures.put_rate(latencies.len(), start.elapsed());
    figures.put_latencies(latencies);
    Ok(figures)
}

/// A connection whose user waits for each reply.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    async fn open(options: &Options) -> io::Result<Connection> {
        let stream = TcpStream::connect(options.address()).await?;
        stream.set_nodelay(true)?;
        let read = vec![0; 16 * 1024];
        Ok(Connection { stream, read })
    }

    async fn ask(&mut self, request: &[u8]) -> Result<&str, Failure> {
        self.stream.write_all(request).await?;
        self.text().await
    }

    /// What arrives next. Redis writes each of these short texts at once.
    async fn text(&mut self) -> Result<&str, Failure> {
        let length = self.stream.read(&mut self.read).await?;
        let text = str::from_utf8(&self.read[..length])?;
        if text.starts_with('-') || !text.ends_with("\r\n") {
            return Err(format!("unexpected: {text:?}").into());
        }
        Ok(text)
    }
}

/// A client that acquires and releases.
#[derive(Debug)]
struct Holder {
    connection: Connection,
    acquire: Vec<u8>,
    release: Vec<u8>,
}

impl Holder {
    async fn open(options: &Options) -> Result<Holder, Failure> {
        let mut connection = Connection::open(options).await?;
        let mut call = async |script, last| {
            let load = request(&["SCRIPT", "LOAD", script]);
            let reply = connection.ask(&load).await?;
            let sha1 = reply.lines().nth(1).ok_or("no SHA1")?;
            let words = ["EVALSHA", sha1, "1", "bench:bare", OWNER, last];
            Ok::<_, Failure>(request(&words))
        };
        let (acquire, release) = (call(ACQUIRE, "30000").await?, call(RELEASE, CHANNEL).await?);
        Ok(Holder {
            connection,
            acquire,
            release,
        })
    }

    async fn acquire(&mut self) -> Result<(), Failure> {
        let reply = self.connection.ask(&self.acquire).await?;
        expect(reply, "$-1\r\n")
    }

    async fn release(&mut self, receivers: u8) -> Result<(), Failure> {
        let reply = self.connection.ask(&self.release).await?;
        expect(reply, &format!(":{receivers}\r\n"))
    }
}

fn expect(reply: &str, expected: &str) -> Result<(), Failure> {
    if reply == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {reply:?}").into())
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let texts: String = words.iter().map(word).collect();
    format!("*{}\r\n{texts}", words.len()).into_bytes()
}
