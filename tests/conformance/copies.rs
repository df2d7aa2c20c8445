//! Grants and renewals that wait for copies while their connection is replaced. A server can wait
//! only for writes of the same connection: on another one it replies immediately.

use std::sync::{Arc, Mutex};

use leasehold::settings::Durability;
use leasehold::{Client, EmbeddedRedis, Error, Lock};
use leasehold_testbed::{Gate, eventually, ms, take_and_release, until_certain};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::memory_server::{connect, encoded, to_the_connection};

/// A server in memory: the engine and one replica that has everything.
#[derive(Clone, Default)]
struct Replicated {
    engine: EmbeddedRedis,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    waits: Arc<Mutex<u64>>,
    /// The next script freezes this gate before its reply is sent.
    freezes: Arc<Mutex<Option<Gate>>>,
}

impl Replicated {
    async fn client(&self, gate: Gate) -> Client {
        let server = self.clone();
        let dial = move |_: &str| {
            let answering = server.clone();
            let (client, task) = connect(move |words| answering.answer(words));
            server.connections.lock().unwrap().push(task);
            Ok(client)
        };
        let builder = Client::builder("redis://replicated")
            .dial_by(dial)
            .harness(Arc::new(gate));
        let builder = builder.durability(Durability::replicas(1)).lease(ms(3000));
        builder.connect().await.unwrap()
    }

    /// Ends all connections.
    fn drop_connections(&self) {
        self.connections
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|task| task.abort());
    }

    fn waits(&self) -> u64 {
        *self.waits.lock().unwrap()
    }

    fn answer(&self, words: &[String]) -> String {
        if words[0] == "WAIT" {
            *self.waits.lock().unwrap() += 1;
            return ":1\r\n".into();
        }
        let run = || encoded(self.engine.command(words));
        let reply = to_the_connection(words).unwrap_or_else(run);
        let is_run = words[0].starts_with("EVAL") && !reply.starts_with("-NOSCRIPT");
        let gate = is_run
            .then(|| self.freezes.lock().unwrap().take())
            .flatten();
        gate.iter().for_each(Gate::freeze);
        reply
    }
}

/// The reply has arrived, and the connection is replaced before anybody reads it.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_connection_was_replaced_before_the_wait_has_no_copies() {
    let locks: [fn(&Client) -> Lock; 2] =
        [|client| client.lock("a"), |client| client.fair_lock("a")];
    for lock in locks {
        for replaced in [false, true] {
            let server = Replicated::default();
            let client = server.client(Gate::default()).await;
            let lock = lock(&client);
            // Load the script first: a caller that is polled again would have to send it.
            take_and_release(&lock).await;
            let waits = server.waits();
            let mut taking = Box::pin(lock.lock());
            assert!(futures::poll!(taking.as_mut()).is_pending());
            sleep(ms(1)).await;
            assert!(
                server.engine.dump().contains_key(b"a".as_slice()),
                "it was granted"
            );
            if replaced {
                server.drop_connections();
                let is_replaced = || server.connections.lock().unwrap().len() >= 3;
                eventually("reconnected", async || {
                    is_replaced() && client.ping().await.is_ok()
                })
                .await;
            }
            let taken = taking.await;
            assert_eq!(
                server.waits(),
                waits + 1,
                "and the other one is asked to wait"
            );
            if replaced {
                let refused = taken.expect_err("nobody knows of a copy");
                let has_none = matches!(
                    refused,
                    Error::NotDurable {
                        acknowledged: 0,
                        ..
                    }
                );
                assert!(has_none, "{refused:?}");
                eventually("given back", async || server.engine.dump().is_empty()).await;
            } else {
                taken.expect("copied").unlock().await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_connection_was_replaced_before_the_wait_has_no_copies() {
    for replaced in [false, true] {
        let (server, gate) = (Replicated::default(), Gate::default());
        let client = server.client(gate.clone()).await;
        let guard = client.lock("a").lock().await.expect("free, and copied");
        // From its renewal on, the client sees nothing more.
        eventually("renewed", async || client.stats().renewed == 1).await;
        let waits = server.waits();
        *server.freezes.lock().unwrap() = Some(gate.clone());
        eventually("renewed again", async || gate.is_frozen()).await;
        // The reply arrives.
        sleep(ms(1)).await;
        if replaced {
            server.drop_connections();
        }
        sleep(ms(30)).await;
        gate.thaw();
        sleep(ms(1)).await;
        // The other one is asked to wait, and again by the verification after the reconnect.
        assert_eq!(server.waits(), waits + 1 + u64::from(replaced));
        let failed = client.stats().renewals_failed;
        assert_eq!(
            failed,
            u64::from(replaced),
            "only the verification has copies"
        );
        until_certain(&guard).await;
    }
}
