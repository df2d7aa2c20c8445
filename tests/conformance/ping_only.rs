//! A proxy that answers PING itself, while the server behind it is dead. Only a server in memory
//! has the switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use leasehold::{Client, EmbeddedRedis, Ended, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{eventually, ms, release, take_and_release};
use tokio::time::Instant;

use crate::memory_server::{bulk, connect, encoded, to_the_connection};

#[derive(Clone, Default)]
struct Proxy {
    engine: EmbeddedRedis,
    is_dead: Arc<AtomicBool>,
    /// Whether PING is answered with its argument.
    echoes: bool,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    async fn client(&self) -> Client {
        let proxy = self.clone();
        let dial = move |_: &str| {
            proxy.connections.fetch_add(1, Ordering::SeqCst);
            let answering = proxy.clone();
            Ok(connect(move |words| answering.answer(words)).0)
        };
        let builder = Client::builder("redis://proxy").dial_by(dial);
        builder.connect().await.unwrap()
    }

    fn dies(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    fn comes_back(&self) {
        self.is_dead.store(false, Ordering::SeqCst);
    }

    fn answer(&self, words: &[String]) -> String {
        if let Some(answer) = to_the_connection(words) {
            return answer;
        }
        match words {
            [ping, number] if ping == "PING" && self.echoes => bulk(number),
            [ping, ..] if ping == "PING" => "+PONG\r\n".into(),
            _ if self.is_dead.load(Ordering::SeqCst) => String::new(),
            _ => encoded(self.engine.command(words)),
        }
    }
}

/// The connections look alive, so nothing but the calls themselves shows the outage.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_ping_hides_no_dead_server() {
    for echoes in [true, false] {
        let proxy = Proxy {
            echoes,
            ..Proxy::default()
        };
        let client = proxy.client().await;
        take_and_release(&client.lock("x")).await;
        let lease = Lease::RenewedFor(ms(9000));
        let guard = client.lock("held").try_lock(ms(0), lease).await.unwrap();
        let rival = proxy.engine.client();
        let before = proxy.connections.load(Ordering::SeqCst);
        proxy.dies();

        let start = Instant::now();
        for _ in 0..3 {
            let asked = Instant::now();
            let refused = client.lock("x").try_lock_now(Lease::Renewed).await;
            let refused = refused.map(drop).unwrap_err();
            let is_outage = matches!(refused, Error::Unavailable { .. } | Error::Unknown { .. });
            assert!(is_outage, "{refused:?}");
            assert!(asked.elapsed() <= ms(1100), "{:?}", asked.elapsed());
        }
        eventually("the connections are replaced", async || {
            proxy.connections.load(Ordering::SeqCst) > before
        })
        .await;
        eventually("uncertain", async || guard.state() == HoldState::Uncertain).await;
        assert_eq!(guard.ended().await, Ended::Lost(LossReason::Expired));
        assert!(start.elapsed() <= ms(9000), "{:?}", start.elapsed());
        // Not before the holder knows.
        let lock = rival.lock("held");
        release(lock.try_lock(ms(1000), Lease::Renewed).await).await;

        proxy.comes_back();
        eventually("it works again", async || client.ping().await.is_ok()).await;
        take_and_release(&client.lock("x")).await;
    }
}
