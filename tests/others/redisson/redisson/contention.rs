//! Java threads contend with each other and with tasks of this process. Both sides use the same
//! counters. The checks are in `Contention.java` and the files next to it.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use leasehold_others::Reply;

use super::{Redisson, millis};

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

/// What the threads saw: a line such as `rounds=10 violations=0`.
#[derive(Debug)]
pub(crate) struct Report(HashMap<String, u64>);

impl Report {
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name]
    }

    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.number("longest_wait_ms"))
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Report, String> {
        let number = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let numbers = text.split(' ').map(number).collect::<Option<_>>();
        numbers.map(Report).ok_or_else(|| text.to_owned())
    }
}

impl Redisson {
    /// Starts threads that contend, as `contend`, `contendrw`, `contendsem` or `contendpermit` of
    /// `ContentionCommands.java` says, for a lock or a semaphore. They count in keys that begin
    /// with `inside`, and hold it only while they count. `most` is the limit of a semaphore, or how
    /// many of a hundred rounds write.
    pub(crate) fn contend(
        &self,
        command: &str,
        who: Contenders,
        name: &str,
        most: Option<u32>,
    ) -> Reply<Report> {
        let (threads, rounds) = (who.threads, who.rounds);
        let most = most.map(|most| format!("{most} ")).unwrap_or_default();
        let (work, rest) = (millis(who.work), millis(who.rest));
        self.get(&format!(
            "{command} {threads} {rounds} {name} inside {most}{work} {rest}"
        ))
    }
}
