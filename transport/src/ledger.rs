//! The requests of one connection and their outcomes. Without I/O, clocks or locks.
//!
//! Bytes are numbered from the first one that this ledger encoded. A request knows the numbers of
//! its bytes. The outbox knows how many bytes the kernel has taken (`connection.rs`). A server
//! cannot run half a command. So if a request has no reply, the number of its last byte decides its
//! outcome.
//!
//! # States of a request
//!
//! | state | event | next state, or outcome |
//! | --- | --- | --- |
//! | waiting | its turn comes, its future was dropped | forgotten, never sent |
//! | waiting | it times out, or the connection ends | *not applied* |
//! | waiting | its turn comes: it is encoded | in flight |
//! | in flight | its reply arrives | answered |
//! | in flight | the reply to its ASKING arrives | in flight |
//! | in flight | NOSCRIPT comes, and its future still exists | waiting, at the front, with the text |
//! | in flight | it times out, and no byte was taken: it is withdrawn from the outbox | *not applied* |
//! | in flight | it times out, and some bytes were taken | *unknown*; its entry waits for the reply |
//! | in flight | the connection ends, and its last byte was not taken | *not applied* |
//! | in flight | the connection ends, and its last byte was taken | *unknown* |
//!
//! # Invariants
//!
//! - **LEDGER-1** Requests are sent in the order in which they were pushed, each once. `in_flight`
//!   has the order of the bytes, and replies have the same order. A reply without a request ends
//!   the connection.
//! - **LEDGER-2** A request is answered at most once, by exactly one of the rows above.
//! - **LEDGER-3** The undo of a call is pushed after the call's future was dropped. A call is sent
//!   again with its text only if its future still exists, so the undo always follows the call.
//! - **LEDGER-4** ASKING and its call are one request. No other command is sent between the two,
//!   and neither is withdrawn without the other.
//! - **LEDGER-5** No other reply is taken for the answer to SUNSUBSCRIBE. The server may send its
//!   own `sunsubscribe` first, and then the command fails. So the request ends with a PING, whose
//!   reply shows that the command was handled.
//! - **LEDGER-6** The reply to PING is its own number or an error. Some proxies always answer PONG
//!   instead. Only EVALSHA is answered with NOSCRIPT, and no other request with the number of a
//!   PING. Any other reply belongs to a later request, which means that a reply is missing, and the
//!   connection ends. A PING is sent after each call that timed out, to detect this.

use std::collections::VecDeque;

use bytes::{Buf as _, BytesMut};
use tokio::time::Instant;

use crate::call::Value;
use crate::call_error::{CallError, Fault, sort_error_reply};
use crate::codec;
use crate::pubsub::PubSub;
use crate::request::{
    CallRequest, CommandRequest, ConnectionRequest, KeyForm, Notification, ScriptForm,
};

#[derive(Debug, Default)]
pub(super) struct Ledger {
    waiting: VecDeque<WaitingRequest>,
    in_flight: VecDeque<InFlight>,
    /// The number of the next byte.
    encoded: u64,
    order: Order,
    /// The reason, once no more requests are accepted.
    closed: Option<CallError>,
}

/// A queue keeps the space of this many requests. That of a larger burst is freed.
const KEPT: usize = 256;

#[derive(Debug)]
struct WaitingRequest {
    request: ConnectionRequest,
    since: Instant,
}

impl Ledger {
    pub(super) fn push(
        &mut self,
        request: ConnectionRequest,
        since: Instant,
    ) -> Result<(), CallError> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        self.waiting.push_back(WaitingRequest { request, since });
        Ok(())
    }

    /// How many requests are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many requests were sent and have no reply yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether the ledger is closed and every request is answered.
    pub(super) fn is_drained(&self) -> bool {
        self.closed.is_some() && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// For each call without a reply, the instant at which it was pushed.
    pub(super) fn calls(&self) -> impl Iterator<Item = Instant> {
        let waiting = self
            .waiting
            .iter()
            .map(|waiting| (Some(&waiting.request), waiting.since));
        let in_flight = self
            .in_flight
            .iter()
            .map(|sent| (sent.request.as_ref(), sent.since));
        let calls = waiting
            .chain(in_flight)
            .filter(|(request, _)| request.is_some_and(ConnectionRequest::is_call));
        calls.map(|(_, since)| since)
    }

    /// Moves waiting requests to the outbox, until that has `enough` bytes.
    pub(super) fn encode(&mut self, out: &mut BytesMut, enough: usize) {
        while out.len() < enough
            && let Some(WaitingRequest { request, since }) = self.waiting.front()
        {
            if request.is_abandoned() {
                self.waiting.pop_front();
                continue;
            }
            let (first, had) = (self.encoded, out.len());
            codec::write_request(out, request, || self.order.next_ping());
            self.encoded += (out.len() - had) as u64;
            let length = u32::try_from(out.len() - had).expect("BUG: a request of 4 GiB");
            let (before, since) = (Before::of(request), *since);
            // A request is large, so it moves once.
            self.in_flight.push_back(InFlight {
                request: self.waiting.pop_front().map(|waiting| waiting.request),
                since,
                first,
                length,
                before,
            });
        }
        free_if_empty(&mut self.waiting);
    }

    /// Handles a reply. `taken` is how many bytes the kernel has taken. An error means that replies
    /// no longer match requests.
    pub(super) fn replied(
        &mut self,
        reply: Result<Value, String>,
        taken: u64,
    ) -> Result<Option<Notification>, Fault> {
        let not_asked = || Fault("the server sent a reply without a request".into());
        let sent = self.in_flight.front_mut().ok_or_else(not_asked)?;
        if sent.absorbs(&reply) {
            return Ok(None);
        }
        if sent.end() > taken {
            return Err(not_asked());
        }
        // LOCKS: if this fails, the request stays. Its caller is notified when the connection ends
        // and nothing is locked.
        self.order.check(sent.request.as_ref(), &reply)?;
        let sent = self.in_flight.pop_front();
        free_if_empty(&mut self.in_flight);
        Ok(sent.and_then(|InFlight { request, since, .. }| {
            request.and_then(|request| self.answered(request, since, reply))
        }))
    }

    /// The outcome of a request for its caller.
    fn answered(
        &mut self,
        request: ConnectionRequest,
        since: Instant,
        reply: Result<Value, String>,
    ) -> Option<Notification> {
        match request {
            ConnectionRequest::Unsubscribe(..) => None,
            ConnectionRequest::Ping(pong) => pong.map(Notification::Pong),
            ConnectionRequest::Subscribe(request) => {
                let refusal = reply.err().map(|text| sort_error_reply(&text));
                refusal.map(|error| Notification::Subscribed(request, Err(error)))
            }
            ConnectionRequest::Call(mut request)
                if request.form == ScriptForm::Hash
                    && matches!(&reply, Err(text) if text.starts_with("NOSCRIPT")) =>
            {
                // INVARIANT LEDGER-3.
                if !request.answer.is_closed() {
                    request.form = ScriptForm::Text;
                    self.waiting.push_front(WaitingRequest {
                        request: ConnectionRequest::Call(request),
                        since,
                    });
                }
                None
            }
            ConnectionRequest::Call(CallRequest { answer, .. })
            | ConnectionRequest::Command(CommandRequest { answer, .. }) => {
                let outcome = reply.map_err(|text| sort_error_reply(&text));
                Some(Notification::Called(answer, outcome))
            }
        }
    }

    /// Handles a push that may confirm several channels.
    pub(super) fn confirmed_one_of(&mut self, kind: &str, push: &[Value]) -> Option<Notification> {
        push.chunks(3).find_map(|part| match part {
            [_, Value::Text(channel), _] => self.confirmed(kind, channel),
            _ => None,
        })
    }

    /// Handles `subscribe`, `ssubscribe` or `unsubscribe` for a channel. A push that does not
    /// answer the oldest request is ignored.
    pub(super) fn confirmed(&mut self, kind: &str, channel: &str) -> Option<Notification> {
        let asked = self
            .in_flight
            .front()
            .is_some_and(|sent| match &sent.request {
                Some(ConnectionRequest::Subscribe(request)) => {
                    let confirmation = match request.pubsub {
                        PubSub::Plain => "subscribe",
                        PubSub::Sharded => "ssubscribe",
                    };
                    kind == confirmation && *request.channel == *channel
                }
                Some(ConnectionRequest::Unsubscribe(gone, PubSub::Plain)) => {
                    kind == "unsubscribe" && **gone == *channel
                }
                _ => false,
            });
        if !asked {
            return None;
        }
        let sent = self.in_flight.pop_front()?;
        free_if_empty(&mut self.in_flight);
        match sent.request? {
            ConnectionRequest::Subscribe(request) => {
                Some(Notification::Subscribed(request, Ok(())))
            }
            _ => None,
        }
    }

    /// Handles `sunsubscribe` for a channel: the reply to the oldest request, or a push that nobody
    /// asked for.
    pub(super) fn unsubscribed(&mut self, channel: &str) {
        if let Some(InFlight {
            request: Some(ConnectionRequest::Unsubscribe(gone, _)),
            before,
            ..
        }) = self.in_flight.front_mut()
            && **gone == *channel
            && let Before::Unsubscribed { pushed, .. } = before
        {
            *pushed = true;
        }
    }

    /// Ends the calls that were pushed at `oldest` or before, and withdraws their bytes from the
    /// outbox. Returns whether a reply to one of them may still come.
    pub(super) fn expire(
        &mut self,
        oldest: Instant,
        fault: &Fault,
        out: &mut BytesMut,
        taken: u64,
        ended: &mut Vec<Notification>,
    ) -> bool {
        let (mut withdrawn, mut waits) = (0, false);
        self.in_flight.retain_mut(|sent| {
            sent.first -= withdrawn;
            if sent.since > oldest
                || !sent
                    .request
                    .as_ref()
                    .is_some_and(ConnectionRequest::is_call)
            {
                return true;
            }
            let is_taken = sent.first < taken;
            if !is_taken {
                withdraw(out, sent.first - taken, sent.end() - taken);
                withdrawn += u64::from(sent.length);
            }
            let error = if is_taken {
                CallError::Unknown
            } else {
                CallError::NotApplied
            };
            let request = sent.request.take();
            ended.extend(request.and_then(|request| request.unanswered(error(fault.clone()))));
            waits |= is_taken;
            is_taken
        });
        self.encoded -= withdrawn;
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.since > oldest || !waiting.request.is_call() {
                self.waiting.push_back(waiting);
            } else {
                let error = CallError::NotApplied(fault.clone());
                ended.extend(waiting.request.unanswered(error));
            }
        }
        waits
    }

    /// Takes no more requests, and ends the waiting ones. A request in flight may still be
    /// answered.
    pub(super) fn close(&mut self, error: &CallError, ended: &mut Vec<Notification>) {
        self.closed.get_or_insert_with(|| error.clone());
        for waiting in std::mem::take(&mut self.waiting) {
            ended.extend(waiting.request.unanswered(error.clone()));
        }
    }

    /// Ends all requests, because the connection has ended. `taken` is the number of bytes that the
    /// kernel has taken.
    pub(super) fn end(&mut self, fault: &Fault, taken: u64, ended: &mut Vec<Notification>) {
        self.close(&CallError::NotApplied(fault.clone()), ended);
        for sent in std::mem::take(&mut self.in_flight) {
            let is_taken = sent.end() <= taken;
            let error = if is_taken {
                CallError::Unknown
            } else {
                CallError::NotApplied
            };
            ended.extend(
                sent.request
                    .and_then(|request| request.unanswered(error(fault.clone()))),
            );
        }
    }
}

fn free_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
}

/// Removes these bytes from the middle of the outbox.
fn withdraw(out: &mut BytesMut, first: u64, end: u64) {
    let offset = |number| usize::try_from(number).expect("BUG: more bytes than memory");
    let mut rest = out.split_off(offset(first));
    rest.advance(offset(end - first));
    out.unsplit(rest);
}

// A request that waits for its reply.

#[derive(Debug)]
struct InFlight {
    /// `None` if the call has timed out and its reply has not come.
    pub(super) request: Option<ConnectionRequest>,
    pub(super) since: Instant,
    pub(super) first: u64,
    pub(super) length: u32,
    pub(super) before: Before,
}

/// The replies that come before the one that ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// The reply to ASKING (LEDGER-4).
    Asking,
    /// The answer to SUNSUBSCRIBE: a push, an error, or both (LEDGER-5).
    Unsubscribed {
        pushed: bool,
        refused: bool,
    },
}

impl Before {
    pub(super) fn of(request: &ConnectionRequest) -> Self {
        match request {
            ConnectionRequest::Call(call) if call.keys == KeyForm::Asking => Before::Asking,
            ConnectionRequest::Unsubscribe(_, PubSub::Sharded) => Before::Unsubscribed {
                pushed: false,
                refused: false,
            },
            _ => Before::Nothing,
        }
    }
}

impl InFlight {
    /// True if the reply comes before the one that ends the request.
    fn absorbs(&mut self, reply: &Result<Value, String>) -> bool {
        match (&mut self.before, reply) {
            (before @ Before::Asking, _) => {
                // The reply does not matter: if ASKING failed, the call will be redirected.
                *before = Before::Nothing;
                true
            }
            (Before::Unsubscribed { pushed, refused }, Err(text)) => {
                // After the server's own push, SUNSUBSCRIBE fails because of the slot. Any other
                // error is the reply to PING, for example of a busy server.
                let is_of_slot = ["MOVED ", "CLUSTERDOWN"]
                    .iter()
                    .any(|code| text.starts_with(code));
                let is_first = !std::mem::replace(refused, true);
                is_first && (!*pushed || is_of_slot)
            }
            _ => false,
        }
    }

    /// The number of the byte after its last one.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }
}

// Checks that replies still belong to their requests (LEDGER-6).

/// The reply to PING without a number.
const PONG: &str = "PONG";

/// The number before the first PING: so high that no script returns it. A reply with the number of
/// a PING that is not its turn yet can then only be the reply to that PING.
pub(super) const BEFORE_FIRST: u64 = 1 << 62;

/// Numbers the PINGs, and checks that each reply repeats its number.
#[derive(Debug)]
struct Order {
    /// The number of the last PING that was sent.
    pings: u64,
    /// The number of the last PING that was answered.
    pongs: u64,
    /// Whether PING is answered with its number, as seen at the first one.
    echoes: Option<bool>,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            pings: BEFORE_FIRST,
            pongs: BEFORE_FIRST,
            echoes: None,
        }
    }
}

impl Order {
    /// The number of the next PING.
    pub(super) fn next_ping(&mut self) -> u64 {
        self.pings += 1;
        self.pings
    }

    /// Fails if the reply cannot answer `request`, the oldest one. `None` stands for a call that
    /// has timed out.
    pub(super) fn check(
        &mut self,
        request: Option<&ConnectionRequest>,
        reply: &Result<Value, String>,
    ) -> Result<(), Fault> {
        let is_of_another = match (request, reply) {
            (Some(ConnectionRequest::Subscribe(_)), Ok(_)) => {
                let fault = "the server answered SUBSCRIBE without a push";
                return Err(Fault(fault.into()));
            }
            (Some(ConnectionRequest::Ping(_)), reply) => self.is_no_pong(reply),
            // Preflight sends PING as a command.
            (Some(ConnectionRequest::Command(command)), Ok(_)) if command.words == [b"PING"] => {
                false
            }
            (
                Some(ConnectionRequest::Call(_) | ConnectionRequest::Command(_)) | None,
                Ok(Value::Text(reply)),
            ) => self.is_early_pong(reply),
            (Some(ConnectionRequest::Unsubscribe(_, PubSub::Sharded)), Ok(reply)) => {
                *reply != Value::Text(PONG.into())
            }
            (Some(ConnectionRequest::Command(_)), Err(text)) => text.starts_with("NOSCRIPT"),
            _ => false,
        };
        if is_of_another {
            let fault = "the server left out a reply before this one";
            return Err(Fault(fault.into()));
        }
        Ok(())
    }

    /// True if this answers a PING that was sent after the oldest request. A proxy whose server is
    /// dead may answer PING itself, and nothing else.
    fn is_early_pong(&self, reply: &str) -> bool {
        let is_number = reply
            .parse()
            .is_ok_and(|number: u64| number > self.pongs && number <= self.pings);
        let is_plain = reply == PONG && self.echoes != Some(true);
        is_number || is_plain && (self.echoes.is_some() || self.pings > self.pongs)
    }

    /// True if the reply cannot answer the oldest PING.
    fn is_no_pong(&mut self, reply: &Result<Value, String>) -> bool {
        self.pongs += 1;
        let reply = match reply {
            Ok(Value::Text(reply)) => Some(reply.as_str()),
            Ok(Value::Array(items)) => codec::pong(items),
            Ok(_) => None,
            Err(text) => return text.starts_with("NOSCRIPT"),
        };
        reply.is_none_or(|reply| {
            let echoes = self.echoes.get_or_insert(reply != PONG);
            reply
                != if *echoes {
                    self.pongs.to_string()
                } else {
                    PONG.to_owned()
                }
        })
    }
}

#[cfg(test)]
mod tests;
