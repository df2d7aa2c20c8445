//! A view of Redis over separate connections, which belong to no client under test.

use std::collections::BTreeMap;

use crate::deployment::routes::Routes;
use crate::deployment::{Borrowed, Deployment};
use crate::info::{CommandStats, command_stats};
use crate::process::resp::{Connection, Reply};
use crate::process::server::Server;

/// The count of a hold, which is written before what is listed beside a plain lock.
pub fn count_of(value: &str) -> Option<u32> {
    value.split(';').next()?.parse().ok()
}

/// A server or a deployment that can be observed.
pub trait Watched {
    fn outside(&self) -> Outside;
}

impl Watched for Server {
    fn outside(&self) -> Outside {
        Outside(Way::Server(self.connection()))
    }
}

impl Watched for Deployment {
    fn outside(&self) -> Outside {
        match self {
            Deployment::Server(server) => server.outside(),
            _ => Outside::to(&self.url()),
        }
    }
}

impl Watched for Borrowed {
    fn outside(&self) -> Outside {
        (**self).outside()
    }
}

/// An observer of one server or of a deployment. In a deployment, a command goes to the servers of
/// its keys, or to all primaries if it has no keys.
#[derive(Debug)]
pub struct Outside(Way);

#[derive(Debug)]
enum Way {
    Server(Connection),
    Deployment(Routes),
}

impl Outside {
    pub fn of(watched: &impl Watched) -> Self {
        watched.outside()
    }

    /// An observer of the deployment with this URL, which must not need a password.
    pub fn to(url: &str) -> Self {
        Outside(Way::Deployment(Routes::to(url)))
    }

    pub fn command(&mut self, words: &[&str]) -> Reply {
        match &mut self.0 {
            Way::Server(connection) => connection
                .command(words)
                .unwrap_or_else(|error| panic!("{words:?}: {error}")),
            Way::Deployment(routes) => routes.command(words),
        }
    }

    pub fn exists(&mut self, key: &str) -> bool {
        self.command(&["EXISTS", key]).int() == 1
    }

    pub fn keys_like(&mut self, pattern: &str) -> i64 {
        i64::try_from(self.command(&["KEYS", pattern]).array().len()).expect("few")
    }

    /// The number of keys. Expired keys that have not been removed yet count as well.
    pub fn keys(&mut self) -> i64 {
        self.command(&["DBSIZE"]).int()
    }

    pub fn pttl(&mut self, key: &str) -> i64 {
        self.command(&["PTTL", key]).int()
    }

    /// The fields of a lock with their counts.
    pub fn holds(&mut self, key: &str) -> Vec<(String, i64)> {
        let flat = self.command(&["HGETALL", key]);
        let pairs = flat.array().chunks(2);
        let count = |value: &Reply| i64::from(count_of(&value.text()).expect("a count"));
        pairs
            .map(|pair| (pair[0].text(), count(&pair[1])))
            .collect()
    }

    /// The calls of each command since the last reset.
    pub fn command_stats(&mut self) -> BTreeMap<String, CommandStats> {
        let info = self.command(&["INFO", "commandstats"]);
        command_stats(&info.text())
    }

    /// How often a command was called since the last reset, including failed calls.
    pub fn calls(&mut self, command: &str) -> u64 {
        let stats = self.command_stats();
        stats.get(command).map_or(0, |stats| stats.calls)
    }

    pub fn reset_stats(&mut self) {
        self.command(&["CONFIG", "RESETSTAT"]);
    }

    /// The number of all commands so far, including the one that asks for it.
    pub fn commands(&mut self) -> u64 {
        let info = self.command(&["INFO", "stats"]).text();
        let numbers = info
            .lines()
            .filter_map(|line| line.strip_prefix("total_commands_processed:"));
        numbers
            .map(|number| number.parse::<u64>().expect("a number"))
            .sum()
    }
}
