//! A waker may end its waiter at once, whose listener then leaves the channel that is being told.

use tokio::runtime::Handle;

use super::*;
use crate::EmbeddedRedis;
use crate::session::hold::Terms;
use crate::transport::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};

struct Deaf;

impl TransportEvents for Deaf {
    fn message(&self, _: &str, _: &[u8]) {}
    fn missed(&self) {}
    fn restored(&self, _: Lane) {}
}

#[tokio::test]
async fn a_waiter_that_leaves_while_it_is_woken_does_not_wait_for_itself() {
    for tell in [Wakes::missed, |wakes: &Wakes| wakes.message("c", b"0")] {
        let wakes = Wakes::new(Arc::default());
        let link = EmbeddedRedis::new().connect(Arc::new(Deaf), &Handle::current());
        let (lease, drift) = (Duration::from_secs(1), Duration::ZERO);
        let terms = Terms { lease, renewed: true, max_hold: None, drift };
        let waiter = Waiter::new(terms, Arc::default());
        let (listening, transport) = (wakes.clone(), Transport::Embedded(link));
        poll_and_drop_when_woken(async move {
            let _listener = listening.listen(&transport, &Arc::from("c"), &waiter);
            waiter.changed().await;
        });
        assert_eq!(wakes.listening(), 1);
        let telling = wakes.clone();
        does_not_hang("it is told", move || tell(&telling));
        assert_eq!(wakes.listening(), 0);
    }
}
