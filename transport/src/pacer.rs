//! The pauses between repeated attempts to connect to a server, or to ask a deployment for its
//! layout.
//!
//! | event | the next pause |
//! | --- | --- |
//! | the server is known to be available | none |
//! | there is news; the connection lasted | the first |
//! | a refusal, or the same answer as before | twice the last one, up to `most` |
//! | the same, or a timeout, soon after there was news | the same, but at most [`EAGER`] |
//! | no server of a deployment answers | the same, up to another limit |
//! | a timeout | twice the last one, and at least as long as the attempt took, up to [`SLOWEST`] |
//!
//! A refusal costs a server nothing. An attempt that timed out may have cost it as much as a
//! successful one (a TLS handshake that nobody waits for any more), so many clients that retry
//! quickly would keep it from serving anybody. After timeouts, a pause is about as long as the
//! outage so far.
//!
//! At the beginning all clients try often, because those with holds must verify them before the
//! grace of the others ends (`grace.rs`).

use tokio::time::{Duration, Instant, sleep};

/// The longest pause after timeouts. With jitter, pauses are between 10 and 30 s.
const SLOWEST: Duration = Duration::from_secs(20);

/// The longest pause at the beginning, so that with jitter there is an attempt every 200 ms.
const EAGER: Duration = Duration::from_millis(130);

#[derive(Debug)]
pub(super) struct Pacer {
    next: Duration,
    first: Duration,
    most: Duration,
    /// For how long pauses stay short after there was news.
    eager: Duration,
    news: Option<Instant>,
}

impl Pacer {
    /// The very first attempt needs no pause.
    pub(super) const fn new(first: Duration, most: Duration) -> Self {
        Pacer {
            next: Duration::ZERO,
            first,
            most,
            eager: Duration::ZERO,
            news: None,
        }
    }

    /// Keeps pauses short for so long after there was news.
    pub(super) const fn eager_for(mut self, span: Duration) -> Self {
        self.eager = span;
        self
    }

    /// The pause before the next attempt, with a jitter of half its length, because many clients
    /// wait for the same server.
    pub(super) fn pause(&self) -> Duration {
        self.next.mul_f64(0.5 + fastrand::f64())
    }

    pub(super) async fn rest(&self) {
        let pause = self.pause();
        // Even a timer for no time takes a millisecond.
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    /// The next attempt needs no pause, because the server is known to be available.
    pub(super) fn reset(&mut self) {
        self.next = Duration::ZERO;
    }

    pub(super) fn begin_anew(&mut self) {
        self.next = self.first;
        self.news = Some(Instant::now());
    }

    pub(super) fn nothing_new(&mut self) {
        self.slow_down(self.most);
    }

    /// The same with a limit of its own.
    pub(super) fn slow_down(&mut self, most: Duration) {
        self.next = (self.next * 2).clamp(self.first, most.min(self.longest()));
    }

    fn longest(&self) -> Duration {
        let is_eager = self.news.is_some_and(|news| news.elapsed() < self.eager);
        if is_eager { EAGER } else { SLOWEST }
    }

    pub(super) fn timed_out(&mut self, waited: Duration) {
        self.next = (self.next * 2).max(waited).min(self.longest());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(5);
    const MOST: Duration = Duration::from_secs(1);

    fn pauses(pacer: &mut Pacer, count: usize, mut outcome: impl FnMut(&mut Pacer)) -> Vec<u128> {
        let mut all = Vec::new();
        for _ in 0..count {
            outcome(pacer);
            all.push(pacer.next.as_millis());
            let spread = pacer.next / 2..=pacer.next * 3 / 2;
            assert!(spread.contains(&pacer.pause()), "{spread:?}");
        }
        all
    }

    #[test]
    fn pauses_stay_short_after_refusals_and_grow_after_timeouts() {
        let mut pacer = Pacer::new(FIRST, MOST);
        assert_eq!(pacer.pause(), Duration::ZERO, "nothing was tried yet");
        let refused = pauses(&mut pacer, 10, Pacer::nothing_new);
        assert_eq!(refused, [5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        let silent = pauses(&mut pacer, 6, |pacer| pacer.timed_out(MOST));
        assert_eq!(silent, [2_000, 4_000, 8_000, 16_000, 20_000, 20_000]);
        assert_eq!(
            pauses(&mut pacer, 1, Pacer::nothing_new),
            [1_000],
            "it refuses: it is there"
        );
        assert_eq!(pauses(&mut pacer, 2, Pacer::begin_anew), [5, 5]);
        assert_eq!(
            pauses(&mut pacer, 2, |pacer| pacer.timed_out(5 * MOST)),
            [5_000, 10_000]
        );
    }
}
