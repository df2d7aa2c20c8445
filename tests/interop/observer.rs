//! What Redis itself says, over a connection that belongs to neither side.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Observer {
    replies: BufReader<OwnedReadHalf>,
    commands: OwnedWriteHalf,
}

impl Observer {
    pub(crate) async fn connect(url: &str) -> Observer {
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        let connection = TcpStream::connect(address).await.expect("the server runs");
        connection.set_nodelay(true).expect("a socket option");
        let (replies, commands) = connection.into_split();
        Observer { replies: BufReader::new(replies), commands }
    }

    /// Sends a command; the values of its reply in order, with arrays laid flat. Nil is empty.
    pub(crate) async fn ask(&mut self, command: &str) -> Vec<String> {
        let line = format!("{command}\r\n");
        self.commands.write_all(line.as_bytes()).await.expect("the server runs");
        let mut values = Vec::new();
        let mut expected = 1;
        while expected > 0 {
            expected -= 1;
            let mut head = String::new();
            self.replies.read_line(&mut head).await.expect("the server runs");
            let (kind, rest) = head.trim_end().split_at(1);
            match kind {
                "*" => expected += rest.parse::<usize>().expect("a length"),
                "$" => values.push(self.bulk(rest.parse().expect("a length")).await),
                _ => values.push(rest.to_owned()),
            }
        }
        values
    }

    async fn bulk(&mut self, length: i64) -> String {
        let Ok(length) = usize::try_from(length) else { return String::new() };
        let mut bytes = vec![0; length + 2];
        self.replies.read_exact(&mut bytes).await.expect("the server runs");
        bytes.truncate(length);
        String::from_utf8(bytes).expect("text")
    }

    pub(crate) async fn integer(&mut self, command: &str) -> i64 {
        self.ask(command).await[0].parse().expect("an integer")
    }

    /// How often the server has run these commands so far, those in scripts included. A script that
    /// the server did not know yet was not run.
    pub(crate) async fn calls(&mut self, commands: &[&str]) -> u64 {
        let stats = self.ask("INFO commandstats").await.remove(0);
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let number = |text: &str| text.split(',').next()?.parse::<u64>().ok();
            let failed = rest.split_once("failed_calls=").and_then(|(_, rest)| number(rest));
            commands.contains(&name).then(|| Some(number(rest)? - failed.unwrap_or(0)))?
        };
        stats.lines().filter_map(calls).sum()
    }

    /// Waits until a command that replies with an integer replies with this one.
    pub(crate) async fn wait_until(&mut self, command: &str, wanted: i64) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.integer(command).await != wanted {
            assert!(Instant::now() < limit, "{command} never became {wanted}");
            sleep(LOOK_EVERY).await;
        }
    }
}
