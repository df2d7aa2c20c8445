//! Opens one connection of a node: dials, checks the server, and restores the channels.

use std::sync::Arc;

use tokio::time::{Duration, timeout};

use super::generation::{OTHER_TARGET, Settled};
use super::supervisor::{DrivenBy, DrivenConnection, Supervisor};
use super::{PAUSE_MAX, PAUSE_MIN, PRIMARY_CONNECTION, Target};
use crate::call_error::{CallError, Fault};
use crate::connection::{Carries, Connection, driver::drive};
use crate::dial::Dial;
use crate::handshake::{Greeting, not_connected};
use crate::lane::Role;
use crate::pacer::Pacer;
use crate::remote::{OpenError, Opened, Remote};
use crate::setup::IfUnreachable;
use crate::stream::SHARED;
use crate::task::AbortOnDrop;

impl Supervisor {
    /// The first connection. `None` if the server cannot be reached and that is not an error.
    pub(super) async fn open_first(
        &mut self,
        if_unreachable: IfUnreachable,
    ) -> Result<Option<DrivenConnection>, CallError> {
        let fault = match self.open().await {
            Ok(driven) => match self.fill_slot(driven) {
                Ok(driven) => return Ok(Some(driven)),
                Err(fault) => fault,
            },
            Err(CallError::NotApplied(fault)) if if_unreachable == IfUnreachable::RetryLater => {
                fault
            }
            Err(error) => return Err(error),
        };
        self.not_connected(&fault);
        Ok(None)
    }

    /// Opens a connection. Each attempt takes at most `timing.connect` after the look-up of the
    /// name.
    pub(super) async fn open(&mut self) -> Result<DrivenConnection, CallError> {
        let outcome = self.try_open().await;
        match &outcome {
            Err(OpenError::TimedOut(_)) => self.pacer.timed_out(self.shared.setup.timing.connect),
            _ => self.pacer.nothing_new(),
        }
        match outcome {
            Ok(driven) => Ok(driven),
            Err(OpenError::NoRuntime) => {
                self.driven_by = DrivenBy::OwnThread;
                Err(OpenError::NoRuntime.into_call())
            }
            Err(OpenError::TimedOut(error) | OpenError::Call(error)) => {
                if !self.runtime_responds().await {
                    self.driven_by = DrivenBy::OwnThread;
                    self.pacer.begin_anew();
                }
                Err(error)
            }
        }
    }

    /// Opens a stream to the server of the node. Returns the generation in which it may carry
    /// calls.
    async fn reach(&self) -> Result<(Opened, Arc<Remote>, u64), OpenError> {
        let (setup, mut pacer) = (&self.shared.setup, Pacer::new(PAUSE_MIN, PAUSE_MAX));
        let mut refused = 0;
        loop {
            let Target {
                generation,
                remote,
                server,
                ..
            } = self.shared.target.borrow().clone();
            let remote = remote.map_err(|fault| OpenError::Call(CallError::NotApplied(fault)))?;
            // First to the address of the other connections, then to any address of the name.
            let peer = server
                .filter(|_| refused == 0)
                .and_then(|server| server.peer);
            let (own, limit) = (&setup.runtimes.own, setup.timing.connect);
            // The others go where the primary connection is.
            let age_max = match self.role {
                PRIMARY_CONNECTION => Duration::ZERO,
                _ => SHARED,
            };
            let opened = remote
                .open_on(self.runtime(), own, peer, age_max, limit)
                .await?;
            setup.events.greeted(opened.greeting.took);
            match self
                .shared
                .settle(generation, &opened.greeting.server, refused)
            {
                Settled::In(generation) => return Ok((opened, remote, generation)),
                Settled::OtherTarget => return Err(OpenError::Call(not_connected(OTHER_TARGET))),
                Settled::OtherServer => refused += 1,
            }
            pacer.nothing_new();
            pacer.rest().await;
        }
    }

    async fn try_open(&self) -> Result<DrivenConnection, OpenError> {
        let (opened, remote, generation) = self.reach().await?;
        let mut driven = self.drive(opened, &remote, generation);
        if self.role == Role::Messages {
            let restored = self.restore_channels(&mut driven).await;
            restored.map_err(|error| OpenError::Call(remote.cannot_connect(error)))?;
        }
        Ok(driven)
    }

    /// The first connection to an engine in this process, unless the engine is cut off. There is no
    /// handshake before it, so that the first call keeps its place among the calls of all clients.
    pub(super) fn open_at_once(&self) -> Option<DrivenConnection> {
        let Target {
            generation, remote, ..
        } = self.shared.target.borrow().clone();
        let remote = remote.ok().filter(|remote| remote.back().is_some())?;
        let Dial::Stream(dialer, address) = &remote.dial else {
            return None;
        };
        let (reader, writer) = dialer.dial(address).ok()?;
        let settled = self.shared.settle(generation, &dialer.server(), 0);
        if !matches!(settled, Settled::In(_)) {
            return None;
        }
        let opened = Opened {
            reader,
            writer,
            greeting: Greeting::default(),
        };
        let driven = self.drive(opened, &remote, generation);
        if self.role == Role::Messages {
            self.shared
                .subscriptions
                .connected(&driven.connection, generation);
        }
        self.fill_slot(driven).ok()
    }

    fn drive(&self, opened: Opened, remote: &Remote, generation: u64) -> DrivenConnection {
        let Opened {
            reader,
            writer,
            greeting,
        } = opened;
        let (registry, events) = (
            self.shared.subscriptions.clone(),
            self.shared.setup.events.clone(),
        );
        let carries = match self.role {
            Role::Calls(_) => Carries::Calls,
            Role::Messages => Carries::Subscriptions,
        };
        let connection = Connection::new(writer, greeting.protocol, remote.known(), carries);
        let connection = Arc::new(connection);
        let driver = drive(connection.clone(), reader, greeting.inbox, registry, events);
        DrivenConnection {
            connection,
            driver: AbortOnDrop(self.runtime().spawn(driver)),
            generation,
            primary_only: remote.handshake.primary_only,
            login: (remote.handshake.login.clone(), greeting.validity),
        }
    }

    /// Subscribes to all registered channels, and waits until the server has answered.
    async fn restore_channels(&self, driven: &mut DrivenConnection) -> Result<(), CallError> {
        let limit = self.shared.setup.timing.connect;
        let subscriptions = &*self.shared.subscriptions;
        if !subscriptions.connected(&driven.connection, driven.generation) {
            return Err(not_connected(OTHER_TARGET));
        }
        let answered = driven.connection.ping()?;
        let outcome = tokio::select! {
            biased;
            answered = timeout(limit, answered) => match answered {
                Ok(Ok(())) => subscriptions.restored(),
                Ok(Err(_)) | Err(_) => Err(not_connected("the channels were not confirmed")),
            },
            ended = &mut driven.driver.0 => Err(CallError::NotApplied(
                ended.unwrap_or_else(|_| Fault("the connection's task failed".into())),
            )),
        };
        if let Err(CallError::NotApplied(fault)) = &outcome {
            subscriptions.disconnected();
            driven.connection.end(fault, subscriptions);
        }
        outcome
    }
}
