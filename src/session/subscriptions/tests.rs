//! A waker may end its waiter at once, whose listener then leaves the channel whose message is
//! being delivered.

use super::*;
use crate::EmbeddedRedis;
use crate::lease::Lease;
use crate::session::poll_watch::Wait;
use crate::session::request::Options;
use crate::session::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};

#[tokio::test]
async fn a_waiter_that_leaves_while_it_is_woken_does_not_wait_for_itself() {
    for tell in [
        |all: &Subscriptions| all.on_missed(Missed::All),
        |all: &Subscriptions| all.on_message("c", b"0"),
    ] {
        let subscriptions = Subscriptions::new(Arc::default());
        let client = EmbeddedRedis::new().client();
        let lease = Duration::from_secs(1);
        let terms = Options::new(Wait::Forever, Lease::Renewed)
            .terms(lease)
            .expect("good terms");
        let waiter = Waiter::new(terms, Instant::now());
        let (listening, session) = (subscriptions.clone(), client.session().clone());
        poll_and_drop_when_woken(async move {
            let _listener = listening.listen(
                &session.calls.transport,
                Source {
                    channel: Arc::from("c"),
                    own_field: None,
                    by: HeardBy::Owner,
                },
                &Arc::from("k"),
                &waiter,
            );
            waiter.changed().await;
        });
        assert_eq!(subscriptions.listening(), 1);
        let telling = subscriptions.clone();
        does_not_hang("woken", move || tell(&telling));
        assert_eq!(subscriptions.listening(), 0);
    }
}
