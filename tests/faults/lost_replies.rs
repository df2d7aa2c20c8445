//! Lost replies: nothing is held twice, nothing is held forever, and no hold of another owner ends.
//!
//! The client under test uses a proxy that swallows, delays and cuts. Redis is watched and
//! contended for directly.

use std::time::{Duration, Instant};

use leasehold::{Client, ClientBuilder, Error, HoldState, LossReason};
use leasehold_testbed::{Borrowed, Line, Outside, eventually_within, lost, ms, release, within};

use crate::testbed::{LATE, SILENCE, at_rest, beside, brisk, connect, hold, note};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const LEASE: Duration = ms(3_000);
/// The time from the end of a fault until its effects are gone: a reconnect and a repetition. The
/// rest is for a machine that stalls, and ends before a lease does.
pub(crate) const HEALED: Duration = ms(2_700);
/// A free lock is taken before a lease could have ended.
pub(crate) const AT_ONCE: Duration = ms(2_000);

pub(crate) struct Testbed {
    /// Lent as long as this value lives.
    _server: Borrowed,
    pub(crate) proxy: Line,
    /// Through the proxy.
    pub(crate) client: Client,
    /// Directly.
    pub(crate) rival: Client,
    pub(crate) outside: Outside,
}

impl Testbed {
    pub(crate) async fn new() -> Self {
        Self::with(|client| client).await
    }

    /// With other settings for the client under test.
    pub(crate) async fn with(settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let server = Borrowed::take();
        let proxy = server.line();
        let builder = settings(brisk(proxy.url()).lease(LEASE));
        let client = builder.connect().await.expect("connects");
        let rival = connect(&server.url()).await;
        let outside = Outside::of(&server);
        // Load all scripts on the server of the name, so that a call is one round trip.
        for client in [&client, &rival] {
            let lock = client.lock("{n}:warm");
            let outer = lock.lock().await.expect("free");
            release(outer.reenter().await).await;
            outer.unlock().await.expect("held");
        }
        Testbed {
            _server: server,
            proxy,
            client,
            rival,
            outside,
        }
    }

    /// The rival gets the lock within `limit`, keeps it while the other client settles, and is not
    /// disturbed.
    pub(crate) async fn rival_takes(&mut self, name: &str, limit: Duration) {
        let lock = self.rival.lock(name);
        let guard = within(limit, "the rival's turn", lock.lock())
            .await
            .expect("free");
        let owner = guard.owner().to_owned();
        let end = Instant::now() + ms(600);
        eventually_within(LIMIT, "repetitions pass by", async || {
            assert_eq!(self.outside.holds(name), [(owner.clone(), 1)]);
            Instant::now() > end
        })
        .await;
        guard.unlock().await.expect("nobody else released it");
    }
}

#[test]
fn renewals_without_replies_make_a_hold_uncertain_then_lost_and_then_free() {
    for applied in [true, false] {
        beside(LIMIT, async {
            // Neither a call nor a connection times out before the lease ends.
            let mut testbed =
                Testbed::with(|client| client.command_timeout(SILENCE).connect_timeout(SILENCE))
                    .await;
            let guard = hold(&testbed.client, "n").await;
            if applied {
                testbed.proxy.swallow_replies();
            } else {
                testbed.proxy.half_open();
            }
            let cut = Instant::now();
            eventually_within(LEASE, "uncertain", async || {
                guard.state() == HoldState::Uncertain
            })
            .await;
            guard.check().expect("nobody else can have it yet");
            assert!(testbed.outside.exists("n"));
            let lost = tokio::spawn(lost(&guard));
            let reason = within(LIMIT, "lost", lost).await.expect("no panic");
            let after = cut.elapsed();
            assert_eq!(reason, LossReason::Expired);
            // Before a renewal that was due then could have timed out.
            assert!(after < LEASE + LATE, "{after:?}");
            // The guard knows first, by a margin of 2.5 ms: if we look in time. Where calls get
            // through, the client releases what is lost, and may be quicker than this look.
            let there = testbed.outside.exists("n") || applied;
            let late = guard.deadline().elapsed();
            assert!(
                there || late > ms(2),
                "redis ended it first, {late:?} after the deadline"
            );
            // Never longer than another lease, whatever happened to the renewals.
            let started = Instant::now();
            eventually_within(LEASE + HEALED, "free", async || {
                !testbed.outside.exists("n")
            })
            .await;
            note(&format!(
                "applied {applied}: lost {after:?}, free {:?} later",
                started.elapsed()
            ));
            testbed.proxy.pass();
            testbed.rival_takes("n", AT_ONCE).await;
            assert_eq!(guard.state(), HoldState::Lost, "for ever");
            let outcome = guard.unlock().await;
            let expired = Error::Lost {
                name: "n".into(),
                reason: LossReason::Expired,
            };
            assert_eq!(
                format!("{outcome:?}"),
                format!("{:?}", Err::<(), _>(expired))
            );
            at_rest(&testbed.client, LEASE + HEALED).await;
        });
    }
}
