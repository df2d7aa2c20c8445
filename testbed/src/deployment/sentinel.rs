//! A master with replicas, and the sentinels that watch it, on loopback. They end when they are
//! dropped.
//!
//! Servers and sentinels are numbered. Server 0 is the master at the beginning.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::{addresses, is_in_step};
use super::routes::Routes;
use crate::process::resp::Reply;
use crate::process::server::Server;
use crate::process::waiting::wait_until;

/// Far longer than any step takes, even on a busy machine. A sentinel that was stopped for two
/// seconds does nothing for thirty (TILT).
const LIMIT: Duration = Duration::from_secs(60);
/// A failover by order that has not happened within this time is ordered again.
const GIVEN_UP: Duration = Duration::from_secs(8);
/// The sentinels' name for their master.
pub const MASTER: &str = "locks";

/// What the sentinels watch, and how.
#[derive(Clone, Debug)]
pub struct Watch {
    pub replicas: usize,
    pub sentinels: usize,
    /// A server that is silent for this long is suspected.
    pub down_after: Duration,
    pub failover_timeout: Duration,
    /// The arguments of the servers, not of the sentinels.
    pub arguments: Vec<String>,
    /// How servers and sentinels address each other: an address, or a host name for it.
    pub host: &'static str,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            replicas: 2,
            sentinels: 3,
            // On a busy machine, a shorter silence is nothing: sentinels would replace masters that
            // live, one after another, and what each had granted just before would be lost.
            down_after: Duration::from_secs(2),
            failover_timeout: Duration::from_secs(2),
            arguments: Vec::new(),
            host: "127.0.0.1",
        }
    }
}

#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    watchers: Vec<Server>,
    routes: Mutex<Routes>,
}

impl Sentinels {
    pub fn start() -> Self {
        Self::start_with(&Watch::default())
    }

    pub fn start_with(watch: &Watch) -> Self {
        let mut arguments = vec!["--repl-diskless-sync-delay", "0"];
        arguments.extend(["--repl-ping-replica-period", "1"]);
        arguments.extend(watch.arguments.iter().map(String::as_str));
        let mut servers = vec![Server::start_with(&arguments)];
        let master = servers[0].port().to_string();
        let Watch { host, .. } = *watch;
        let mut follow = vec!["--replicaof", host, &master];
        let is_name = host.parse::<IpAddr>().is_err();
        if is_name {
            follow.extend(["--replica-announce-ip", host]);
        }
        // Sentinels before 6.2 do not support host names and refuse these lines.
        let names = if is_name {
            "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
        } else {
            ""
        };
        let arguments = [&arguments[..], &follow].concat();
        let quorum = watch.sentinels / 2 + 1;
        let [down_after, failover_timeout] =
            [watch.down_after, watch.failover_timeout].map(|span| span.as_millis());
        let configuration = format!(
            "{names}sentinel monitor {MASTER} {host} {master} {quorum}\n\
             sentinel down-after-milliseconds {MASTER} {down_after}\n\
             sentinel failover-timeout {MASTER} {failover_timeout}\n\
             sentinel parallel-syncs {MASTER} {}\n",
            watch.replicas.max(1)
        );
        let watchers: Vec<_> = thread::scope(|scope| {
            let replicas: Vec<_> = (0..watch.replicas)
                .map(|_| scope.spawn(|| Server::start_with(&arguments)))
                .collect();
            servers.extend(
                replicas
                    .into_iter()
                    .map(|replica| replica.join().expect("started")),
            );
            // Sentinels look for replicas when they start, and then every ten seconds.
            wait_until("the replicas are in step", LIMIT, || in_step(&servers));
            let sentinels: Vec<_> = (0..watch.sentinels)
                .map(|_| scope.spawn(|| Server::start_sentinel(&configuration)))
                .collect();
            sentinels
                .into_iter()
                .map(|sentinel| sentinel.join().expect("started"))
                .collect()
        });
        let routes = Mutex::new(Routes::to(&url(&watchers)));
        let all = Sentinels {
            servers,
            watchers,
            routes,
        };
        all.until_they_know_each_other();
        all
    }

    /// A failover needs a majority of sentinels that know each other and have seen the replicas.
    fn until_they_know_each_other(&self) {
        // Sentinels introduce themselves every two seconds, and since 7.0 as often as configured.
        let often = |millis: &str| {
            for sentinel in &self.watchers {
                drop(sentinel.command(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", millis]));
            }
        };
        often("100");
        let (others, replicas) = (self.watchers.len() - 1, self.servers.len() - 1);
        wait_until(
            "the sentinels know each other and all replicas",
            LIMIT,
            || {
                self.watchers.iter().all(|sentinel| {
                    field(sentinel, "num-other-sentinels") == others.to_string()
                        && field(sentinel, "num-slaves") == replicas.to_string()
                })
            },
        );
        often("2000");
    }

    /// For clients that know all sentinels.
    pub fn url(&self) -> String {
        url(&self.watchers)
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub fn server(&self, server: usize) -> &Server {
        &self.servers[server]
    }

    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    pub fn sentinel(&self, sentinel: usize) -> &Server {
        &self.watchers[sentinel]
    }

    /// The master that the sentinel with the newest information names.
    pub fn current_master(&self) -> usize {
        let up = self.watchers.iter().filter(|sentinel| sentinel.is_up());
        let newest = up.max_by_key(|sentinel| {
            field(sentinel, "config-epoch")
                .parse::<u64>()
                .expect("an epoch")
        });
        let port = field(newest.expect("a sentinel that runs"), "port");
        let server = self
            .servers
            .iter()
            .position(|server| server.port().to_string() == port);
        server.expect("one of ours")
    }

    /// A running server that follows the master.
    pub fn replica(&self) -> usize {
        let master = self.current_master();
        let mut servers = 0..self.servers.len();
        let replica = servers.find(|&server| server != master && self.servers[server].is_up());
        replica.expect("a replica that runs")
    }

    /// Sends one command to the master.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.routes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .command(words)
    }

    /// Closes the connections of [`command`](Sentinels::command).
    pub fn rest(&self) {
        self.routes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rest();
    }

    /// SIGKILL of a server.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// SIGSTOP of a server.
    pub fn pause(&self, server: usize) {
        self.servers[server].pause();
    }

    /// SIGCONT of a server.
    pub fn resume(&self, server: usize) {
        self.servers[server].resume();
    }

    /// Restarts a server, empty and in its original role, until the sentinels change that.
    pub fn restart(&mut self, server: usize) {
        self.servers[server].restart();
    }

    pub fn kill_sentinel(&mut self, sentinel: usize) {
        self.watchers[sentinel].kill();
    }

    /// Makes another server the master by order of a sentinel, without losing anything. Returns its
    /// number. The old master continues until the sentinels reconfigure it, some ten seconds later.
    pub fn failover(&self) -> usize {
        let old = self.current_master();
        let sentinel = self.watchers.iter().find(|sentinel| sentinel.is_up());
        let sentinel = sentinel.expect("a sentinel that runs");
        let mut ordered = None;
        wait_until("the order is carried out", LIMIT, || {
            // A sentinel that has not heard a replica for some seconds considers none suitable: it
            // refuses, or gives up later.
            if ordered.is_none_or(|since: Instant| since.elapsed() > GIVEN_UP) {
                let reply = sentinel.command(&["SENTINEL", "FAILOVER", MASTER]);
                ordered = matches!(reply, Reply::Status(_)).then(Instant::now);
            }
            self.named_instead_of(old).is_some()
        });
        self.until_replaced(old)
    }

    /// Waits until all running sentinels name another master than this one and it serves. Returns
    /// its number.
    pub fn until_replaced(&self, old: usize) -> usize {
        let mut serves = None;
        // Ask for the name each time. Two sentinels can both replace a master, each by another
        // server: then the one that they name first is demoted, and half a minute later they name
        // the other one.
        wait_until("another master is named and serves", LIMIT, || {
            let named = self.named_instead_of(old);
            serves = named.filter(|&master| self.is_master(master));
            serves.is_some()
        });
        serves.expect("waited for")
    }

    /// The other master that all running sentinels name, if they name the same one.
    fn named_instead_of(&self, old: usize) -> Option<usize> {
        let up = self.watchers.iter().filter(|sentinel| sentinel.is_up());
        let mut named = up.map(|sentinel| field(sentinel, "port"));
        let first = named.next()?;
        let agreed = named.all(|port| port == first);
        let port = |server: &Server| server.port().to_string();
        let master = self.servers.iter().position(|server| port(server) == first);
        master.filter(|&master| agreed && master != old)
    }

    /// Whether this server considers itself a master.
    pub fn is_master(&self, server: usize) -> bool {
        self.servers[server].command(&["ROLE"]).array()[0].text() == "master"
    }

    /// Waits until all running servers have all the data of the master.
    pub fn until_in_step(&self) {
        wait_until("the replicas are in step", LIMIT, || in_step(&self.servers));
    }
}

/// True if one master runs, and all other running servers follow it and have all its data.
fn in_step(servers: &[Server]) -> bool {
    let up: Vec<_> = servers.iter().filter(|server| server.is_up()).collect();
    let is_master = |server: &Server| server.command(&["ROLE"]).array()[0].text() == "master";
    let masters = up.iter().filter(|server| is_master(server)).count();
    masters == 1 && up.iter().all(|server| is_in_step(servers, server))
}

/// A field of what a sentinel knows about the master.
fn field(sentinel: &Server, wanted: &str) -> String {
    let reply = sentinel.command(&["SENTINEL", "MASTER", MASTER]);
    let pair = reply
        .array()
        .chunks(2)
        .find(|pair| pair[0].text() == wanted);
    pair.map_or_else(String::new, |pair| pair[1].text())
}

fn url(sentinels: &[Server]) -> String {
    let addresses: Vec<_> = addresses(sentinels)
        .iter()
        .map(ToString::to_string)
        .collect();
    format!("redis-sentinel://{}/{MASTER}", addresses.join(","))
}
