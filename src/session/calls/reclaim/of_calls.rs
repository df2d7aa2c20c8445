//! How calls use the sessions of a client.

use std::sync::Arc;

use super::{Meant, Trust};
use crate::error::{ConfigError, Error};
use crate::protocol::Call;
use crate::protocol::kind::Kind;
use crate::protocol::reclaim::{self, REGISTRATIONS, Rule};
use crate::protocol::resource::Resource;
use crate::session::calls::Calls;
use crate::timer::{Instant, timeout_at};
use crate::transport::{CallError, Fault};

impl Calls {
    /// The key of the registrations for a lock.
    pub(in crate::session) fn registrations(&self, key: &str) -> Arc<str> {
        match self.transport.slot_tag(key) {
            None => Arc::from(REGISTRATIONS),
            Some(tag) => Arc::from(format!("{REGISTRATIONS}:{{{tag}}}")),
        }
    }

    /// An error if this client cannot take such a lock: its holds are to outlive a failover.
    pub(in crate::session) fn can_take(&self, resource: &Resource) -> Result<(), Error> {
        let keeps = matches!(resource.kind, Kind::Lock | Kind::Spin);
        if keeps || self.settings.failover.is_none() {
            return Ok(());
        }
        Err(refused(
            resource.kind,
            "only holds of a plain lock are brought to a new primary",
        ))
    }

    /// An error if this client cannot take over the holds of others: two clients would bring them to a new primary.
    pub(in crate::session) fn can_take_over(&self, resource: &Resource) -> Result<(), Error> {
        if self.settings.failover.is_none() {
            return Ok(());
        }
        Err(refused(
            resource.kind,
            "a hold cannot move to a client that may reclaim it",
        ))
    }

    /// What calls for this key may be sent together with: those for keys of the same registrations.
    pub(in crate::session) fn group(&self, key: &str) -> Option<u32> {
        let failover = self.settings.failover;
        failover.and_then(|_| self.transport.slot_tag(key))
    }

    /// Waits for a session, if holds of this client need one. Take its trust before the call that it is for is sent.
    pub(in crate::session) async fn trust(
        &self,
        resource: &Resource,
        limit: Option<Instant>,
    ) -> Result<Option<Trust>, CallError> {
        if self.settings.failover.is_none() {
            return Ok(None);
        }
        // Boxed, because most clients need no session.
        Box::pin(self.trust_of_session(resource, limit)).await
    }

    async fn trust_of_session(
        &self,
        resource: &Resource,
        limit: Option<Instant>,
    ) -> Result<Option<Trust>, CallError> {
        let key = self.registrations(&resource.key);
        let limit = limit.unwrap_or_else(|| Instant::now() + self.settings.command_timeout);
        let before = self.sessions.at(&key, |session| session.attempts);
        loop {
            // CANCEL: nothing was sent. The background task goes on registering for a while.
            let attempted = self.sessions.attempted.notified();
            let now = self.now();
            let (trust, failed, is_kept) = self.sessions.at(&key, |session| {
                let is_kept = session.is_used(now, self.settings.lease);
                session.wanted = Some(now);
                let is_over = session.attempts > before;
                (
                    session.trust(now),
                    session.error.clone().filter(|_| is_over),
                    is_kept,
                )
            });
            if !is_kept {
                // It may last, but nobody was going to renew it.
                self.sessions.due.notify_one();
            }
            if let Some(trust) = trust {
                return Ok(Some(trust));
            }
            if let Some(error) = failed {
                return Err(error);
            }
            self.sessions.due.notify_one();
            if timeout_at(limit, attempted).await.is_err() {
                let latest = self.sessions.at(&key, |session| session.error.clone());
                let late = || CallError::NotApplied(Fault("no session began in time".into()));
                return Err(latest.unwrap_or_else(late));
            }
        }
    }

    /// Whether the client has moved to another primary since, or has begun another session.
    pub(in crate::session) fn has_moved_since(&self, resource: &Resource, moves: u64) -> bool {
        self.settings.failover.is_some() && {
            let key = self.registrations(&resource.key);
            self.sessions.at(&key, |session| session.moves) != moves
        }
    }

    /// Makes a call run only on the primary of the client's session, if it is one that must.
    pub(in crate::session) fn guarded(
        &self,
        call: Call,
    ) -> Result<(Call, Option<Meant>), CallError> {
        if self.settings.failover.is_none() {
            return Ok((call, None));
        }
        let Some(rule) = reclaim::rule(call.script) else {
            return Ok((call, None));
        };
        let key = self.registrations(&call.keys[0]);
        match rule {
            Rule::Anywhere(script) => Ok((reclaim::anywhere(script, call, key), None)),
            Rule::OnItsPrimary(script) => {
                let (primary, meant) = self.sessions.meant(&key, self.now())?;
                Ok((
                    reclaim::on_its_primary(script, call, key, &primary),
                    Some(meant),
                ))
            }
        }
    }
}

fn refused(kind: Kind, reason: &'static str) -> Error {
    let kind = kind.to_string();
    Error::Config(ConfigError::Setting {
        setting: "failover",
        kind,
        reason,
    })
}
