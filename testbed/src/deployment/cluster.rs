//! A cluster of private servers on loopback, which ends when it is dropped.
//!
//! Shard `i` is what master `i` has at the beginning: that node, its replicas, and its slots. Nodes
//! are numbered: first the masters, then their replicas in the same order, round by round.
//!
//! A new cluster takes 2 s, because a master refuses everything for that long after its start
//! (`CLUSTER_WRITABLE_DELAY` in the server's source).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::routes::Routes;
use super::slots::{SLOTS, keyslot};
use crate::info::info_line;
use crate::process::resp::Reply;
use crate::process::server::Server;
use crate::process::waiting::wait_until;

/// Far longer than any step takes, even on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The shape of a cluster.
#[derive(Clone, Debug)]
pub struct Shape {
    pub masters: usize,
    /// The number of replicas of each master.
    pub replicas: usize,
    /// A node that is silent for this long is suspected, and its replica elected.
    pub node_timeout: Duration,
    /// Whether one shard that is down stops the others, which is the servers' default.
    pub full_coverage: bool,
    pub arguments: Vec<String>,
}

impl Default for Shape {
    fn default() -> Self {
        let node_timeout = Duration::from_secs(1);
        Shape {
            masters: 3,
            replicas: 1,
            node_timeout,
            full_coverage: true,
            arguments: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub struct Cluster {
    shape: Shape,
    nodes: Vec<Server>,
    routes: Mutex<Routes>,
}

/// A node, as it or another node sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sighting {
    port: u16,
    id: String,
    is_me: bool,
    is_master: bool,
    is_known: bool,
    /// The id of its master.
    master: String,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    pub fn start() -> Self {
        Self::start_with(Shape::default())
    }

    pub fn start_with(shape: Shape) -> Self {
        let number = shape.masters * (1 + shape.replicas);
        let node_timeout = shape.node_timeout.as_millis().to_string();
        let coverage = if shape.full_coverage { "yes" } else { "no" };
        let mut arguments = vec!["--cluster-node-timeout", &node_timeout];
        arguments.extend(["--cluster-require-full-coverage", coverage]);
        // With this factor, a replica may be elected however long its master has been silent, as
        // long as the shard has no other replica.
        arguments.extend(["--cluster-replica-validity-factor", "0"]);
        arguments.extend(["--repl-diskless-sync-delay", "0"]);
        arguments.extend(shape.arguments.iter().map(String::as_str));
        let nodes: Vec<_> = thread::scope(|scope| {
            let start = || scope.spawn(|| Server::start_node(&arguments));
            let starting: Vec<_> = (0..number).map(|_| start()).collect();
            starting
                .into_iter()
                .map(|node| node.join().expect("started"))
                .collect()
        });
        let routes = Mutex::new(Routes::to(&url(&nodes)));
        let cluster = Cluster {
            shape,
            nodes,
            routes,
        };
        cluster.form();
        cluster
    }

    /// Assigns the slots before the nodes meet, with different epochs, so that the nodes have
    /// nothing to agree on.
    fn form(&self) {
        let masters = self.shape.masters;
        for (epoch, node) in (1..).zip(&self.nodes) {
            done(&node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]));
        }
        for shard in 0..masters {
            let slots: Vec<_> = self.slots_of(shard).map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"]
                .into_iter()
                .chain(slots.iter().map(String::as_str));
            done(&self.nodes[shard].command(&words.collect::<Vec<_>>()));
        }
        // Introduce all nodes to each other, so that none has to wait for gossip.
        for (at, one) in self.nodes.iter().enumerate() {
            let mut connection = one.connection();
            for other in &self.nodes[at + 1..] {
                let bus = other.bus_port().expect("a node").to_string();
                let words = [
                    "CLUSTER",
                    "MEET",
                    "127.0.0.1",
                    &other.port().to_string(),
                    &bus,
                ];
                done(&connection.command(&words).expect("answered"));
            }
        }
        wait_until("the nodes know each other", LIMIT, || {
            let knows_all = |view: &[Sighting]| {
                view.len() == self.nodes.len() && view.iter().all(|node| node.is_known)
            };
            (0..self.nodes.len()).all(|node| knows_all(&self.view(node)))
        });
        for (at, replica) in self.nodes.iter().enumerate().skip(masters) {
            let master = self.nodes[at % masters]
                .command(&["CLUSTER", "MYID"])
                .text();
            done(&replica.command(&["CLUSTER", "REPLICATE", &master]));
        }
        self.until_agreed();
        self.until_in_step();
    }

    /// For clients that know all nodes.
    pub fn url(&self) -> String {
        url(&self.nodes)
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    pub fn node(&self, node: usize) -> &Server {
        &self.nodes[node]
    }

    pub fn shards(&self) -> usize {
        self.shape.masters
    }

    /// The slots that a shard has at the beginning.
    pub fn slots_of(&self, shard: usize) -> std::ops::Range<u16> {
        let edge = |shard: usize| {
            u16::try_from(shard * usize::from(SLOTS) / self.shape.masters).expect("a slot")
        };
        edge(shard)..edge(shard + 1)
    }

    /// A name in a shard, as long as the shard has its initial slots. `part` distinguishes it from
    /// other names.
    pub fn name_in(&self, shard: usize, part: &str) -> String {
        let slots = self.slots_of(shard);
        let names = (0..).map(|number| format!("{part}:{number}"));
        { names }
            .find(|name| slots.contains(&keyslot(name)))
            .expect("one of many")
    }

    /// The shard's master, as that node sees itself. Of two masters, the one that was elected
    /// later.
    pub fn master(&self, shard: usize) -> usize {
        // Roles may change between the two questions.
        let mut master = None;
        wait_until("the shard has a master that runs", LIMIT, || {
            let members = self.members(shard).filter(|&node| self.nodes[node].is_up());
            let masters = members.filter_map(|node| {
                let me = self
                    .view(node)
                    .into_iter()
                    .find(|sighting| sighting.is_me)?;
                me.is_master.then_some((me.epoch, node))
            });
            master = masters.max();
            master.is_some()
        });
        master.expect("it was found").1
    }

    /// A running node of the shard that follows its master.
    pub fn replica_of(&self, shard: usize) -> usize {
        let master = self.master(shard);
        let mut members = self.members(shard);
        let replica = members.find(|&node| node != master && self.nodes[node].is_up());
        replica.expect("a replica that runs")
    }

    /// The node that serves a slot, as that node sees itself.
    pub fn owner(&self, slot: u16) -> usize {
        let claims = self.up().filter_map(|node| {
            let me = self
                .view(node)
                .into_iter()
                .find(|sighting| sighting.is_me)?;
            let has = me
                .slots
                .iter()
                .any(|&(first, last)| (first..=last).contains(&slot));
            has.then_some((me.epoch, node))
        });
        claims.max().expect("somebody has it").1
    }

    pub fn owner_of_key(&self, key: &str) -> usize {
        self.owner(keyslot(key))
    }

    /// Sends one command to the nodes that it concerns.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.routes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .command(words)
    }

    /// Closes the connections of [`command`](Cluster::command).
    pub fn rest(&self) {
        self.routes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rest();
    }

    /// SIGKILL.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// SIGSTOP.
    pub fn pause(&self, node: usize) {
        self.nodes[node].pause();
    }

    /// SIGCONT.
    pub fn resume(&self, node: usize) {
        self.nodes[node].resume();
    }

    /// Restarts the node, empty but with its identity. Its shard may have another master by now.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    /// Makes a replica the master of its shard by order, without losing anything. Returns its
    /// number.
    pub fn failover(&self, shard: usize) -> usize {
        let replica = self.replica_of(shard);
        self.until_in_step();
        let mut ordered = std::time::Instant::now();
        done(&self.nodes[replica].command(&["CLUSTER", "FAILOVER"]));
        wait_until("the replica is master", LIMIT, || {
            // The server gives up after 5 s, for example if too few masters have answered.
            if ordered.elapsed() > Duration::from_secs(6) {
                drop(self.nodes[replica].command(&["CLUSTER", "FAILOVER"]));
                ordered = std::time::Instant::now();
            }
            self.master(shard) == replica
        });
        self.until_agreed();
        replica
    }

    /// Waits until another node than this one is master of the shard, and all running nodes agree.
    /// Returns its number.
    pub fn until_replaced(&self, shard: usize, old: usize) -> usize {
        wait_until("the shard has another master", LIMIT, || {
            let mut members = self.members(shard).filter(|&node| node != old);
            members.any(|node| {
                let me = || self.view(node).into_iter().find(|sighting| sighting.is_me);
                self.nodes[node].is_up() && me().is_some_and(|me| me.is_master)
            })
        });
        self.until_agreed();
        self.master(shard)
    }

    /// Waits until all running nodes serve, and agree about the owners of slots and the masters.
    pub fn until_agreed(&self) {
        wait_until("the nodes agree", LIMIT, || {
            let serves = |node: usize| {
                let info = self.nodes[node].command(&["CLUSTER", "INFO"]).text();
                info.contains("cluster_state:ok")
            };
            self.agree(self.up()) && self.up().all(serves)
        });
    }

    /// The same for the masters only. Replicas follow by gossip.
    pub fn until_masters_agree(&self) {
        wait_until("the masters agree", LIMIT, || {
            let is_master = |&node: &usize| {
                self.view(node)
                    .iter()
                    .any(|sighting| sighting.is_me && sighting.is_master)
            };
            self.agree(self.up().filter(is_master))
        });
    }

    /// Waits until the running replicas have all the data of their masters.
    pub fn until_in_step(&self) {
        wait_until("the replicas are in step", LIMIT, || {
            self.up()
                .all(|node| is_in_step(&self.nodes, &self.nodes[node]))
        });
    }

    pub(super) fn id(&self, node: usize) -> String {
        self.nodes[node].command(&["CLUSTER", "MYID"]).text()
    }

    /// The running masters that have slots or could have some.
    pub(super) fn masters(&self) -> Vec<usize> {
        let is_master = |&node: &usize| {
            self.view(node)
                .iter()
                .any(|sighting| sighting.is_me && sighting.is_master)
        };
        self.up().filter(is_master).collect()
    }

    fn up(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].is_up())
    }

    fn members(&self, shard: usize) -> impl Iterator<Item = usize> + use<> {
        (shard..self.nodes.len()).step_by(self.shape.masters)
    }

    fn agree(&self, mut nodes: impl Iterator<Item = usize>) -> bool {
        let running: BTreeSet<u16> = self.up().map(|node| self.nodes[node].port()).collect();
        let view = |node| {
            let sightings = self.view(node).into_iter();
            let of_running = sightings.filter(|sighting| running.contains(&sighting.port));
            of_running
                .map(|one| Sighting {
                    is_me: false,
                    ..one
                })
                .collect::<BTreeSet<_>>()
        };
        let Some(first) = nodes.next().map(view) else {
            return true;
        };
        first.len() == running.len() && nodes.all(|node| view(node) == first)
    }

    /// All nodes, as this one sees them.
    fn view(&self, node: usize) -> Vec<Sighting> {
        let text = self.nodes[node].command(&["CLUSTER", "NODES"]).text();
        text.lines().map(sighting).collect()
    }
}

/// `ID IP:PORT@BUS[,HOST] FLAGS MASTER PING PONG EPOCH LINK SLOT[-SLOT]…`
fn sighting(line: &str) -> Sighting {
    let words: Vec<_> = line.split(' ').collect();
    let (address, _) = words[1].split_once('@').expect("a bus");
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let flags: Vec<_> = words[2].split(',').collect();
    // Slots in brackets are being migrated, and still belong to this node.
    let slots = words[8..].iter().filter(|slots| !slots.starts_with('['));
    let number = |text: &str| text.parse().expect("a slot");
    let slots = slots.map(|slots| match slots.split_once('-') {
        Some((first, last)) => (number(first), number(last)),
        None => (number(slots), number(slots)),
    });
    Sighting {
        port,
        id: words[0].to_owned(),
        is_me: flags.contains(&"myself"),
        is_master: flags.contains(&"master"),
        is_known: !flags.contains(&"handshake"),
        master: words[3].to_owned(),
        epoch: words[6].parse().expect("an epoch"),
        slots: slots.collect(),
    }
}

/// A master is in step with itself. A replica is in step if it has read everything that its master
/// has written.
pub(super) fn is_in_step(servers: &[Server], server: &Server) -> bool {
    let field = |server: &Server, name: &str| {
        let info = server.command(&["INFO", "replication"]).text();
        info_line(&info, name).map(str::to_owned)
    };
    let Some(port) = field(server, "master_port") else {
        return true;
    };
    let master = servers.iter().find(|one| one.port().to_string() == port);
    let Some(master) = master.filter(|master| master.is_up()) else {
        return false;
    };
    let written = field(master, "master_repl_offset");
    field(server, "master_link_status").as_deref() == Some("up")
        && field(server, "slave_repl_offset") == written
}

fn url(nodes: &[Server]) -> String {
    let addresses: Vec<_> = nodes
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    format!("redis-cluster://{}", addresses.join(","))
}

/// Asserts that the command was accepted.
pub(super) fn done(reply: &Reply) {
    assert_eq!(*reply, Reply::Status("OK".to_owned()));
}

pub(super) fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(Server::address).collect()
}
