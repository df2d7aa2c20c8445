//! In a cluster, calls about many slots become one call to each node, for its own keys. The nodes
//! are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use leasehold::{Client, EmbeddedRedis, HoldState, LockGuard};
use leasehold_testbed::{SLOTS, eventually, keyslot, ms};
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::sleep;

use crate::memory_server::{array, bulk, encoded, request, to_the_connection};

const NODES: u16 = 3;
const FIRST_PORT: u16 = 7000;
const NAMES: usize = 90;

/// A script that a node was asked to run.
#[derive(Debug)]
struct Asked {
    node: u16,
    /// The keys came as arguments.
    undeclared: bool,
    keys: Vec<String>,
}

/// Three nodes. Like Redis, a node refuses keys that are not in its slots.
#[derive(Clone, Default)]
struct Nodes {
    engine: EmbeddedRedis,
    /// Slots that have moved.
    moved: Arc<Mutex<BTreeMap<u16, u16>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Nodes {
    fn builder(&self) -> leasehold::ClientBuilder {
        let nodes = self.clone();
        let dial = move |address: &str| {
            let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
            let (client, own) = duplex(64 * 1024);
            tokio::spawn(nodes.clone().serve(own, port - FIRST_PORT));
            Ok(client)
        };
        let url = format!("redis-cluster://node:{FIRST_PORT}");
        Client::builder(&url).dial_by(dial).lease(ms(3000))
    }

    fn owner(&self, slot: u16) -> u16 {
        let moved = self.moved.lock().unwrap().get(&slot).copied();
        moved.unwrap_or_else(|| at_first(slot))
    }

    /// Moves a slot without telling any client.
    fn move_slot(&self, slot: u16, node: u16) {
        self.moved.lock().unwrap().insert(slot, node);
    }

    /// Takes the calls since the last look.
    fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn serve(self, stream: DuplexStream, node: u16) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let words = request(&mut stream).await?;
            let answer = to_the_connection(&words).unwrap_or_else(|| self.answer(&words, node));
            stream.get_mut().write_all(answer.as_bytes()).await?;
        }
    }

    fn answer(&self, words: &[String], node: u16) -> String {
        match words[0].as_str() {
            "CLUSTER" if words[1] == "SLOTS" => self.layout(),
            "CLUSTER" => bulk("cluster_state:ok\r\ncluster_current_epoch:6\r\n"),
            "PUBSUB" => "-ERR unknown subcommand\r\n".into(),
            "EVALSHA" | "EVAL" => self.run(words, node),
            _ => encoded(self.engine.command(words)),
        }
    }

    fn layout(&self) -> String {
        let slots: Vec<_> = (0..SLOTS).collect();
        let ranges: Vec<_> = slots
            .chunk_by(|one, next| self.owner(*one) == self.owner(*next))
            .map(|range| {
                let port = FIRST_PORT + self.owner(range[0]);
                let primary = array(&[bulk("node"), format!(":{port}\r\n"), bulk("id")]);
                let ends = [range[0], range[range.len() - 1]].map(|slot| format!(":{slot}\r\n"));
                array(&[&ends[..], &[primary]].concat())
            })
            .collect();
        array(&ranges)
    }

    fn run(&self, words: &[String], node: u16) -> String {
        let undeclared = words[2] == "0";
        let number = 2 + usize::from(undeclared);
        let count: usize = words[number].parse().unwrap();
        let keys = words[number + 1..][..count].to_vec();
        let slots: BTreeSet<_> = keys.iter().map(|key| keyslot(key)).collect();
        let foreign = slots.iter().find(|slot| self.owner(**slot) != node);
        let reply = match foreign {
            _ if !undeclared && slots.len() > 1 => {
                "-CROSSSLOT Keys in request don't hash to the same slot\r\n".into()
            }
            Some(_) if undeclared => {
                "-ERR Script attempted to access a non local key in a cluster node\r\n".into()
            }
            Some(slot) => format!("-MOVED {slot} node:{}\r\n", FIRST_PORT + self.owner(*slot)),
            None => encoded(self.engine.command(words)),
        };
        if !reply.starts_with("-NOSCRIPT") {
            self.asked.lock().unwrap().push(Asked {
                node,
                undeclared,
                keys,
            });
        }
        reply
    }
}

fn at_first(slot: u16) -> u16 {
    u16::try_from(u32::from(slot) * u32::from(NODES) / u32::from(SLOTS)).unwrap()
}

async fn take_all(client: &Client) -> Vec<LockGuard> {
    let taking =
        (0..NAMES).map(async |number| client.lock(format!("n{number}")).lock().await.unwrap());
    join_all(taking).await
}

/// Asserts that each node got one call for all its keys.
fn are_one_to_each(nodes: &Nodes, asked: &[Asked]) {
    let mut keys = BTreeSet::new();
    for asked in asked {
        assert!(asked.undeclared, "{asked:?}");
        assert!(
            asked
                .keys
                .iter()
                .all(|key| nodes.owner(keyslot(key)) == asked.node),
            "{asked:?}"
        );
        keys.extend(asked.keys.clone());
    }
    assert_eq!((asked.len(), keys.len()), (usize::from(NODES), NAMES));
}

async fn until_renewed(client: &Client, times: usize) {
    let renewed = (times * NAMES) as u64;
    eventually("all renewed", async || client.stats().renewed >= renewed).await;
    assert_eq!(
        (client.stats().renewed, client.stats().renewals_failed),
        (renewed, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn holds_of_many_slots_are_renewed_by_one_call_to_each_node() {
    let nodes = Nodes::default();
    let client = nodes.builder().connect().await.unwrap();
    let guards = take_all(&client).await;
    nodes.take_asked();
    for times in 1..=3 {
        until_renewed(&client, times).await;
        are_one_to_each(&nodes, &nodes.take_asked());
    }
    drop(guards);
}

/// All keys of the node are refused together. They must not wait for a later renewal.
#[tokio::test(start_paused = true)]
async fn a_slot_that_moved_unseen_costs_no_renewal() {
    let nodes = Nodes::default();
    let client = nodes.builder().connect().await.unwrap();
    let guards = take_all(&client).await;
    until_renewed(&client, 1).await;
    nodes.take_asked();
    let slot = keyslot("n0");
    let home = nodes.owner(slot);
    nodes.move_slot(slot, (home + 1) % NODES);

    until_renewed(&client, 2).await;
    let asked = nodes.take_asked();
    let refused = asked
        .iter()
        .filter(|asked| asked.undeclared && asked.node == home);
    assert_eq!(refused.count(), 1, "a refusal is one call");
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
    // For a while slot by slot, each at its current node.
    until_renewed(&client, 3).await;
    let asked = nodes.take_asked();
    assert!(asked.len() > NAMES / 2, "{}", asked.len());
    let at_home = |asked: &Asked| {
        let slots: BTreeSet<_> = asked.keys.iter().map(|key| keyslot(key)).collect();
        slots.len() == 1 && slots.iter().all(|slot| nodes.owner(*slot) == asked.node)
    };
    assert!(
        asked
            .iter()
            .all(|asked| !asked.undeclared && at_home(asked))
    );
    // And then together again.
    sleep(ms(11_000)).await;
    let times = usize::try_from(client.stats().renewed).unwrap() / NAMES;
    until_renewed(&client, times).await;
    nodes.take_asked();
    until_renewed(&client, times + 1).await;
    are_one_to_each(&nodes, &nodes.take_asked());
}

/// No release message arrives in this test.
#[tokio::test(start_paused = true)]
async fn the_safety_poll_is_one_call_to_each_node() {
    let nodes = Nodes::default();
    let (holder, waiter) = (nodes.builder(), nodes.builder().safety_poll(ms(1000)));
    let (holder, waiter) = (
        holder.connect().await.unwrap(),
        waiter.connect().await.unwrap(),
    );
    let guards = take_all(&holder).await;
    let taking = tokio::spawn(async move { take_all(&waiter).await });
    eventually("all queued", async || {
        nodes.asked.lock().unwrap().len() >= 3 * NAMES
    })
    .await;
    sleep(ms(20)).await;
    nodes.take_asked();
    let polls = async || {
        let asked = nodes.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.undeclared).count() >= usize::from(NODES)
    };
    eventually("a poll", polls).await;
    are_one_to_each(&nodes, &nodes.take_asked());
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    let taken = tokio::time::timeout(ms(5000), taking)
        .await
        .expect("they are found free");
    assert_eq!(taken.unwrap().len(), NAMES);
}
