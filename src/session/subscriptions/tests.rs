//! A waker may end its waiter at once, whose listener then leaves the channel whose message is being handed out.

use tokio::runtime::Handle;

use super::*;
use crate::EmbeddedRedis;
use crate::lease::Lease;
use crate::session::request::Options;
use crate::session::wait::Wait;
use crate::transport::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};
use crate::transport::{Lane, TransportEvents};

struct Deaf;

impl TransportEvents for Deaf {
    fn message(&self, _: &str, _: &[u8]) {}
    fn missed(&self, _: Missed<'_>) {}
    fn restored(&self, _: Lane) {}
    fn primary_changed(&self, _: &dyn Fn(&str) -> bool) {}
}

#[tokio::test]
async fn a_waiter_that_leaves_while_it_is_woken_does_not_wait_for_itself() {
    for tell in
        [|all: &Subscriptions| all.missed(Missed::All), |all: &Subscriptions| all.message("c")]
    {
        let subscriptions = Subscriptions::new(Arc::default());
        let link = EmbeddedRedis::new().connect(Arc::new(Deaf), &Handle::current());
        let lease = Duration::from_secs(1);
        let terms = Options::new(Wait::Forever, Lease::Renewed).terms(lease).expect("good terms");
        let waiter = Waiter::new(terms, lease, Arc::default());
        let (listening, transport) = (subscriptions.clone(), Transport::Embedded(link));
        poll_and_drop_when_woken(async move {
            let _listener = listening.listen(&transport, &Arc::from("c"), &Arc::from("k"), &waiter);
            waiter.changed().await;
        });
        assert_eq!(subscriptions.listening(), 1);
        let telling = subscriptions.clone();
        does_not_hang("it is told", move || tell(&telling));
        assert_eq!(subscriptions.listening(), 0);
    }
}
