//! Futures that are polled late.

use std::pin::pin;
use std::time::Duration;

use leasehold::Error;

use crate::bed::{Outside, alone, assert_protocol, connect, until};
use crate::support::server::Server;

const LIMIT: Duration = Duration::from_secs(20);

/// A guard is unlocked and the future is polled when it was passed over: what does it say?
async fn unlocked_late(spoil: &[&str]) -> Result<(), Error> {
    let server = Server::start();
    let client = connect(&server.url()).await;
    let guard = client.lock("n").lock().await.expect("free");
    Outside::of(&server).command(spoil);
    let mut unlock = pin!(guard.unlock());
    until("it is passed over", LIMIT, || client.stats().passed_over == 1).await;
    unlock.as_mut().await
}

/// It was `Ok`.
#[test]
fn an_unlock_that_is_polled_late_tells_that_the_hold_was_gone() {
    alone(LIMIT, async {
        let outcome = unlocked_late(&["DEL", "n"]).await;
        assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
        let outcome = unlocked_late(&["PING"]).await;
        assert!(outcome.is_ok(), "{outcome:?}");
    });
}

/// It was `Ok`, and the key stood.
#[test]
fn an_unlock_that_is_polled_late_tells_that_it_was_refused() {
    alone(LIMIT, async {
        let outcome = unlocked_late(&["ACL", "SETUSER", "default", "-hdel"]).await;
        assert_protocol("unlock", outcome, "can't run this command");
    });
}

/// It was `Ok`, and the key stood.
#[test]
fn a_shutdown_tells_of_a_release_that_was_refused() {
    alone(LIMIT, async {
        for drop_it_first in [false, true] {
            let server = Server::start();
            let client = connect(&server.url()).await;
            let mut guard = Some(client.lock("n").lock().await.expect("free"));
            let mut outside = Outside::of(&server);
            outside.command(&["ACL", "SETUSER", "default", "-hdel"]);
            if drop_it_first {
                guard = None;
                until("refused", LIMIT, || client.stats().releases_failed == 1).await;
            }
            let outcome = client.shutdown(LIMIT).await;
            assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
            assert!(outside.exists("n"));
            drop(guard);
        }
    });
}
