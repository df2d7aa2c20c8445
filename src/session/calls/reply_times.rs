//! How long a reply may take, learned from earlier replies.
//!
//! When a wait ends while a call is in flight, its reply still decides whether the lock was taken.
//! The client waits for that reply as long as TCP waits before it retransmits (RFC 6298): the
//! smoothed round trip plus four times its variation. The first sample from a server is the
//! handshake.
//!
//! A missing reply is no sample, because the request may have been lost. If a connection becomes
//! slow, the late replies show it, including those to the undos of calls that were given up.

use std::time::Duration;

use crate::sync::Mutex;

/// A reply may always be this much later than usual, even if earlier replies took equally long.
const LEAST: Duration = Duration::from_millis(50);
/// The grace before the first reply is seen, and its maximum: no caller waits longer for a reply. A
/// reply that took longer counts as this long, because a server that stalled once does not make the
/// connection slow.
const MOST: Duration = Duration::from_millis(500);

/// The reply times of one client.
///
/// The lock is held alone, and only for a few sums.
#[derive(Debug, Default)]
pub(crate) struct ReplyTimes(Mutex<Option<Estimate>>);

#[derive(Clone, Copy, Debug)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

impl ReplyTimes {
    /// Records the time that a reply took.
    pub(crate) fn came_after(&self, time: Duration) {
        let (mut estimate, time) = (self.0.lock(), time.min(MOST));
        let (smoothed, variation) = match *estimate {
            None => (time, time / 2),
            Some(Estimate {
                smoothed,
                variation,
            }) => (
                smoothed * 7 / 8 + time / 8,
                variation * 3 / 4 + smoothed.abs_diff(time) / 4,
            ),
        };
        *estimate = Some(Estimate {
            smoothed,
            variation,
        });
    }

    /// How long a reply may take after the end of the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        let usual = |of: Estimate| of.smoothed + LEAST.max(4 * of.variation);
        self.0.lock().map_or(MOST, usual).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    #[test]
    fn a_reply_has_as_long_as_replies_take() {
        let times = ReplyTimes::default();
        assert_eq!(times.grace(), MOST, "no reply was seen yet");
        times.came_after(ms(60));
        assert_eq!(times.grace(), ms(180));
        (0..50).for_each(|_| times.came_after(ms(60)));
        assert!(
            times.grace() >= ms(110) && times.grace() < ms(115),
            "{:?}",
            times.grace()
        );
        (0..100).for_each(|_| times.came_after(ms(1)));
        assert!(times.grace() < ms(53), "{:?}", times.grace());
        (0..10).for_each(|_| times.came_after(ms(5000)));
        assert_eq!(times.grace(), MOST, "a stall does not count for more");
    }

    /// A try that ends too early leaves an undo, whose reply takes as long as the one that was
    /// given up.
    #[test]
    fn a_line_that_became_slow_is_known_by_its_first_late_reply() {
        for slow in [100, 200, 400] {
            let times = ReplyTimes::default();
            (0..100).for_each(|_| times.came_after(Duration::from_micros(100)));
            times.came_after(ms(slow));
            assert!(times.grace() > ms(slow), "{slow}: {:?}", times.grace());
        }
    }

    /// After a stall, a server sends all pending replies at once.
    #[test]
    fn a_stall_is_forgotten_after_a_few_replies() {
        let times = ReplyTimes::default();
        (0..100).for_each(|_| times.came_after(ms(5000)));
        (0..30).for_each(|_| times.came_after(Duration::from_micros(100)));
        assert!(times.grace() < ms(100), "{:?}", times.grace());
    }
}

/// A client connected through memory, under paused time.
#[cfg(all(test, feature = "test-util"))]
mod on_a_line {
    use tokio::time::{Instant, sleep};

    use crate::test_util::{Delay, Direction, Faults, LinkControl};
    use crate::{Client, EmbeddedRedis, Error, Lease};

    use super::*;

    const WAIT: Duration = Duration::from_millis(300);

    async fn client(redis: &EmbeddedRedis) -> (Client, LinkControl) {
        let client = redis.builder().connect().await.expect("a client");
        let link = redis.links().pop().expect("a link");
        // Reconnect, so that the client runs the handshake, as it does with a server.
        link.cut();
        link.heal();
        sleep(WAIT).await;
        (client, link)
    }

    /// Tries to take the lock. Returns the result and how long it took.
    async fn tried(client: &Client) -> (Result<(), Error>, Duration) {
        let start = Instant::now();
        let tried = client.lock("n").try_lock(WAIT, Lease::Renewed).await;
        (tried.map(drop), start.elapsed())
    }

    /// While the grace doubled with each lost reply, four tries cost up to half a second each.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_lost_on_a_fast_line_costs_little_beyond_the_wait() {
        for replies_before in [0, 1] {
            let redis = EmbeddedRedis::new();
            let (client, link) = client(&redis).await;
            for _ in 0..replies_before {
                assert_eq!(tried(&client).await.0.ok(), Some(()));
            }
            sleep(WAIT).await;
            link.connections()
                .iter()
                .for_each(|one| one.half_open(Direction::Requests));
            for _ in 0..4 {
                let (lost, took) = tried(&client).await;
                assert!(lost.is_err_and(|error| error.may_be_held()));
                assert!(took <= WAIT + Duration::from_millis(100), "{took:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_became_slow_loses_one_reply() {
        let redis = EmbeddedRedis::new();
        let (client, link) = client(&redis).await;
        // The server knows the scripts now, and answers at once.
        assert_eq!(tried(&client).await.0.ok(), Some(()));
        sleep(WAIT).await;
        let slow = Delay::fixed(Duration::from_millis(200));
        let faults = Faults {
            request: slow,
            reply: slow,
            ..Faults::default()
        };
        link.set_faults(faults, 1);
        assert!(
            tried(&client)
                .await
                .0
                .is_err_and(|error| error.may_be_held())
        );
        // The undo of what may have been taken gets a reply.
        sleep(Duration::from_secs(1)).await;
        let (taken, took) = tried(&client).await;
        assert!(taken.is_ok() && took > WAIT, "{taken:?}, {took:?}");
    }
}
