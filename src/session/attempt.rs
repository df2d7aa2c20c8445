//! One acquisition's talk with Redis: an obligation from the first byte sent.
//!
//! An attempt becomes a hold, or whatever it may have taken is undone when it is dropped.

use std::sync::Arc;

use tokio::time::Instant;

use super::Session;
use super::hold::{Doubt, Hold, Names};
use super::releases::Chore;
use super::request::Request;
use crate::mutant::Mutant;
use crate::protocol::lock::{self, Acquired};
use crate::protocol::{Call, Value};
use crate::transport::{CallError, Fault, Lane};

pub(super) struct Attempt<'a> {
    session: &'a Session,
    request: &'a Request,
    /// Our name on the wire; never used by another acquisition.
    field: Arc<str>,
    /// The hold before, whose field may be turned into ours.
    from: Option<Arc<Hold>>,
    /// A call is on the wire.
    in_flight: Option<Doubt>,
    /// An earlier call may be applied, or may yet be.
    doubt: Option<Doubt>,
}

/// What Redis said.
pub(super) enum Answer {
    Granted(Hold),
    HeldFor(Option<std::time::Duration>),
}

impl<'a> Attempt<'a> {
    pub(super) fn new(session: &'a Session, request: &'a Request, from: Option<Arc<Hold>>) -> Self {
        let field = session.next_field();
        Attempt { session, request, field, from, in_flight: None, doubt: None }
    }

    /// Asks Redis once, until `limit` at most.
    pub(super) async fn ask(&mut self, limit: Option<Instant>) -> Result<Answer, CallError> {
        if let Some(from) = self.from.clone() {
            let (place, lease) = (&self.request.place, self.request.terms.lease);
            let call = lock::take_over(&place.key, &from.field, &self.field, lease);
            let (sent, reply) = self.send(call, limit).await;
            // Whatever came back, the field before is not ours to turn over again.
            let there = reply.and_then(|value| lock::still_held(value).map_err(Into::into));
            match there {
                Ok(true) => {
                    self.from = None;
                    return self.grant(sent);
                }
                Ok(false) => self.from = None,
                Err(error) => {
                    self.undo_from();
                    return Err(error);
                }
            }
        }
        let place = &self.request.place;
        let call = lock::acquire(&place.key, &self.field, self.request.terms.lease);
        let (sent, reply) = self.send(call, limit).await;
        if self.session.mutants.has(Mutant::UnknownIsGranted)
            && matches!(reply, Err(CallError::Unknown(_)))
        {
            return self.grant(sent);
        }
        match reply.and_then(|value| lock::acquired(value).map_err(Into::into))? {
            Acquired::Yes => self.grant(sent),
            Acquired::HeldFor(left) => Ok(Answer::HeldFor(left)),
        }
    }

    async fn send(
        &mut self,
        call: Call,
        limit: Option<Instant>,
    ) -> (Instant, Result<Value, CallError>) {
        let sent = Instant::now();
        let epoch = self.session.transport.epoch(Lane::Caller);
        let once = self.doubt.is_none();
        let open = Doubt { epoch, lease: self.request.terms.lease, once };
        self.in_flight = Some(open);
        // CANCEL: our drop queues an undo behind this call.
        let reply = self.session.call_until(limit, call).await;
        self.in_flight = None;
        if matches!(reply, Err(CallError::Unknown(_))) {
            // The oldest doubt is the one that takes longest to settle.
            let epoch = self.doubt.map_or(epoch, |doubt| doubt.epoch);
            self.doubt = Some(Doubt { epoch, ..open });
        }
        (sent, reply)
    }

    /// The field is ours: no await from the reply to the hold.
    fn grant(&mut self, sent: Instant) -> Result<Answer, CallError> {
        let session = self.session;
        let from =
            if session.mutants.has(Mutant::DeadlineFromReply) { Instant::now() } else { sent };
        let names = Names {
            place: self.request.place.clone(),
            field: self.field.clone(),
            owner: self.request.owner.id(),
            mutants: session.mutants,
        };
        let hold = Hold::new(session.next_id(), names, self.request.terms, from);
        if hold.loss().is_some() {
            // The process stalled for the whole lease: the grant is worth nothing any more.
            self.undo(self.field.clone());
            self.field = session.next_field();
            self.doubt = None;
            let fault = "the grant came after its lease had ended";
            return Err(CallError::NotApplied(Fault(fault.into())));
        }
        Ok(Answer::Granted(hold.with_doubt(self.doubt.take())))
    }

    fn undo_from(&mut self) {
        if let Some(from) = self.from.take() {
            self.undo(from.field.clone());
        }
    }

    /// Ends what a field may have taken, or may take yet.
    fn undo(&self, field: Arc<str>) {
        let none = Doubt {
            epoch: self.session.transport.epoch(Lane::Caller),
            lease: self.request.terms.lease,
            once: true,
        };
        // The older doubt is the one that takes longer to settle.
        let doubt = self.doubt.or(self.in_flight).unwrap_or(none);
        let once = doubt.once && (self.doubt.is_none() || self.in_flight.is_none());
        let (place, doubt) = (self.request.place.clone(), Doubt { once, ..doubt });
        self.session.releases.post(Chore::Undo { place, field, doubt });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.undo_from();
        let forgotten = if self.in_flight.is_some() {
            self.session.mutants.has(Mutant::CancelNotUndone)
        } else {
            self.doubt.is_none() || self.session.mutants.has(Mutant::UnknownForgotten)
        };
        if !forgotten {
            self.undo(self.field.clone());
        }
    }
}
