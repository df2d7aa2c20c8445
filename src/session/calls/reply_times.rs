//! How long a reply may take, learned from those that came.
//!
//! When a wait ends while a call is on its way, its reply still decides: the lock is had, or it is
//! not. How long to wait for it is the retransmission time-out of TCP (RFC 6298): the smoothed round
//! trip and four times its variation. From a server, the first reply is that of the handshake.
//!
//! A reply that does not come says nothing of the line: the request may be lost. A line that became slow is learned
//! from the replies that come late, those to the undos of lost calls among them.

use std::time::Duration;

use crate::sync::Mutex;

/// A reply may be so much later than usual, however even the times were so far.
const LEAST: Duration = Duration::from_millis(50);
/// As long as no reply was seen, and the most: a caller does not wait for an answer longer than that. A reply that
/// took longer counts as this: a server that stood still is no slow line.
const MOST: Duration = Duration::from_millis(500);

/// The times of one client's replies.
///
/// Locks: taken alone, for a few sums.
#[derive(Debug, Default)]
pub(crate) struct ReplyTimes(Mutex<Option<Estimate>>);

#[derive(Clone, Copy, Debug)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

impl ReplyTimes {
    /// A reply took so long.
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

    /// How long a reply may take beyond the wait before it counts as lost.
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
        assert_eq!(times.grace(), MOST, "nothing is known yet");
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

    /// A try that ends too early leaves an undo, whose reply takes as long as the reply that was not waited for.
    #[test]
    fn a_line_that_became_slow_is_known_by_its_first_late_reply() {
        for slow in [100, 200, 400] {
            let times = ReplyTimes::default();
            (0..100).for_each(|_| times.came_after(Duration::from_micros(100)));
            times.came_after(ms(slow));
            assert!(times.grace() > ms(slow), "{slow}: {:?}", times.grace());
        }
    }

    /// A server that stood still answers all at once.
    #[test]
    fn a_stall_is_forgotten_after_a_few_replies() {
        let times = ReplyTimes::default();
        (0..100).for_each(|_| times.came_after(ms(5000)));
        (0..30).for_each(|_| times.came_after(Duration::from_micros(100)));
        assert!(times.grace() < ms(100), "{:?}", times.grace());
    }
}

/// A client whose bytes go through memory, under paused time.
#[cfg(all(test, feature = "test-util"))]
mod on_a_line {
    use tokio::time::{Instant, sleep};

    use crate::test_util::{Delay, Direction, Faults, LinkControl};
    use crate::{Client, EmbeddedRedis, Error, Lease};

    use super::*;

    const WAIT: Duration = Duration::from_millis(300);

    async fn client(redis: &EmbeddedRedis) -> (Client, LinkControl) {
        let client = redis.builder().connect().await.expect("a client");
        let link = redis.links().pop().expect("its switches");
        // So that it agrees on the protocol, as with a server.
        link.cut();
        link.heal();
        sleep(WAIT).await;
        (client, link)
    }

    /// A try, and how long it took.
    async fn tried(client: &Client) -> (Result<(), Error>, Duration) {
        let start = Instant::now();
        let tried = client.lock("n").try_lock(WAIT, Lease::Renewed).await;
        (tried.map(drop), start.elapsed())
    }

    /// It was half a second, and after another reply a tenth, two and four tenths.
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
        // The server knows the scripts, and so answers at once.
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
        // What it may have taken is undone, and that is answered.
        sleep(Duration::from_secs(1)).await;
        let (taken, took) = tried(&client).await;
        assert!(taken.is_ok() && took > WAIT, "{taken:?}, {took:?}");
    }
}
