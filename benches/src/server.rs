//! What a span of time cost: the counters of Redis and those of this process.
//!
//! Redis is asked over connections of its own, outside the library that is measured. Counters of several servers
//! are added up.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::report::{Report, count};

/// Clock ticks in a second, as `/proc` counts them on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;
/// What one sample adds to the number of commands of each server that the next one sees: INFO and QUIT.
const OWN_COMMANDS: f64 = 2.0;

/// The counters at one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    redis: HashMap<String, f64>,
    servers: usize,
    cpu_seconds: f64,
    /// In which cores of this machine did nothing.
    idle_seconds: f64,
}

impl Sample {
    pub(crate) async fn take(addresses: &[&str]) -> io::Result<Sample> {
        let at = Instant::now();
        let mut redis = HashMap::new();
        for address in addresses {
            let mut connection = TcpStream::connect(address).await?;
            connection.write_all(b"INFO everything\r\nQUIT\r\n").await?;
            let mut text = String::new();
            connection.read_to_string(&mut text).await?;
            for (name, value) in text.lines().filter_map(counter) {
                *redis.entry(name).or_insert(0.0) += value;
            }
        }
        let cpu_seconds = cpu_seconds().unwrap_or(0.0);
        let idle_seconds = idle_seconds().unwrap_or(0.0);
        Ok(Sample {
            at,
            redis,
            servers: addresses.len(),
            cpu_seconds,
            idle_seconds,
        })
    }

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
        let own_commands = OWN_COMMANDS * count(self.servers) / parts.max(1e-9);
        Costs {
            commands: spent(&["total_commands_processed"]) - own_commands,
            scripts: spent(&["cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall"]),
            bytes_in: spent(&["total_net_input_bytes"]),
            bytes_out: spent(&["total_net_output_bytes"]),
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

/// User and system time of this process; `None` where there is no `/proc`.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, which may hold blanks.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: f64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Some(ticks / TICKS_PER_SECOND)
}

/// Of all cores together; `None` where there is no `/proc`.
fn idle_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    // `cpu  USER NICE SYSTEM IDLE IOWAIT …`
    let ticks = stat.lines().next()?.split_whitespace().skip(4).take(2);
    Some(
        ticks
            .filter_map(|field| field.parse::<f64>().ok())
            .sum::<f64>()
            / TICKS_PER_SECOND,
    )
}

/// Resident memory of this process; zero where there is no `/proc`.
pub(crate) fn resident_bytes() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages
        .as_deref()
        .and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok());
    pages.unwrap_or(0.0) * PAGE_BYTES
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
