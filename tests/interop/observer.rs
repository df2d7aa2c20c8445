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

    /// Scripts that the server has run so far.
    pub(crate) async fn scripts(&mut self) -> u64 {
        let stats = self.ask("INFO commandstats").await.remove(0);
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            matches!(name, "eval" | "evalsha").then(|| rest.split(',').next()?.parse().ok())?
        };
        stats.lines().filter_map(calls).sum()
    }

    /// Waits until somebody has subscribed to the lock's channel and has then asked once more,
    /// with which he has `asked` at least so often since there were `before` scripts: only a
    /// message, or the end of the lease, will now make him ask again.
    pub(crate) async fn wait_for_waiter(&mut self, name: &str, before: u64, asked: u64) {
        let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        let channel = format!("redisson_lock__channel:{tagged}");
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let listeners = self.ask(&format!("PUBSUB NUMSUB {channel}")).await;
            if listeners[1] != "0" && self.scripts().await >= before + asked {
                return;
            }
            assert!(Instant::now() < limit, "nobody waits for {name}");
            sleep(LOOK_EVERY).await;
        }
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
