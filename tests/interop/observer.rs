//! A view of Redis over a connection that belongs to neither side.

use std::time::Duration;

use leasehold_testbed::{Reply, Routes};
use tokio::time::{Instant, sleep};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A command blocks its thread until it is answered. Other tasks get a turn before it.
#[derive(Debug)]
pub(crate) struct Observer(Routes);

impl Observer {
    pub(crate) fn of(url: &str) -> Observer {
        Observer(Routes::to(url))
    }

    /// Sends a command. Returns the values of its reply in order, with arrays flattened and nil as
    /// empty text.
    pub(crate) async fn ask(&mut self, command: &str) -> Vec<String> {
        let words: Vec<_> = command.split(' ').collect();
        let mut values = Vec::new();
        tokio::task::yield_now().await;
        lay_flat(self.0.command(&words), &mut values);
        values
    }

    pub(crate) async fn integer(&mut self, command: &str) -> i64 {
        self.ask(command).await[0].parse().expect("an integer")
    }

    /// The number of living keys. `DBSIZE` would also count expired keys that have not been removed
    /// yet.
    pub(crate) async fn keys(&mut self) -> usize {
        self.ask("KEYS *").await.len()
    }

    /// How often the server has run these commands so far, including those in scripts. A script
    /// that the server did not know was not run.
    pub(crate) async fn calls(&mut self, commands: &[&str]) -> u64 {
        let stats = self.ask("INFO commandstats").await.remove(0);
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let number = |text: &str| text.split(',').next()?.parse::<u64>().ok();
            let failed = rest
                .split_once("failed_calls=")
                .and_then(|(_, rest)| number(rest));
            commands
                .contains(&name)
                .then(|| Some(number(rest)? - failed.unwrap_or(0)))?
        };
        stats.lines().filter_map(calls).sum()
    }

    /// The number of subscribers of a channel, sharded or not.
    pub(crate) async fn listeners(&mut self, channel: &str) -> i64 {
        let all = self.ask(&format!("PUBSUB NUMSUB {channel}")).await;
        let of_slot = self.ask(&format!("PUBSUB SHARDNUMSUB {channel}")).await;
        [all, of_slot]
            .iter()
            .map(|pair| pair[1].parse::<i64>().expect("a number"))
            .sum()
    }

    /// Waits until a command replies with this integer.
    pub(crate) async fn wait_until(&mut self, command: &str, wanted: i64) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.integer(command).await != wanted {
            assert!(Instant::now() < limit, "{command} never became {wanted}");
            sleep(LOOK_EVERY).await;
        }
    }
}

fn lay_flat(reply: Reply, values: &mut Vec<String>) {
    match reply {
        Reply::Nil => values.push(String::new()),
        Reply::Int(number) => values.push(number.to_string()),
        Reply::Array(parts) => parts.into_iter().for_each(|part| lay_flat(part, values)),
        text => values.push(text.text()),
    }
}
