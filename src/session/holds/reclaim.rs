//! Keeps the sessions of a client, and brings its holds to a new primary.
//!
//! `calls/reclaim.rs` has the states of a session.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::Holds;
use crate::durability::Durability;
use crate::protocol::reclaim::{self, Kept, Others, Primary, Told};
use crate::session::calls::reclaim::Task;
use crate::session::hold::Hold;
use crate::session::retry::Retry;
use crate::session::sleep_until_some;
use crate::timer::{Instant, sleep, timeout};
use crate::transport::{CallError, Fault, Lane};

/// Holds that one call brings. Such a call keeps Redis busy for a few milliseconds at most.
const BATCH: usize = 500;

/// Pauses between two attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Serves the sessions until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let calls = &holds.calls;
    let Some(failover) = calls.settings.failover else {
        return std::future::pending().await;
    };
    let (mut busy, mut at_work) = (HashSet::new(), FuturesUnordered::new());
    loop {
        let due = calls.sessions.due.notified();
        let mut next: Option<Instant> = None;
        holds.use_sessions();
        for key in calls.sessions.keys() {
            if busy.contains(&key) {
                continue;
            }
            match holds.task(&key) {
                Task::Nothing => {}
                Task::Wait(at) => {
                    let at = calls.settings.clock.timer(at);
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
                Task::Register(_) | Task::Verify => {
                    busy.insert(key.clone());
                    at_work.push(work(
                        holds,
                        failover.copies(calls.settings.command_timeout),
                        key,
                    ));
                }
            }
        }
        tokio::select! {
            biased;
            () = due => {}
            Some(key) = at_work.next() => { busy.remove(&key); }
            () = sleep_until_some(next) => {}
        }
    }
}

/// Does what is due about one session, until nothing is.
async fn work(holds: &Holds, copies: Durability, key: Arc<str>) -> Arc<str> {
    let mut retry = Retry::growing(PAUSE_FIRST, PAUSE_MAX);
    loop {
        let failed = match holds.task(&key) {
            Task::Register(meant) => holds.register(&key, copies, meant.as_ref()).await.is_err(),
            Task::Verify => !holds.verify(&key).await.unwrap_or(false),
            Task::Wait(_) | Task::Nothing => return key,
        };
        if failed {
            sleep(retry.next_pause()).await;
        }
    }
}

impl Holds {
    /// The sessions under which something is held go on.
    fn use_sessions(&self) {
        let (calls, now) = (&self.calls, self.calls.now());
        let holds = self.watchdog.holds();
        let keys = holds
            .iter()
            .map(|hold| calls.registrations(&hold.resource.key));
        let keys: HashSet<_> = keys.collect();
        for key in &keys {
            calls.sessions.is_used(key, now);
        }
    }

    fn task(&self, key: &Arc<str>) -> Task {
        let calls = &self.calls;
        calls.sessions.task(key, calls.now(), calls.settings.lease)
    }

    /// Begins or renews a session. It counts when all replicas have it.
    async fn register(
        &self,
        key: &Arc<str>,
        copies: Durability,
        meant: Option<&Primary>,
    ) -> Result<(), CallError> {
        let (calls, length) = (&self.calls, self.calls.settings.lease);
        let before = calls.transport.epoch(Lane::Background, key);
        let sent = calls.now();
        let call = reclaim::register(key.clone(), calls.client_id(), length, meant);
        let outcome = match calls.call(Lane::Background, call).await {
            Ok(reply) => reclaim::answered(reply).map_err(CallError::from),
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            Ok(told) if told.done => calls
                .copied(copies, Lane::Background, key, before)
                .await
                .map(|()| told),
            Ok(told) if !told.is_open => {
                calls.sessions.wants_verification(key);
                return Ok(());
            }
            Ok(_) => Err(CallError::NotApplied(Fault(
                "another server is the primary now".into(),
            ))),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(told) => {
                calls
                    .sessions
                    .registered(key, told.primary, sent, calls.now(), length);
                Ok(())
            }
            Err(error) => {
                let error = match error {
                    CallError::NotDurable {
                        wanted,
                        acknowledged,
                    } => CallError::NotApplied(Fault(format!(
                        "{acknowledged} of {wanted} replicas have the registration of this client"
                    ))),
                    error => error.took_nothing(),
                };
                calls.sessions.not_registered(key, error.clone());
                Err(error)
            }
        }
    }

    /// Tells the primary that is there now what this client holds under a session. False if it must be told again.
    async fn verify(&self, key: &Arc<str>) -> Result<bool, CallError> {
        let sessions = &self.calls.sessions;
        let mut told = self.tell(key).await?;
        if sessions.move_on(key, &told, self.calls.now()) {
            told = self.tell(key).await?;
        }
        Ok(sessions.resume(key, &told, self.calls.now()))
    }

    /// Brings what this client holds, if the session is for the primary that is there now.
    ///
    /// Suspends the session first: what was granted before is in the watchdog's table or does not count.
    async fn tell(&self, key: &Arc<str>) -> Result<Told, CallError> {
        let (calls, length) = (&self.calls, self.calls.settings.lease);
        let session = calls.sessions.suspend(key, calls.now());
        let kept = session
            .as_ref()
            .map_or_else(Vec::new, |(_, trust)| self.kept(key, trust.moves));
        let primary = session.as_ref().map(|(primary, _)| primary);
        let mut batches = kept.chunks(BATCH).peekable();
        loop {
            let batch = batches.next().unwrap_or_default();
            let others = batches.peek().map_or(Others::None, |_| Others::Follow);
            let call = reclaim::verify(
                key.clone(),
                calls.client_id(),
                length,
                primary,
                batch,
                others,
            );
            let reply = timeout(
                calls.settings.command_timeout,
                calls.call(Lane::Background, call),
            )
            .await;
            let reply =
                reply.unwrap_or_else(|_| Err(CallError::Unknown(Fault("no answer".into()))));
            let told = reclaim::answered(reply?)?;
            if others == Others::None || !told.done {
                return Ok(told);
            }
        }
    }

    /// The holds of a session, each with the rest of its lease. From now on they belong to this move of the session.
    fn kept(&self, key: &Arc<str>, moves: u64) -> Vec<Kept> {
        let now = self.calls.now();
        let holds = self.watchdog.holds();
        let is_under = |hold: &&Arc<Hold>| {
            hold.is_live()
                && hold.loss().is_none()
                && self.calls.registrations(&hold.resource.key) == *key
        };
        let kept = holds.iter().filter(is_under).map(|hold| {
            hold.is_brought_by(moves);
            Kept {
                key: hold.resource.key.clone(),
                field: hold.field.clone(),
                holds: hold.guards().max(1),
                lease: hold.lease_left(now).max(Duration::from_millis(1)),
            }
        });
        kept.collect()
    }

    /// Ends the registrations of a client that holds nothing any more.
    pub(crate) async fn leave_sessions(&self) {
        let calls = &self.calls;
        if calls.settings.failover.is_none() {
            return;
        }
        let keys = calls.sessions.keys().into_iter();
        let leaving = keys.map(|key| {
            let call = reclaim::leave(key, calls.client_id());
            calls.call(Lane::Background, call)
        });
        // A registration that is not ended here expires.
        drop(timeout(PAUSE_MAX, join_all(leaving)).await);
    }
}
