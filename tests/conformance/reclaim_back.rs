//! A client tells a new primary what it holds, and reaches the former one before it has the answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use leasehold::settings::Failover;
use leasehold::test_util::Reply;
use leasehold::{Client, ClientBuilder, EmbeddedRedis, HoldState, Lease};
use leasehold_testbed::{eventually, ms, timed};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::memory_server::{connect, encoded, to_the_connection};

const REGISTRATIONS: &str = "leasehold_reclaim";
const LEASE: u64 = 3000;

/// The former primary and the new one, in memory. Which of them a new connection leads to is chosen by the test.
#[derive(Clone, Default)]
struct Pair {
    primaries: [EmbeddedRedis; 2],
    leads_to: Arc<AtomicUsize>,
    /// The connection ends instead of the answer to what the client holds, and the next one leads to the former primary.
    loses: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

fn reclaiming(builder: ClientBuilder) -> ClientBuilder {
    let reclaim = Failover::Reclaim { replicas: 1 };
    builder.lease(ms(LEASE)).failover(reclaim)
}

impl Pair {
    /// A client that may reach both.
    async fn client(&self) -> Client {
        let pair = self.clone();
        let dial = move |_: &str| {
            let (answering, at) = (pair.clone(), pair.leads_to.load(SeqCst));
            let (client, task) = connect(move |words| answering.answer(at, words));
            pair.connections.lock().unwrap().push(task);
            Ok(client)
        };
        let builder = Client::builder("redis://pair").dial_by(dial);
        reclaiming(builder).connect().await.unwrap()
    }

    /// A client that reaches only the new primary.
    async fn newcomer(&self) -> Client {
        let builder = self.primaries[1].builder();
        reclaiming(builder).connect().await.unwrap()
    }

    fn answer(&self, at: usize, words: &[String]) -> String {
        if words[0] == "WAIT" {
            // The replica of the former primary is the new one.
            let copies = usize::from(!self.is_promoted() || at == 1);
            return format!(":{copies}\r\n");
        }
        let run = || encoded(self.primaries[at].command(words));
        let reply = to_the_connection(words).unwrap_or_else(run);
        if at == 1 && self.has_come() && self.loses.swap(false, SeqCst) {
            self.lead_to(0);
            return String::new();
        }
        reply
    }

    fn registrations(&self, at: usize) -> Vec<String> {
        let all = self.primaries[at].command(&["HGETALL", REGISTRATIONS]);
        let Ok(Reply::Array(parts)) = all else {
            return Vec::new();
        };
        let text = |part| match part {
            Ok(Reply::Bulk(bytes)) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        parts.into_iter().map(text).collect()
    }

    fn is_promoted(&self) -> bool {
        !self.registrations(1).is_empty()
    }

    /// Whether the client of both has told the new primary all that it holds.
    fn has_come(&self) -> bool {
        let former = self.registrations(0);
        let is_known = |id: &str| former.contains(&format!("until:{id}"));
        let back = self.registrations(1);
        back.iter()
            .any(|field| field.strip_prefix("back:").is_some_and(is_known))
    }

    /// Ends all connections of the client that may reach both.
    fn lead_to(&self, at: usize) {
        self.leads_to.store(at, SeqCst);
        self.connections
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|task| task.abort());
    }

    /// The new primary has the registrations of the former one, and none of its holds.
    fn promote(&self) {
        let registered = self.registrations(0);
        let fields = registered.iter().map(String::as_str);
        let set: Vec<_> = ["HSET", REGISTRATIONS].into_iter().chain(fields).collect();
        self.primaries[1].command(&set).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_come_takes_nothing_from_the_former_primary() {
    let pair = Pair::default();
    let (client, newcomer) = (pair.client().await, pair.newcomer().await);
    let guard = client.lock("held").lock().await.unwrap();
    // A server that has not run for a session lets nobody in yet.
    sleep(ms(LEASE + 1000)).await;
    pair.promote();
    pair.loses.store(true, SeqCst);
    pair.lead_to(1);
    let x = timed("let in", newcomer.lock("x").lock()).await.0.unwrap();
    assert!(!pair.loses.load(SeqCst), "the client has come");
    let there = client
        .lock("x")
        .try_lock(ms(2 * LEASE), Lease::Renewed)
        .await;
    assert!(there.is_err(), "two have the lock");
    assert_eq!(x.state(), HoldState::Held);
    assert_eq!(guard.state(), HoldState::Lost, "no session was renewed");

    pair.lead_to(1);
    let y = timed("another", client.lock("y").lock()).await.0.unwrap();
    eventually("held", async || y.state() == HoldState::Held).await;
}
