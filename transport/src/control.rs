//! A connection for single commands, to a server that gets no calls: a sentinel, or a node of a
//! cluster that is asked for the layout.

use std::sync::Arc;

use super::abilities::Known;
use super::connection::driver::drive;
use super::connection::{Carries, Connection};
use super::handshake::not_connected;
use super::protocol::Protocol;
use super::remote::{OpenError, Opened, Remote};
use super::request::CallOutcome;
use super::setup::Setup;
use super::stream::SHARED;
use super::subscriptions::SubscriptionRegistry;
use super::task::AbortOnDrop;
use crate::call_error::{CallError, Fault};
use crate::events::TransportEvents;
use crate::pubsub::PubSub;
use crate::timer::{Duration, timeout};

pub(super) struct ControlConnection {
    connection: Arc<Connection>,
    registry: Arc<SubscriptionRegistry>,
    /// Ends the connection when this is dropped.
    _driver: AbortOnDrop<Fault>,
}

impl ControlConnection {
    /// Connects on the library's own runtime, within the timeout for connecting.
    pub(super) async fn open(
        remote: &Arc<Remote>,
        setup: &Setup,
        events: Arc<dyn TransportEvents>,
    ) -> Result<Self, CallError> {
        let own = &setup.runtimes.own;
        // The login is not renewed. If the server closes the connection for that, another one is
        // made.
        let limit = setup.timing.connect;
        let opened = remote.open_on(own, own, None, SHARED, limit).await;
        let Opened {
            reader,
            writer,
            greeting,
        } = opened.map_err(OpenError::into_call)?;
        let registry = Arc::<SubscriptionRegistry>::default();
        let (protocol, carries) = (greeting.protocol, Carries::Subscriptions);
        let connection = Connection::new(writer, protocol, remote.known(), carries);
        let connection = Arc::new(connection);
        registry.connected(&connection, 0);
        let driver = drive(
            connection.clone(),
            reader,
            greeting.inbox,
            registry.clone(),
            events,
        );
        let ended = (connection.clone(), registry.clone());
        let driver = own.spawn(async move {
            let fault = driver.await;
            // Callers that wait for a reply learn of the end at once.
            ended.0.end(&fault, &ended.1);
            fault
        });
        Ok(ControlConnection {
            connection,
            registry,
            _driver: AbortOnDrop(driver),
        })
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.connection.protocol
    }

    /// What is known about the server.
    pub(super) fn known(&self) -> &Known {
        &self.connection.known
    }

    pub(super) async fn command(&self, words: &[&[u8]], limit: Duration) -> CallOutcome {
        let outcome = timeout(limit, self.connection.ask(words)).await;
        outcome.unwrap_or_else(|_| {
            Err(CallError::Unknown(Fault(format!(
                "no answer within {} ms",
                limit.as_millis()
            ))))
        })
    }

    pub(super) async fn subscribe(&self, channel: &str, limit: Duration) -> Result<(), CallError> {
        let confirmed = self
            .registry
            .subscribe(&Arc::from(channel), PubSub::Plain)?;
        match timeout(limit, confirmed).await {
            Ok(Ok(outcome)) => outcome,
            _ => Err(not_connected("the subscription was not confirmed in time")),
        }
    }
}

/// Ignores all events: nothing is subscribed on the connection.
pub(super) struct Deaf;

impl TransportEvents for Deaf {}
