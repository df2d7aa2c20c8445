//! Java threads contend with each other and with tasks of this process. Both sides use the same
//! counters. The checks are in `Contention.java` and the files next to it.

use std::str::FromStr;
use std::time::Duration;

use super::{Redisson, Reply, millis};

/// Who contends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contenders {
    pub(crate) threads: u32,
    /// The number of rounds of each thread.
    pub(crate) rounds: u32,
    /// How long a round stays inside after it has counted.
    pub(crate) work: Duration,
    /// How long at most each rests between two rounds.
    pub(crate) rest: Duration,
}

impl Contenders {
    fn pace(self) -> String {
        format!("{} {}", millis(self.work), millis(self.rest))
    }
}

/// What contenders for a lock saw.
#[derive(Debug)]
pub(crate) struct LockTally {
    pub(crate) rounds: u64,
    pub(crate) violations: u64,
    pub(crate) longest_wait: Duration,
    /// The number of rounds that followed a round of the other side.
    pub(crate) switches: u64,
}

/// What contenders for both sides of a read/write lock saw.
#[derive(Debug)]
pub(crate) struct ReadWriteTally {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) violations: u64,
}

/// What contenders for the permits of a semaphore saw.
#[derive(Debug)]
pub(crate) struct SemaphoreTally {
    pub(crate) rounds: u64,
    pub(crate) violations: u64,
    pub(crate) longest_wait: Duration,
    /// The most that were inside at once, those of the other side included.
    pub(crate) most: u64,
}

impl Redisson {
    /// Starts threads that take a lock of any kind with a single holder. `counter` is raised to 1 on
    /// the way in. `<counter>:last` tells which side was in last, and `<counter>:token` is the last
    /// token of a fenced lock.
    pub(crate) fn contend_lock(
        &self,
        who: Contenders,
        lock: &str,
        counter: &str,
    ) -> Reply<LockTally> {
        let Contenders {
            threads, rounds, ..
        } = who;
        self.expect(&format!(
            "contend {threads} {rounds} {lock} {counter} {}",
            who.pace()
        ))
    }

    /// Starts threads that take the write side in `write_percent` of all rounds, else the read side.
    /// They count in `<counter>:writers` and `<counter>:readers`.
    pub(crate) fn contend_read_write(
        &self,
        who: Contenders,
        name: &str,
        counter: &str,
        write_percent: u32,
    ) -> Reply<ReadWriteTally> {
        let Contenders {
            threads, rounds, ..
        } = who;
        self.expect(&format!(
            "contendrw {threads} {rounds} {name} {counter} {write_percent} {}",
            who.pace()
        ))
    }

    /// Starts threads that take one permit each. `counter` must never be higher than `limit`.
    pub(crate) fn contend_semaphore(
        &self,
        who: Contenders,
        name: &str,
        counter: &str,
        limit: u32,
    ) -> Reply<SemaphoreTally> {
        let Contenders {
            threads, rounds, ..
        } = who;
        self.expect(&format!(
            "contendsem {threads} {rounds} {name} {counter} {limit} {}",
            who.pace()
        ))
    }

    /// The same with permits that expire.
    pub(crate) fn contend_permits(
        &self,
        who: Contenders,
        name: &str,
        counter: &str,
        limit: u32,
    ) -> Reply<SemaphoreTally> {
        let Contenders {
            threads, rounds, ..
        } = who;
        self.expect(&format!(
            "contendpermit {threads} {rounds} {name} {counter} {limit} {}",
            who.pace()
        ))
    }
}

/// A line such as `rounds=10 violations=0`.
struct Report<'a>(&'a str);

impl Report<'_> {
    fn number(&self, name: &'static str) -> Result<u64, &'static str> {
        let mut pairs = self.0.split(' ').filter_map(|pair| pair.split_once('='));
        let value = pairs
            .find(|(n, _)| *n == name)
            .and_then(|(_, value)| value.parse().ok());
        value.ok_or(name)
    }

    fn longest_wait(&self) -> Result<Duration, &'static str> {
        self.number("longest_wait_ms").map(Duration::from_millis)
    }
}

impl FromStr for LockTally {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LockTally, &'static str> {
        let report = Report(text);
        Ok(LockTally {
            rounds: report.number("rounds")?,
            violations: report.number("violations")?,
            longest_wait: report.longest_wait()?,
            switches: report.number("switches")?,
        })
    }
}

impl FromStr for ReadWriteTally {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ReadWriteTally, &'static str> {
        let report = Report(text);
        Ok(ReadWriteTally {
            reads: report.number("reads")?,
            writes: report.number("writes")?,
            violations: report.number("violations")?,
        })
    }
}

impl FromStr for SemaphoreTally {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<SemaphoreTally, &'static str> {
        let report = Report(text);
        Ok(SemaphoreTally {
            rounds: report.number("rounds")?,
            violations: report.number("violations")?,
            longest_wait: report.longest_wait()?,
            most: report.number("most")?,
        })
    }
}
