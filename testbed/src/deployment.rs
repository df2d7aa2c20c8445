//! The deployment that `LEASEHOLD_DEPLOYMENT` names: `cluster`, `sentinel`, or a single server if
//! it is not set.
//!
//! Locks behave the same on all of them. A single server is started for each test. A cluster takes
//! two seconds to start, so the next test reuses it, emptied, unless a test broke it.

pub(crate) mod cluster;
pub(crate) mod migration;
pub(crate) mod routes;
pub(crate) mod sentinel;
pub(crate) mod slots;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::cluster::{Cluster, Shape};
use self::sentinel::{MASTER, Sentinels, Watch};
use crate::process::proxy::Proxy;
use crate::process::resp::{Connection, Reply};
use crate::process::server::Server;

/// So long that nobody is elected without a failure, however busy the machine is.
const PATIENT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub enum Deployment {
    Server(Box<Server>),
    Cluster(Box<Cluster>),
    Sentinels(Box<Sentinels>),
}

impl Deployment {
    /// The deployment that the environment names.
    pub fn start() -> Self {
        match std::env::var("LEASEHOLD_DEPLOYMENT").as_deref() {
            Ok("cluster") => {
                let shape = Shape {
                    node_timeout: PATIENT,
                    ..Shape::default()
                };
                Deployment::Cluster(Box::new(Cluster::start_with(shape)))
            }
            Ok("sentinel") => {
                let watch = Watch {
                    down_after: PATIENT,
                    ..Watch::default()
                };
                Deployment::Sentinels(Box::new(Sentinels::start_with(&watch)))
            }
            Ok(other) => panic!("LEASEHOLD_DEPLOYMENT: no such deployment: {other}"),
            Err(_) => Deployment::Server(Box::new(Server::start())),
        }
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self, Deployment::Cluster(_))
    }

    pub fn url(&self) -> String {
        match self {
            Deployment::Server(server) => server.url(),
            Deployment::Cluster(cluster) => cluster.url(),
            Deployment::Sentinels(sentinels) => sentinels.url(),
        }
    }

    /// Sends one command to the servers that it concerns.
    pub fn command(&self, words: &[&str]) -> Reply {
        match self {
            Deployment::Server(server) => server.command(words),
            Deployment::Cluster(cluster) => cluster.command(words),
            Deployment::Sentinels(sentinels) => sentinels.command(words),
        }
    }

    /// How many servers a client must be connected to.
    pub fn primaries(&self) -> usize {
        match self {
            Deployment::Cluster(cluster) => cluster.shards(),
            Deployment::Server(_) | Deployment::Sentinels(_) => 1,
        }
    }

    /// The lines of CLIENT LIST that contain `part`, on all servers with data.
    pub fn clients(&self, part: &str) -> Vec<String> {
        self.servers()
            .iter()
            .flat_map(|server| server.clients(part))
            .collect()
    }

    /// The channels that have subscribers, sharded or not.
    pub fn channels(&self) -> Vec<String> {
        let ask = |server: &Server, what| match server.command(&["PUBSUB", what]) {
            Reply::Array(channels) => channels.iter().map(Reply::text).collect(),
            // Redis 6.2 has no command for a single slot.
            _ => Vec::new(),
        };
        // Sentinels subscribe to channels, too.
        let is_theirs = |channel: &String| channel.starts_with("__sentinel__:");
        let all = self
            .servers()
            .iter()
            .flat_map(|server| [ask(server, "CHANNELS"), ask(server, "SHARDCHANNELS")].concat());
        let mut all: Vec<_> = all.filter(|channel| !is_theirs(channel)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Publishes a message like a release: in a cluster, to the servers of the channel's slot if
    /// they can do that.
    pub fn publish(&self, channel: &str, message: &str) {
        let send = |command| self.command(&[command, channel, message]);
        // Redis 6.2 has no SPUBLISH.
        let is_unknown = |reply: Reply| matches!(reply, Reply::Error(_));
        if !self.is_cluster() || is_unknown(send("SPUBLISH")) {
            send("PUBLISH");
        }
    }

    /// SIGKILL of all processes.
    pub fn kill(&mut self) {
        match self {
            Deployment::Server(server) => server.kill(),
            Deployment::Cluster(cluster) => {
                (0..cluster.nodes().len()).for_each(|node| cluster.kill(node));
            }
            Deployment::Sentinels(sentinels) => {
                // Nobody is left to watch the servers stop.
                let all = sentinels.sentinels().len();
                (0..all).for_each(|sentinel| sentinels.kill_sentinel(sentinel));
                (0..sentinels.servers().len()).for_each(|server| sentinels.kill(server));
            }
        }
    }

    /// SIGSTOP of all processes.
    pub fn pause(&self) {
        self.processes().for_each(Server::pause);
    }

    /// SIGCONT of all processes.
    pub fn resume(&self) {
        self.processes().for_each(Server::resume);
    }

    /// Proxies through which clients can be made to fail.
    pub fn line(&self) -> Line {
        let addresses: Vec<_> = self.processes().map(Server::address).collect();
        let proxies = Proxy::start_for_all(&addresses);
        let all = |proxies: &[Proxy]| {
            let addresses: Vec<_> = proxies
                .iter()
                .map(|proxy| proxy.address().to_string())
                .collect();
            addresses.join(",")
        };
        let url = match self {
            Deployment::Server(_) => proxies[0].url(),
            Deployment::Cluster(_) => format!("redis-cluster://{}", all(&proxies)),
            Deployment::Sentinels(sentinels) => {
                format!(
                    "redis-sentinel://{}/{MASTER}",
                    all(&proxies[sentinels.servers().len()..])
                )
            }
        };
        Line { url, proxies }
    }

    /// The servers with data.
    pub fn servers(&self) -> &[Server] {
        match self {
            Deployment::Server(server) => std::slice::from_ref(server),
            Deployment::Cluster(cluster) => cluster.nodes(),
            Deployment::Sentinels(sentinels) => sentinels.servers(),
        }
    }

    /// Servers first, then sentinels.
    pub fn processes(&self) -> impl Iterator<Item = &Server> {
        let sentinels = match self {
            Deployment::Sentinels(sentinels) => sentinels.sentinels(),
            _ => &[],
        };
        self.servers().iter().chain(sentinels)
    }

    /// Restores the state right after the start. False if that is impossible.
    fn freshen(&self) -> bool {
        if !self.processes().all(Server::is_up) {
            return false;
        }
        match self {
            Deployment::Server(_) => return false,
            Deployment::Cluster(cluster) => cluster.rest(),
            Deployment::Sentinels(sentinels) => sentinels.rest(),
        }
        // Clients of the previous test are just leaving. A client that stays makes the deployment
        // unusable.
        let limit = Instant::now() + Duration::from_secs(3);
        while self
            .servers()
            .iter()
            .any(|server| has_clients(server.address()))
        {
            if Instant::now() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.command(&["FLUSHALL"]);
        for server in self.servers() {
            server.command(&["SCRIPT", "FLUSH"]);
            server.command(&["CONFIG", "RESETSTAT"]);
        }
        true
    }
}

/// Whether there are clients other than this connection and the deployment's own servers.
fn has_clients(server: SocketAddr) -> bool {
    let list = |kind: &str| {
        let mut connection = Connection::open(server)?;
        connection.command(&["CLIENT", "LIST", "TYPE", kind])
    };
    let is_foreign =
        |line: &&str| !line.contains(" cmd=client") && !line.contains(" name=sentinel-");
    ["normal", "pubsub"].iter().any(|kind| {
        list(kind).map_or(true, |reply| {
            reply.text().lines().filter(is_foreign).count() > 0
        })
    })
}

/// A deployment for one test.
#[derive(Debug)]
pub struct Borrowed(Option<Deployment>);

static IDLE: Mutex<Vec<Deployment>> = Mutex::new(Vec::new());

impl Borrowed {
    /// An idle deployment, or a new one.
    pub fn take() -> Self {
        loop {
            let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(deployment) = idle else {
                return Borrowed(Some(Deployment::start()));
            };
            if deployment.freshen() {
                return Borrowed(Some(deployment));
            }
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let deployment = self.0.take().expect("until now");
        // Starting a single server is as fast as emptying it, and certain to give a clean one.
        let is_whole = !matches!(deployment, Deployment::Server(_))
            && deployment.processes().all(Server::is_up)
            && !std::thread::panicking();
        if is_whole {
            IDLE.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(deployment);
        }
    }
}

impl Deref for Borrowed {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        self.0.as_ref().expect("until it is dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Deployment {
        self.0.as_mut().expect("until it is dropped")
    }
}

/// Proxies in front of every process of the deployment. A client with their URL reaches the
/// processes only through them.
#[derive(Debug)]
pub struct Line {
    url: String,
    proxies: Vec<Proxy>,
}

impl Line {
    pub fn url(&self) -> &str {
        &self.url
    }

    /// In the order of the processes: servers first, then sentinels.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// See [`Proxy::swallow_replies`].
    pub fn swallow_replies(&self) {
        self.proxies.iter().for_each(Proxy::swallow_replies);
    }

    /// See [`Proxy::swallow_requests`].
    pub fn swallow_requests(&self) {
        self.proxies.iter().for_each(Proxy::swallow_requests);
    }

    /// See [`Proxy::delay_replies`].
    pub fn delay_replies(&self, delay: Duration) {
        self.proxies
            .iter()
            .for_each(|proxy| proxy.delay_replies(delay));
    }

    /// See [`Proxy::hold_requests`].
    pub fn hold_requests(&self) {
        self.proxies.iter().for_each(Proxy::hold_requests);
    }

    /// See [`Proxy::jitter`].
    pub fn jitter(&self, up_to: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.jitter(up_to));
    }

    /// See [`Proxy::trickle`].
    pub fn trickle(&self, piece: usize) {
        self.proxies.iter().for_each(|proxy| proxy.trickle(piece));
    }

    /// See [`Proxy::swallow_messages`].
    pub fn swallow_messages(&self) {
        self.proxies.iter().for_each(Proxy::swallow_messages);
    }

    /// See [`Proxy::flow`].
    pub fn flow(&self) {
        self.proxies.iter().for_each(Proxy::flow);
    }

    /// See [`Proxy::pass`].
    pub fn pass(&self) {
        self.proxies.iter().for_each(Proxy::pass);
    }

    /// See [`Proxy::half_open`].
    pub fn half_open(&self) {
        self.proxies.iter().for_each(Proxy::half_open);
    }

    /// See [`Proxy::refuse`].
    pub fn refuse(&self) {
        self.proxies.iter().for_each(Proxy::refuse);
    }

    /// See [`Proxy::cut`].
    pub fn cut(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// See [`Proxy::accepted`].
    pub fn accepted(&self) -> u64 {
        self.proxies.iter().map(Proxy::accepted).sum()
    }
}
