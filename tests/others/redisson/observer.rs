//! A view of Redis over a connection that belongs to neither side.

use leasehold_testbed::{Outside, Reply, eventually};

/// A command blocks its thread until the reply arrives. It yields to other tasks first.
#[derive(Debug)]
pub(crate) struct Observer(Outside);

impl Observer {
    pub(crate) fn of(url: &str) -> Observer {
        Observer(Outside::to(url))
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
        tokio::task::yield_now().await;
        let stats = self.0.command_stats();
        let counted = commands.iter().filter_map(|command| stats.get(*command));
        counted.map(|stats| stats.calls - stats.failed).sum()
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
        eventually(&format!("{command} is {wanted}"), async || {
            self.integer(command).await == wanted
        })
        .await;
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
