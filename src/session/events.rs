//! Passes the transport's events to the parts of the session that need them.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::calls::outages::Outages;
use super::calls::reply_times::ReplyTimes;
use super::holds::forced::ClientChannel;
use super::holds::watchdog::Watchdog;
use super::subscriptions::Subscriptions;
use crate::protocol::forced::{self, ToClient};
use crate::stats::Counters;
use crate::telemetry::{self, Telemetry};
use crate::transport::{Lane, Missed, TransportEvents};

/// The parts of a session that handle the transport's events. They are made before the session and
/// the transport.
#[derive(Clone)]
pub(crate) struct Reported {
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) reply_times: Arc<ReplyTimes>,
    pub(super) outages: Arc<Outages>,
    pub(super) client_channel: Arc<ClientChannel>,
    telemetry: Telemetry,
}

impl Reported {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        let (subscriptions, watchdog) = (Subscriptions::new(counters), Arc::new(Watchdog::new()));
        Reported {
            subscriptions,
            watchdog,
            reply_times: Arc::default(),
            outages: Arc::default(),
            client_channel: Arc::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl TransportEvents for Reported {
    fn message(&self, channel: &str, payload: &[u8]) {
        if !forced::is_of_a_client(channel) {
            return self.subscriptions.message(channel, payload);
        }
        match forced::to_client(payload) {
            Some(ToClient::Given(channel, given)) => self.subscriptions.given(channel, &given),
            Some(ToClient::ForWaiter(channel, message)) => {
                self.subscriptions.message(channel, message.as_bytes());
            }
            Some(ToClient::Forced(key, release)) => {
                self.watchdog.ask_again(key, &Arc::new(release));
            }
            None => {}
        }
    }

    fn greeted(&self, after: Duration) {
        self.reply_times.came_after(after);
    }

    fn disconnected(&self, server: &dyn Display, why: &dyn Display) {
        self.subscriptions.servers_may_change();
        telemetry::connection_lost(server, why);
    }

    fn out_of_reach(&self, concerns: &dyn Fn(&str) -> bool) {
        drop(self.watchdog.doubts(concerns));
    }

    fn reconnected(&self, server: &dyn Display) {
        telemetry::reconnected(server);
    }

    fn missed(&self, what: Missed<'_>) {
        self.subscriptions.servers_may_change();
        self.subscriptions.missed(what);
    }

    fn refused(&self, channel: &str) {
        if forced::is_of_a_client(channel) {
            self.client_channel.is_refused();
        } else {
            self.subscriptions.refused(channel);
        }
    }

    fn restored(&self, lane: Lane, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.servers_may_change();
        self.outages.end();
        if lane == Lane::Background {
            self.watchdog.verify_at_once(concerns);
        }
    }

    fn primary_changed(&self, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.servers_may_change();
        self.telemetry.failed_over();
        self.watchdog.must_verify(concerns);
    }
}

#[cfg(all(test, feature = "test-util"))]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::{EmbeddedRedis, HoldState};

    /// One connection may reach the new primary before the loss of another one is noticed.
    #[tokio::test(start_paused = true)]
    async fn a_hold_is_uncertain_until_a_new_primary_has_confirmed_it() {
        let client = EmbeddedRedis::new().client();
        let guard = client.lock("n").lock().await.expect("free");
        let session = client.session();
        let reported = Reported {
            watchdog: session.holds.watchdog.clone(),
            ..Reported::new(session.calls.counters.clone())
        };
        reported.primary_changed(&|key| key != "n");
        assert_eq!(guard.state(), HoldState::Held, "it concerns other keys");
        reported.primary_changed(&|key| key == "n");
        assert_eq!(guard.state(), HoldState::Uncertain);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(
            (guard.state(), client.stats().renewed),
            (HoldState::Held, 1)
        );
    }
}
