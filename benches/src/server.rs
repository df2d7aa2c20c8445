//! What a span of time cost: the counters of Redis and those of the client's processes.
//!
//! Redis is asked over connections of its own, outside the library that is measured. Counters of
//! several servers are added up.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::machine::{cpu_seconds, idle_seconds, resident_bytes};
use crate::report::{Report, count};

/// What a sample sends.
const REQUEST: &str = "INFO everything\r\nQUIT\r\n";
/// What one sample adds to the number of commands of each server that the next one sees: INFO and
/// QUIT.
const OWN_COMMANDS: f64 = 2.0;

/// The counters at one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    redis: HashMap<String, f64>,
    servers: usize,
    /// Of the replies to this sample. Each server counts its reply after it has written the
    /// counters into it.
    reply_bytes: usize,
    cpu_seconds: f64,
    resident_bytes: f64,
    /// In which cores of this machine did nothing.
    idle_seconds: f64,
}

impl Sample {
    /// Of these servers, and of this process.
    pub(crate) async fn take(addresses: &[&str]) -> io::Result<Sample> {
        Self::of(addresses, &[std::process::id()]).await
    }

    /// Of these servers, and of clients in these processes.
    pub(crate) async fn of(addresses: &[&str], processes: &[u32]) -> io::Result<Sample> {
        let at = Instant::now();
        let (mut redis, mut reply_bytes) = (HashMap::new(), 0);
        for address in addresses {
            let mut connection = TcpStream::connect(address).await?;
            connection.write_all(REQUEST.as_bytes()).await?;
            let mut text = String::new();
            reply_bytes += connection.read_to_string(&mut text).await?;
            for (name, value) in text.lines().filter_map(counter) {
                *redis.entry(name).or_insert(0.0) += value;
            }
        }
        Ok(Sample {
            at,
            redis,
            servers: addresses.len(),
            reply_bytes,
            cpu_seconds: cpu_seconds(processes).unwrap_or(0.0),
            resident_bytes: resident_bytes(processes).unwrap_or(0.0),
            idle_seconds: idle_seconds().unwrap_or(0.0),
        })
    }

    /// Resident memory of the client's processes.
    pub(crate) fn resident(&self) -> f64 {
        self.resident_bytes
    }

    /// Memory of the servers.
    pub(crate) fn memory(&self) -> f64 {
        self.get("used_memory")
    }

    fn get(&self, name: &str) -> f64 {
        self.redis.get(name).copied().unwrap_or(0.0)
    }

    /// How many cores of this machine did nothing from here to `end`.
    pub(crate) fn idle_cores_until(&self, end: &Sample) -> f64 {
        (end.idle_seconds - self.idle_seconds) / (end.at - self.at).as_secs_f64()
    }

    /// What was spent from here to `end`, divided by `parts`: operations, or seconds.
    pub(crate) fn costs_until(&self, end: &Sample, parts: f64) -> Costs {
        let spent = |names: &[&str]| {
            names
                .iter()
                .map(|name| end.get(name) - self.get(name))
                .sum::<f64>()
                / parts.max(1e-9)
        };
        let own = |each: f64| each * count(self.servers) / parts.max(1e-9);
        let own_replies = count(self.reply_bytes) / parts.max(1e-9);
        Costs {
            commands: spent(&["total_commands_processed"]) - own(OWN_COMMANDS),
            scripts: spent(&["cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall"]),
            bytes_in: spent(&["total_net_input_bytes"]) - own(count(REQUEST.len())),
            bytes_out: spent(&["total_net_output_bytes"]) - own_replies,
            redis_cpu_us: spent(&["used_cpu_user", "used_cpu_sys"]) * 1e6,
            client_cpu_us: (end.cpu_seconds - self.cpu_seconds) * 1e6 / parts.max(1e-9),
        }
    }
}

/// Costs of one operation, or of one second.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) commands: f64,
    scripts: f64,
    bytes_in: f64,
    bytes_out: f64,
    pub(crate) redis_cpu_us: f64,
    pub(crate) client_cpu_us: f64,
}

impl Costs {
    pub(crate) fn report(&self) -> Report {
        let mut report = Report::default();
        report.put("redis_commands", self.commands);
        report.put("redis_evals", self.scripts);
        report.put("redis_net_in", self.bytes_in);
        report.put("redis_net_out", self.bytes_out);
        report.put("redis_cpu_us", self.redis_cpu_us);
        report.put("client_cpu_us", self.client_cpu_us);
        report
    }
}

/// `name:1.5`, or `cmdstat_get:calls=3,…`, of which the calls count.
fn counter(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.trim().split_once(':')?;
    let value = match value.strip_prefix("calls=") {
        Some(calls) => calls.split(',').next()?,
        None => value,
    };
    Some((name.to_owned(), value.parse().ok()?))
}

/// Commands that reply with an integer.
#[derive(Debug)]
pub(crate) struct Probe(BufReader<TcpStream>);

impl Probe {
    pub(crate) async fn open(address: &str) -> io::Result<Probe> {
        let connection = TcpStream::connect(address).await?;
        connection.set_nodelay(true)?;
        Ok(Probe(BufReader::new(connection)))
    }

    pub(crate) async fn ask(&mut self, command: &str) -> io::Result<i64> {
        self.0
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        let mut reply = String::new();
        self.0.read_line(&mut reply).await?;
        let number = reply
            .strip_prefix(':')
            .and_then(|digits| digits.trim().parse().ok());
        number.ok_or_else(|| io::Error::other(format!("{command} was answered with {reply:?}")))
    }
}
