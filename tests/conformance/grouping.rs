//! Calls about many keys, where a call may name keys of one slot only: in a cluster, and behind its
//! proxy. Every call declares its keys. The nodes are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use leasehold::test_util::scripts;
use leasehold::{Client, EmbeddedRedis, HoldState, LockGuard};
use leasehold_testbed::{SLOTS, eventually, keyslot, ms};
use tokio::io::DuplexStream;
use tokio::time::sleep;

use crate::memory_server::{array, bulk, connect, encoded, to_the_connection};

const NODES: u16 = 3;
const FIRST_PORT: u16 = 7000;
const NAMES: usize = 90;
/// They serve all slots. The second one also runs scripts without keys.
const PROXIES: [u16; 2] = [NODES, NODES + 1];

/// A script that a node was asked to run.
#[derive(Debug)]
struct Asked {
    node: u16,
    script: String,
    keys: Vec<String>,
}

/// Three nodes. Like Redis, a node refuses keys that are not in its slots. Like some providers, it
/// refuses scripts without keys.
#[derive(Clone, Default)]
struct Nodes {
    engine: EmbeddedRedis,
    /// Slots that have moved.
    moved: Arc<Mutex<BTreeMap<u16, u16>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Scripts that were refused.
    refused: Arc<Mutex<Vec<String>>>,
}

impl Nodes {
    fn builder(&self) -> leasehold::ClientBuilder {
        let nodes = self.clone();
        let dial = move |address: &str| {
            let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
            Ok(nodes.connect(port - FIRST_PORT))
        };
        let url = format!("redis-cluster://node:{FIRST_PORT}");
        Client::builder(&url).dial_by(dial).lease(ms(3000))
    }

    fn connect(&self, node: u16) -> DuplexStream {
        let nodes = self.clone();
        connect(move |words| nodes.answer(words, node)).0
    }

    fn owner(&self, slot: u16) -> u16 {
        let moved = self.moved.lock().unwrap().get(&slot).copied();
        moved.unwrap_or_else(|| at_first(slot))
    }

    /// Moves a slot without telling any client.
    fn move_slot(&self, slot: u16, node: u16) {
        self.moved.lock().unwrap().insert(slot, node);
    }

    /// Takes the refused scripts since the last look.
    fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut *self.refused.lock().unwrap())
    }

    /// Takes the calls since the last look.
    fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn answer(&self, words: &[String], node: u16) -> String {
        match words[0].as_str() {
            "CLUSTER" if words[1] == "SLOTS" => self.layout(),
            "CLUSTER" => bulk("cluster_state:ok\r\ncluster_current_epoch:6\r\n"),
            "PUBSUB" => "-ERR unknown subcommand\r\n".into(),
            "EVALSHA" | "EVAL" => self.run(words, node),
            _ => to_the_connection(words).unwrap_or_else(|| encoded(self.engine.command(words))),
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
        let count: usize = words[2].parse().unwrap();
        let keys = words[3..][..count].to_vec();
        let slots: BTreeSet<_> = keys.iter().map(|key| keyslot(key)).collect();
        let is_foreign = |slot: &&u16| node < NODES && self.owner(**slot) != node;
        let foreign = slots.iter().find(is_foreign);
        let fewest = usize::from(node != PROXIES[1]);
        let is_refused = !(fewest..=1).contains(&slots.len());
        if is_refused {
            self.refused.lock().unwrap().push(words[1].clone());
        }
        let reply = match foreign {
            _ if is_refused => "-ERR a script needs keys, and all of one slot\r\n".into(),
            Some(slot) => format!("-MOVED {slot} node:{}\r\n", FIRST_PORT + self.owner(*slot)),
            None => encoded(self.engine.command(words)),
        };
        if !reply.starts_with("-NOSCRIPT") {
            let script = words[1].clone();
            self.asked
                .lock()
                .unwrap()
                .push(Asked { node, script, keys });
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

/// Asserts that there was one call for each key, at the node that serves it.
fn are_one_for_each_key(nodes: &Nodes, asked: &[Asked]) {
    let keys: BTreeSet<_> = asked.iter().flat_map(|asked| &asked.keys).collect();
    assert_eq!((asked.len(), keys.len()), (NAMES, NAMES));
    let at_home = |asked: &Asked| nodes.owner(keyslot(&asked.keys[0])) == asked.node;
    assert!(asked.iter().all(at_home), "{asked:?}");
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
async fn holds_of_a_cluster_are_renewed_by_one_call_each() {
    let nodes = Nodes::default();
    let client = nodes.builder().connect().await.unwrap();
    let guards = take_all(&client).await;
    nodes.take_asked();
    for times in 1..=3 {
        until_renewed(&client, times).await;
        are_one_for_each_key(&nodes, &nodes.take_asked());
    }
    drop(guards);
}

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
    let to_the_former = |asked: &&Asked| asked.node == home && keyslot(&asked.keys[0]) == slot;
    let refused = asked.iter().filter(to_the_former).count();
    assert_eq!(refused, 1, "only this slot is asked about twice");
    let others: Vec<_> = asked
        .into_iter()
        .filter(|asked| !to_the_former(&asked))
        .collect();
    are_one_for_each_key(&nodes, &others);
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
}

/// No release message arrives in this test.
#[tokio::test(start_paused = true)]
async fn the_safety_poll_of_a_cluster_is_one_call_for_each_key() {
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
    let poll = sha1_of("keys_exist");
    eventually("a poll", async || {
        nodes
            .asked
            .lock()
            .unwrap()
            .iter()
            .any(|asked| asked.script == poll)
    })
    .await;
    sleep(ms(20)).await;
    let polls: Vec<_> = nodes
        .take_asked()
        .into_iter()
        .filter(|asked| asked.script == poll)
        .collect();
    are_one_for_each_key(&nodes, &polls);
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    let taken = tokio::time::timeout(ms(5000), taking)
        .await
        .expect("they are found free");
    assert_eq!(taken.unwrap().len(), NAMES);
}

/// A proxy that hides a cluster: it is no cluster for its clients, and refuses scripts with keys of
/// several slots.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_takes_keys_of_one_slot_refuses_few_calls() {
    for proxy in PROXIES {
        refuses_few_calls(proxy).await;
    }
}

async fn refuses_few_calls(proxy: u16) {
    let nodes = Nodes::default();
    let dialed = nodes.clone();
    let dial = move |_: &str| Ok(dialed.connect(proxy));
    let builder = || Client::builder("redis://proxy").dial_by(dial.clone());
    let holder = builder().lease(ms(3000)).connect().await.unwrap();
    holder
        .ping()
        .await
        .expect("although its first script has no keys");
    let waiter = builder().safety_poll(ms(1000)).connect().await.unwrap();
    let guards = take_all(&holder).await;
    let taking = tokio::spawn(async move { take_all(&waiter).await });
    until_renewed(&holder, 1).await;
    nodes.take_refused();
    for times in 2..=4 {
        until_renewed(&holder, times).await;
    }
    let renewal = sha1_of("lock_renew");
    let refused = nodes.take_refused();
    assert!(!refused.contains(&renewal), "one by one from now on");
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
    // No message arrives here either.
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    let taken = tokio::time::timeout(ms(5000), taking);
    let taken = taken.await.expect("they are found free").unwrap();
    assert_eq!(taken.len(), NAMES);
}

fn sha1_of(script: &str) -> String {
    let mut scripts = scripts().into_iter();
    let (_, _, sha1) = scripts
        .find(|(name, ..)| *name == script)
        .expect("a script");
    sha1.to_owned()
}
