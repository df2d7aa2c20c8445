//! One step on both sides, and what counts as the same.

use std::time::Duration;

use leasehold::EmbeddedRedis;
use leasehold::test_util::{ErrorReply, Reply as Own};
use leasehold_testbed::{Connection, Reply, Server};

/// How far leases may be apart: the two sides are asked one after the other.
const TOLERANCE_MS: i64 = 100;

/// How far the clock of the engine is ahead. A stalled machine may let any two steps be so far
/// apart.
const APART: Duration = Duration::from_millis(3);

/// How exact a number in a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Exact,
    /// The reply has the rest of a lease in it.
    Leases,
}

/// What both sides do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) words: Vec<String>,
    pub(crate) numbers: Numbers,
    /// How long to wait before it.
    pub(crate) pause: Duration,
}

/// An engine and a server at the same time of day.
pub(crate) struct Pair {
    own: EmbeddedRedis,
    server: Connection,
    letter: Letter,
}

/// How exactly texts must agree. Error texts and fractions are those of Redis 7.0; other versions
/// word some errors differently and write shorter fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    Every,
    Meaning,
}

impl Pair {
    /// Empties the server; the engine is new.
    pub(crate) fn new(server: &Server) -> Self {
        let own = EmbeddedRedis::new();
        let mut server = server.connection();
        server.command(&["FLUSHALL"]).expect("FLUSHALL");
        server.command(&["SCRIPT", "FLUSH"]).expect("SCRIPT FLUSH");
        // Larger hashes have no order.
        let in_order = ["CONFIG", "SET", "hash-max-ziplist-value", "1024"];
        server.command(&in_order).expect("CONFIG SET");
        let theirs = micros(&server.command(&["TIME"]).expect("TIME"));
        let ours = micros(&convert(own.command(&["TIME"])));
        own.jump_clock(Duration::from_micros(theirs.abs_diff(ours)) + APART);
        let info = server.command(&["INFO", "server"]).expect("INFO").text();
        let letter = if info.contains("redis_version:7.0.") && !info.contains("valkey_version") {
            Letter::Every
        } else {
            Letter::Meaning
        };
        Pair {
            own,
            server,
            letter,
        }
    }

    pub(crate) fn letter(&self) -> Letter {
        self.letter
    }

    /// Runs one step on both sides; describes the difference, if there is one.
    pub(crate) fn step(&mut self, words: &[&str], numbers: Numbers) -> Result<Reply, String> {
        let theirs = self
            .server
            .command(words)
            .map_err(|error| format!("{words:?}: {error}"))?;
        let ours = convert(self.own.command(words));
        let unordered = ["keys", "scan"]
            .iter()
            .any(|name| words[0].eq_ignore_ascii_case(name));
        // Two scores that differ by a millisecond on one side may be equal on the other.
        let by_time = numbers == Numbers::Leases && words[0] == "ZRANGE";
        let (theirs, ours) = if by_time {
            (by_member(theirs), by_member(ours))
        } else {
            (theirs, ours)
        };
        let (theirs, ours) = if unordered {
            (sorted(theirs), sorted(ours))
        } else {
            (theirs, ours)
        };
        if same(&theirs, &ours, numbers) || self.alike(&theirs, &ours, numbers) {
            return Ok(theirs);
        }
        Err(format!(
            "{words:?}\n  redis:    {theirs:?}\n  embedded: {ours:?}"
        ))
    }

    /// Equal, except for how another version writes it.
    fn alike(&self, theirs: &Reply, ours: &Reply, numbers: Numbers) -> bool {
        let code = |text: &str| text.split(' ').next().map(str::to_owned);
        let number = |text: &[u8]| String::from_utf8_lossy(text).parse::<f64>().ok();
        self.letter == Letter::Meaning
            && match (theirs, ours) {
                (Reply::Error(a), Reply::Error(b)) => code(a) == code(b),
                (Reply::Bulk(a), Reply::Bulk(b)) => {
                    a == b || number(a).is_some() && number(a) == number(b)
                }
                (Reply::Array(a), Reply::Array(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.alike(a, b, numbers))
                }
                _ => same(theirs, ours, numbers),
            }
    }

    /// Compares every key: its type, lease and content.
    pub(crate) fn compare_all(&mut self) -> Result<(), String> {
        let keys = self.step(&["KEYS", "*"], Numbers::Exact)?;
        for key in keys.array() {
            let key = key.text();
            self.step(&["PTTL", &key], Numbers::Leases)?;
            let kind = self.step(&["TYPE", &key], Numbers::Exact)?;
            let read: &[&str] = match kind.text().as_str() {
                "string" => &["GET", &key],
                "hash" => &["HGETALL", &key],
                "list" => &["LRANGE", &key, "0", "-1"],
                "zset" => &["ZRANGE", &key, "0", "-1", "WITHSCORES"],
                // The key expired in between.
                _ => &["EXISTS", &key],
            };
            // Scores may be times of day.
            let numbers = if kind.text() == "zset" {
                Numbers::Leases
            } else {
                Numbers::Exact
            };
            self.step(read, numbers)?;
        }
        Ok(())
    }
}

fn micros(time: &Reply) -> u64 {
    let part = |index: usize| u64::try_from(time.array()[index].int()).expect("a time");
    part(0) * 1_000_000 + part(1)
}

fn convert(outcome: Result<Own, ErrorReply>) -> Reply {
    match outcome {
        // The other side's parser removes the space at the end of a line.
        Err(error) => Reply::Error(error.0.trim_end().to_owned()),
        Ok(Own::Nil) => Reply::Nil,
        Ok(Own::Int(number)) => Reply::Int(number),
        Ok(Own::Status(text)) => Reply::Status(text),
        Ok(Own::Bulk(text)) => Reply::Bulk(text),
        Ok(Own::Array(items)) => Reply::Array(items.into_iter().map(convert).collect()),
    }
}

fn same(theirs: &Reply, ours: &Reply, numbers: Numbers) -> bool {
    match (theirs, ours) {
        // -1 and -2 stand for "no lease" and "no key"; they are exact.
        (Reply::Int(a), Reply::Int(b))
            if numbers == Numbers::Leases && ![-1, -2].contains(a) && ![-1, -2].contains(b) =>
        {
            a.abs_diff(*b) <= TOLERANCE_MS.unsigned_abs()
        }
        (Reply::Array(a), Reply::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, numbers))
        }
        (Reply::Bulk(a), Reply::Bulk(b)) => same_text(a, b),
        _ => theirs == ours,
    }
}

/// Whether the texts are equal, except for times of day that are close to each other: some scripts
/// keep such times.
fn same_text(theirs: &[u8], ours: &[u8]) -> bool {
    let parts = |text| <[u8]>::chunk_by(text, |a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let close = |(a, b): (&[u8], &[u8])| {
        let times = time_of_day(a).zip(time_of_day(b));
        a == b || times.is_some_and(|(a, b)| a.abs_diff(b) <= TOLERANCE_MS.unsigned_abs())
    };
    parts(theirs).count() == parts(ours).count() && parts(theirs).zip(parts(ours)).all(close)
}

/// Members with their scores, in the order of the members.
fn by_member(reply: Reply) -> Reply {
    let Reply::Array(items) = reply else {
        return reply;
    };
    let mut pairs: Vec<_> = items
        .chunks(2)
        .map(|pair| Reply::Array(pair.to_vec()))
        .collect();
    pairs.sort_by_key(|pair| format!("{:?}", pair.array()[0]));
    Reply::Array(pairs)
}

/// A time of day in milliseconds.
fn time_of_day(text: &[u8]) -> Option<i64> {
    let number = String::from_utf8_lossy(text).parse::<i64>().ok();
    number.filter(|number| (1_500_000_000_000..10_000_000_000_000).contains(number))
}

/// KEYS and SCAN have no order.
fn sorted(mut reply: Reply) -> Reply {
    if let Reply::Array(items) = &mut reply {
        for item in items.iter_mut() {
            *item = sorted(std::mem::replace(item, Reply::Nil));
        }
        items.sort_by_key(|item| format!("{item:?}"));
    }
    reply
}
