//! Grants in flight while the primary changes.

use std::time::Duration;

use crate::test_util::{Delay, Faults};
use crate::{EmbeddedRedis, HoldState, Lease};

const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// Otherwise nobody would notice before the next renewal, and with a fixed lease nobody at all.
#[tokio::test(start_paused = true)]
async fn a_grant_that_was_asked_for_before_the_primary_changed_is_verified() {
    for lease in [Lease::Renewed, Lease::Fixed(Duration::from_secs(60))] {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        client
            .lock("warm")
            .lock()
            .await
            .expect("free")
            .unlock()
            .await
            .expect("held");
        let slow = Faults {
            reply: Delay::fixed(ON_ITS_WAY),
            ..Faults::default()
        };
        redis
            .links()
            .iter()
            .for_each(|link| link.set_faults(slow.clone(), 1));
        let lock = client.lock("n");
        let change = async {
            tokio::time::sleep(ON_ITS_WAY / 2).await;
            client.session().holds.watchdog.must_verify(&|_| true);
        };
        let (granted, ()) = tokio::join!(lock.try_lock(ON_ITS_WAY * 9, lease), change);
        let guard = granted.expect("free");
        assert_eq!(guard.state(), HoldState::Uncertain);
        tokio::time::sleep(ON_ITS_WAY * 3).await;
        assert_eq!(
            (guard.state(), client.stats().renewed),
            (HoldState::Held, 1)
        );
        let later = client.lock("later").lock().await.expect("free");
        assert_eq!(later.state(), HoldState::Held);
    }
}
