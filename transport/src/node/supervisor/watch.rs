//! Detects that a connection must be given up.
//!
//! The supervisor is also the clock of all calls on the connection: it sleeps until the oldest of
//! them has timed out. So a call needs no timer, and times out even if the runtime of its
//! connection is blocked.

use std::future::pending;

use tokio::time::{Duration, Instant, sleep, timeout};

use super::{DrivenConnection, GiveUpReason, LASTING, PRIMARY_CONNECTION, Supervisor};
use crate::call_error::{CallError, Fault};
use crate::connection::Connection;
use crate::handshake::primary;
use crate::login::{Login, Validity};
use crate::node::Target;
use crate::node::generation::OTHER_TARGET;
use crate::stream::SHARED;
use crate::timer::why_silent;
use crate::timing::PING_AFTER;

/// How long a runtime may be blocked before its connections move to our own.
const STALL_MAX: Duration = Duration::from_secs(3);

/// How often the name of the server is resolved while the connection lives, apart from jitter. A
/// thread for blocking work lives ten seconds, so none has to stay for this.
const RESOLVE: Duration = Duration::from_secs(15);

impl Supervisor {
    /// Waits until the connection must be given up, and returns why.
    pub(super) async fn watch(&self, driven: &mut DrivenConnection) -> GiveUpReason {
        let generation = driven.generation;
        let connection = &*driven.connection;
        let asks_for_role = driven.primary_only && !connection.takes_subscriptions_only();
        let mut target = self.shared.target.subscribe();
        let other_target = target.wait_for(|target| target.generation != generation);
        tokio::select! {
            biased;
            // First, because the driver knows why the stream has ended. The others only notice the
            // consequences.
            ended = &mut driven.driver.0 => match ended {
                Ok(fault) => GiveUpReason::Lost(fault),
                Err(error) if error.is_cancelled() => GiveUpReason::NoRuntime,
                Err(_) => GiveUpReason::Lost(Fault("the connection's task failed".into())),
            },
            end = self.probe(connection) => end,
            end = self.expire_calls(connection) => end,
            end = self.keep_login(connection, &driven.login) => end,
            end = refused(connection) => end,
            _ = other_target => GiveUpReason::Lost(Fault(OTHER_TARGET.into())),
            end = self.follow_name(), if self.role == PRIMARY_CONNECTION => end,
            end = self.ask_for_role(connection), if asks_for_role => end,
        }
    }

    /// Polls ROLE. A demoted server may keep its connections, and scripts that only read do not
    /// fail on it.
    async fn ask_for_role(&self, connection: &Connection) -> GiveUpReason {
        let limit = self.shared.setup.timing.command;
        loop {
            sleep(2 * self.shared.setup.timing.probe().0).await;
            match timeout(limit, connection.ask(&[b"ROLE"])).await {
                Ok(Ok(reply)) => {
                    if let Err(error) = primary(&reply) {
                        return GiveUpReason::Refused(error.into_fault());
                    }
                }
                // The user may not ask. Writes show a demotion, too.
                Ok(Err(CallError::Refused(_))) => return pending().await,
                // Silence and the end of the connection are detected elsewhere.
                _ => {}
            }
        }
    }

    /// Ends when the name of the server leads to another server, even if the former one still
    /// answers: nobody stopped it, or it does not know yet that it was replaced. Clients that
    /// connect now would find the other server.
    ///
    /// Only a server with another run id counts. Behind a balancer the addresses of a name change
    /// all the time.
    async fn follow_name(&self) -> GiveUpReason {
        let own = &self.shared.setup.runtimes.own;
        loop {
            let Target { remote, server, .. } = self.shared.target.borrow().clone();
            let (Ok(remote), Some(known)) = (remote, server) else {
                return pending().await;
            };
            let Some(peer) = known.peer else {
                return pending().await;
            };
            sleep(RESOLVE.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
            if !remote.dial.has_left(peer, own).await {
                continue;
            }
            let limit = self.shared.setup.timing.connect;
            let Ok(met) = remote.open_on(own, own, None, SHARED, limit).await else {
                continue;
            };
            if met.greeting.server.has_other_run_id(&known) {
                return GiveUpReason::Refused(Fault("the name leads to another server now".into()));
            }
        }
    }

    /// Times out calls. This future never completes.
    ///
    /// If the connection's runtime was blocked, replies may have arrived that its driver has not
    /// read yet. The runtime gets the same time again to read them. So a caller on another runtime
    /// may wait twice as long.
    async fn expire_calls(&self, connection: &Connection) -> GiveUpReason {
        let limit = self.shared.setup.timing.command;
        loop {
            let next = connection.until_expiry(limit);
            if !next.is_zero() {
                sleep(next).await;
                continue;
            }
            let why = why_silent(self.runtime(), limit).await;
            connection.expire(limit, why, &self.shared.subscriptions);
        }
    }

    /// Renews the login before its credentials expire. Ends when the server refuses the login for
    /// good.
    async fn keep_login(
        &self,
        connection: &Connection,
        (login, validity): &(Login, Validity),
    ) -> GiveUpReason {
        let limit = self.shared.setup.timing.connect;
        GiveUpReason::Lost(
            login
                .keep(
                    connection,
                    *validity,
                    &self.shared.setup.runtimes.own,
                    limit,
                )
                .await,
        )
    }

    /// Sends a PING when the server is silent. Ends if the server stays silent.
    async fn probe(&self, connection: &Connection) -> GiveUpReason {
        let (look, looks) = self.shared.setup.timing.probe();
        let (mut read, mut silent, mut stalled) = (connection.received(), 0, None);
        loop {
            sleep(look).await;
            let before = std::mem::replace(&mut read, connection.received());
            if read != before {
                (silent, stalled) = (0, None);
                continue;
            }
            if silent + 1 == PING_AFTER && connection.ping().is_err() {
                continue;
            }
            if silent >= PING_AFTER && !self.runtime_responds().await {
                let since = *stalled.get_or_insert_with(Instant::now);
                if since.elapsed() > STALL_MAX {
                    return GiveUpReason::NoRuntime;
                }
                continue;
            }
            silent += 1;
            if silent >= PING_AFTER + looks {
                return GiveUpReason::Lost(Fault("no answer to PING".into()));
            }
        }
    }
}

/// Ends when the server answers READONLY (it was demoted) or NOAUTH (it forgot the login). A new
/// connection logs in again, and may reach the new primary behind the same host name or proxy.
async fn refused(connection: &Connection) -> GiveUpReason {
    // Wait, so that the client does not reconnect for each call to a server that keeps refusing.
    sleep(LASTING).await;
    GiveUpReason::Refused(connection.refused().await)
}
