//! Sends single commands to a deployment of any kind: to one server, to the master that the
//! sentinels name, or to the right nodes of a cluster.
//!
//! A command about keys goes to the owner of their slot, and follows `MOVED` and `ASK`. A command
//! about servers goes to all masters or to all nodes, whose replies are joined: numbers are added,
//! lists and texts concatenated.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::slots::keyslot;
use crate::process::resp::{Connection, Reply};

/// How long a command is repeated while no server can execute it.
const PATIENCE: Duration = Duration::from_secs(10);
/// More redirections than this are a loop.
const HOPS: usize = 5;

#[derive(Debug)]
pub struct Routes {
    way: Way,
    connections: BTreeMap<SocketAddr, Connection>,
}

#[derive(Debug)]
enum Way {
    Server(SocketAddr),
    Sentinels {
        name: String,
        sentinels: Vec<SocketAddr>,
    },
    Cluster {
        nodes: BTreeSet<SocketAddr>,
        /// The owners of the slots, as last seen.
        owners: BTreeMap<u16, SocketAddr>,
    },
}

/// Which servers a command concerns.
enum Scope {
    /// The owner of this key's slot.
    Key(String),
    /// The owners of each of the words after the first.
    EachKey,
    Masters,
    Nodes,
    Anyone,
}

impl Routes {
    /// To the deployment at the URL that clients use.
    pub fn to(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts
            .split(',')
            .map(|host| host.parse().expect("an address"));
        let way = match scheme {
            "redis" => Way::Server({ hosts }.next().expect("an address")),
            "redis-sentinel" => Way::Sentinels {
                name: path.to_owned(),
                sentinels: hosts.collect(),
            },
            "redis-cluster" => Way::Cluster {
                nodes: hosts.collect(),
                owners: BTreeMap::new(),
            },
            other => panic!("no such deployment: {other}"),
        };
        Routes {
            way,
            connections: BTreeMap::new(),
        }
    }

    /// Closes all connections. They are opened again when needed.
    pub fn rest(&mut self) {
        self.connections.clear();
    }

    /// Sends a command, and repeats it while no server accepts it, as during a failover.
    pub fn command(&mut self, words: &[&str]) -> Reply {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = self.once(words);
            let refused = |text: &str| {
                let codes = [
                    "CLUSTERDOWN",
                    "TRYAGAIN",
                    "LOADING",
                    "READONLY",
                    "MASTERDOWN",
                ];
                codes.iter().any(|code| text.starts_with(code))
            };
            match outcome {
                Ok(Reply::Error(text)) if refused(&text) && Instant::now() < deadline => {}
                Ok(reply) => return reply,
                Err(error) => assert!(Instant::now() < deadline, "{words:?}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a command once.
    pub fn once(&mut self, words: &[&str]) -> io::Result<Reply> {
        if let Way::Server(address) = self.way {
            return self.ask(address, words);
        }
        if let Way::Sentinels { .. } = self.way {
            let master = self.master()?;
            return self.ask(master, words);
        }
        match scope(words) {
            Scope::Key(key) => self.by_slot(keyslot(&key), words),
            Scope::EachKey => {
                let each = words[1..].iter().map(|key| [words[0], key]);
                let replies = each.map(|words| self.by_slot(keyslot(words[1]), &words));
                Ok(join(words, replies.collect::<io::Result<_>>()?))
            }
            Scope::Anyone => {
                let anyone = self.members(&Scope::Masters)?.remove(0);
                self.ask(anyone, words)
            }
            scope @ (Scope::Masters | Scope::Nodes) => {
                let members = self.members(&scope)?;
                let replies = members.into_iter().map(|node| self.ask(node, words));
                Ok(join(words, replies.collect::<io::Result<_>>()?))
            }
        }
    }

    fn by_slot(&mut self, slot: u16, words: &[&str]) -> io::Result<Reply> {
        let mut to = match &self.way {
            Way::Cluster { owners, .. } => owners.get(&slot).copied(),
            _ => None,
        };
        if to.is_none() {
            to = self.members(&Scope::Masters)?.first().copied();
        }
        let mut node = to.ok_or_else(|| io::Error::other("no node answers"))?;
        let mut asking = false;
        for _ in 0..HOPS {
            if asking {
                self.ask(node, &["ASKING"])?;
            }
            let reply = self.ask(node, words);
            if reply.is_err() {
                self.learn(slot, None);
            }
            let reply = reply?;
            let Some((code, address)) = redirection(&reply) else {
                return Ok(reply);
            };
            node = address;
            asking = code == "ASK";
            if !asking {
                self.learn(slot, Some(address));
            }
        }
        Err(io::Error::other("redirected in a circle"))
    }

    fn learn(&mut self, slot: u16, owner: Option<SocketAddr>) {
        if let Way::Cluster { owners, nodes } = &mut self.way {
            nodes.extend(owner);
            match owner {
                Some(owner) => owners.insert(slot, owner),
                None => owners.remove(&slot),
            };
        }
    }

    /// The nodes that at least one of them considers alive.
    fn members(&mut self, scope: &Scope) -> io::Result<Vec<SocketAddr>> {
        let Way::Cluster { nodes, .. } = &self.way else {
            return Ok(Vec::new());
        };
        let known: Vec<_> = nodes.iter().copied().collect();
        let answers = known
            .into_iter()
            .find_map(|node| self.ask(node, &["CLUSTER", "NODES"]).ok());
        let text = answers
            .ok_or_else(|| io::Error::other("no node answers"))?
            .text();
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let alive = lines.filter(|line| {
            let flags: Vec<_> = line[2].split(',').collect();
            let is_gone =
                ["fail", "fail?", "noaddr", "handshake"].map(|flag| flags.contains(&flag));
            !is_gone.contains(&true) && (matches!(scope, Scope::Nodes) || flags.contains(&"master"))
        });
        let address = |line: Vec<&str>| {
            line[1]
                .split('@')
                .next()
                .unwrap_or_default()
                .parse()
                .expect("an address")
        };
        let members: Vec<SocketAddr> = alive.map(address).collect();
        if let Way::Cluster { nodes, .. } = &mut self.way {
            nodes.extend(&members);
        }
        Ok(members)
    }

    /// The master that the sentinel with the newest information names.
    fn master(&mut self) -> io::Result<SocketAddr> {
        let Way::Sentinels { name, sentinels } = &self.way else {
            return Err(io::Error::other("no sentinels"));
        };
        let (name, sentinels) = (name.clone(), sentinels.clone());
        let views = sentinels.iter().filter_map(|&sentinel| {
            let reply = self.ask(sentinel, &["SENTINEL", "MASTER", &name]).ok()?;
            let Reply::Array(fields) = reply else {
                return None;
            };
            let field = |wanted: &str| {
                let pair = fields.chunks(2).find(|pair| pair[0].text() == wanted)?;
                Some(pair[1].text())
            };
            let epoch: u64 = field("config-epoch")?.parse().ok()?;
            let address = format!("{}:{}", field("ip")?, field("port")?)
                .parse()
                .ok()?;
            Some((epoch, address))
        });
        let newest = views.max_by_key(|&(epoch, _)| epoch);
        newest
            .map(|(_, address)| address)
            .ok_or_else(|| io::Error::other("no sentinel knows it"))
    }

    fn ask(&mut self, address: SocketAddr, words: &[&str]) -> io::Result<Reply> {
        // An older connection may have ended with its server, which may be running again.
        if let Some(mut connection) = self.connections.remove(&address)
            && let Ok(reply) = connection.command(words)
        {
            self.connections.insert(address, connection);
            return Ok(reply);
        }
        let mut connection = Connection::open(address)?;
        let reply = connection.command(words)?;
        self.connections.insert(address, connection);
        Ok(reply)
    }
}

fn redirection(reply: &Reply) -> Option<(String, SocketAddr)> {
    let Reply::Error(text) = reply else {
        return None;
    };
    let mut words = text.split(' ');
    let code = words
        .next()
        .filter(|code| ["MOVED", "ASK"].contains(code))?;
    Some((code.to_owned(), words.nth(1)?.parse().ok()?))
}

fn scope(words: &[&str]) -> Scope {
    let key = |at: usize| {
        words
            .get(at)
            .map_or(Scope::Masters, |key| Scope::Key((*key).to_owned()))
    };
    let second = words.get(1).map(|word| word.to_uppercase());
    match (words[0].to_uppercase().as_str(), second.as_deref()) {
        ("DEL" | "EXISTS" | "MGET" | "TOUCH" | "UNLINK", _) => Scope::EachKey,
        ("EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL", _) if words[2] != "0" => key(3),
        ("OBJECT", _) | ("MEMORY", Some("USAGE")) => key(2),
        // Messages without a slot reach subscribers at every node.
        ("CLUSTER" | "COMMAND" | "ECHO" | "PING" | "PUBLISH" | "TIME", _) => Scope::Anyone,
        ("ACL" | "CLIENT" | "CONFIG" | "PUBSUB" | "SCRIPT" | "WAIT", _) => Scope::Nodes,
        (
            "DBSIZE" | "EVAL" | "FLUSHALL" | "FLUSHDB" | "INFO" | "KEYS" | "RANDOMKEY" | "SCAN",
            _,
        ) => Scope::Masters,
        _ => key(1),
    }
}

/// Joins the replies of several nodes as if they came from one.
fn join(words: &[&str], replies: Vec<Reply>) -> Reply {
    if let Some(error) = replies
        .iter()
        .find(|reply| matches!(reply, Reply::Error(_)))
    {
        return error.clone();
    }
    let is_count = words
        .get(1)
        .is_some_and(|word| word.to_uppercase().ends_with("NUMSUB"));
    replies
        .into_iter()
        .reduce(|one, other| match (one, other) {
            (Reply::Int(one), Reply::Int(other)) => Reply::Int(one + other),
            (Reply::Bulk(one), Reply::Bulk(other)) => {
                Reply::Bulk([one, b"\n".to_vec(), other].concat())
            }
            (Reply::Array(one), Reply::Array(other)) if is_count => {
                let add = |(one, other)| match (one, other) {
                    (Reply::Int(one), Reply::Int(other)) => Reply::Int(one + other),
                    (channel, _) => channel,
                };
                Reply::Array(one.into_iter().zip(other).map(add).collect())
            }
            (Reply::Array(one), Reply::Array(other)) => Reply::Array([one, other].concat()),
            (one, _) => one,
        })
        .unwrap_or(Reply::Nil)
}
