//! What one connection was asked, and what became of it: pure accounts, no I/O, no clock, no lock.
//!
//! Bytes are numbered from the first that this ledger encoded. A request knows the numbers of its
//! bytes; the outbox knows how many the kernel has taken (`connection.rs`). A server cannot run half a
//! command, so the number of its last byte decides what is known of a request without a reply.
//!
//! # States of a request
//!
//! | state | what happens | next |
//! | --- | --- | --- |
//! | waiting | its future is gone when its turn comes | forgotten, never sent |
//! | waiting | it is too old, or the connection ends | *not applied* |
//! | waiting | its turn comes: it is encoded | sent |
//! | sent | its reply comes | answered |
//! | sent | NOSCRIPT comes, and its future is there | waiting, at the front, with the text |
//! | sent | too old, none of it taken: withdrawn from the outbox | *not applied* |
//! | sent | too old, some of it taken | *unknown*; its place waits for the reply |
//! | sent | the connection ends, its last byte not taken | *not applied* |
//! | sent | the connection ends, its last byte taken | *unknown* |
//!
//! # Invariants
//!
//! - **L1** Requests are sent in the order in which they were pushed, each once; `sent` has the order
//!   of the wire, and so have replies. A reply without a request ends the connection.
//! - **L2** A request is answered at most once, by exactly one of the rows above.
//! - **L3** What undoes a call is pushed after the call's future was dropped; so a call is sent again
//!   with its text only if its future is still there: then the undo comes behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::encode;
use super::hub::Hub;
use crate::protocol::{Call, Value};
use crate::transport::{CallError, Fault, sort_error_reply};

pub(super) type Outcome = Result<Value, CallError>;
pub(super) type Listening = Result<(), CallError>;

#[derive(Debug)]
pub(super) enum Request {
    Run(Run),
    Listen(Listen),
    Unlisten(Arc<str>),
    Ping(Option<oneshot::Sender<()>>),
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) call: Call,
    pub(super) answer: oneshot::Sender<Outcome>,
    pub(super) form: Form,
}

/// How a script is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Hash,
    /// The server does not know the script.
    Text,
}

/// SUBSCRIBE to one channel, so that a refusal is that of this channel.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) channel: Arc<str>,
    /// Which of the orders for this channel.
    pub(super) order: u64,
    /// How many connections were lost before the one that is asked.
    pub(super) losses: u64,
    /// `None`: restored after a loss, nobody waits.
    pub(super) answer: Option<oneshot::Sender<Listening>>,
}

/// What the server says of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Subscribed,
    Unsubscribed,
}

/// What somebody is to be told, when nothing is locked any more.
#[derive(Debug)]
pub(super) enum Told {
    Run(oneshot::Sender<Outcome>, Outcome),
    /// The server confirmed or refused the subscription.
    Listen(Listen, Listening),
    /// The connection ended before the server did either.
    Unheard(Listen),
    Pong(oneshot::Sender<()>),
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    waiting: VecDeque<Waiting>,
    sent: VecDeque<Sent>,
    /// The number of the next byte.
    encoded: u64,
    /// Why nothing is taken any more.
    closed: Option<CallError>,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    since: Instant,
}

#[derive(Debug)]
struct Sent {
    /// `None`: it was told that it is too old. Its reply is still to come.
    request: Option<Request>,
    since: Instant,
    first: u64,
    end: u64,
}

impl Ledger {
    pub(super) fn push(&mut self, request: Request, since: Instant) -> Result<(), CallError> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        self.waiting.push_back(Waiting { request, since });
        Ok(())
    }

    /// How many requests are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many requests have no reply yet.
    pub(super) fn on_the_way(&self) -> usize {
        self.sent.len()
    }

    /// Nothing more will be asked, and everything is answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.closed.is_some() && self.is_idle()
    }

    /// Nothing waits and nothing is on its way.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Gives what waits to the outbox, until that has `enough` bytes.
    pub(super) fn encode(&mut self, out: &mut BytesMut, enough: usize) {
        while out.len() < enough
            && let Some(Waiting { request, since }) = self.waiting.pop_front()
        {
            if request.is_abandoned() {
                continue;
            }
            let (first, had) = (self.encoded, out.len());
            match &request {
                Request::Run(run) => encode::run(out, &run.call, run.form),
                Request::Listen(listen) => {
                    encode::command(out, &[b"SUBSCRIBE", listen.channel.as_bytes()]);
                }
                Request::Unlisten(channel) => {
                    encode::command(out, &[b"UNSUBSCRIBE", channel.as_bytes()]);
                }
                Request::Ping(_) => encode::command(out, &[b"PING"]),
            }
            self.encoded += (out.len() - had) as u64;
            let end = self.encoded;
            self.sent.push_back(Sent { request: Some(request), since, first, end });
        }
    }

    /// Hands the next request over to a driver that sends it in its own way. Its bytes are of no
    /// number: the kernel is taken to have taken them.
    #[cfg(feature = "fred")]
    pub(super) fn take<T>(&mut self, take: impl FnOnce(&Request) -> T) -> Option<T> {
        while let Some(Waiting { request, since }) = self.waiting.pop_front() {
            if !request.is_abandoned() {
                let taken = take(&request);
                self.sent.push_back(Sent { request: Some(request), since, first: 0, end: 0 });
                return Some(taken);
            }
        }
        None
    }

    /// A reply came while the kernel had taken so many bytes. An error means that replies and
    /// requests no longer belong together.
    pub(super) fn replied(
        &mut self,
        reply: Result<Value, String>,
        taken: u64,
    ) -> Result<Option<Told>, Fault> {
        // `VecDeque::pop_front_if` is of Rust 1.93.
        let answered = self.sent.front().is_some_and(|sent| sent.end <= taken);
        let next = if answered { self.sent.pop_front() } else { None };
        let Some(Sent { request, since, .. }) = next else {
            return Err(Fault("the server answered what it was not asked".into()));
        };
        Ok(match request {
            None | Some(Request::Unlisten(_)) => None,
            Some(Request::Ping(pong)) => pong.map(Told::Pong),
            Some(Request::Listen(listen)) => match reply {
                Err(text) => Some(Told::Listen(listen, Err(sort_error_reply(&text)))),
                Ok(_) => return Err(Fault("the server answered SUBSCRIBE without a push".into())),
            },
            Some(Request::Run(mut run)) => match reply {
                Err(text) if text.starts_with("NOSCRIPT") && run.form == Form::Hash => {
                    // INVARIANT L3.
                    if run.answer.is_closed() {
                        return Ok(None);
                    }
                    run.form = Form::Text;
                    self.waiting.push_front(Waiting { request: Request::Run(run), since });
                    None
                }
                reply => {
                    let outcome = reply.map_err(|text| sort_error_reply(&text));
                    Some(Told::Run(run.answer, outcome))
                }
            },
        })
    }

    /// The server said that a channel is subscribed, or is not any more. What was not asked for next
    /// shifts nothing.
    pub(super) fn confirmed(&mut self, change: Change, channel: &str) -> Option<Told> {
        let asked = self.sent.front().is_some_and(|sent| match &sent.request {
            Some(Request::Listen(listen)) => {
                change == Change::Subscribed && *listen.channel == *channel
            }
            Some(Request::Unlisten(gone)) => change == Change::Unsubscribed && **gone == *channel,
            _ => false,
        });
        if !asked {
            return None;
        }
        match self.sent.pop_front()?.request? {
            Request::Listen(listen) => Some(Told::Listen(listen, Ok(()))),
            _ => None,
        }
    }

    /// Answers calls that were pushed before `oldest`, and withdraws what is still in the outbox.
    /// Returns since when the oldest of the others waits.
    pub(super) fn expire(
        &mut self,
        oldest: Instant,
        fault: &Fault,
        out: &mut BytesMut,
        taken: u64,
        told: &mut Vec<Told>,
    ) -> Option<Instant> {
        let mut rest = None;
        let mut live = |since: Instant| {
            rest = Some(rest.map_or(since, |before: Instant| before.min(since)));
        };
        let mut withdrawn = 0;
        self.sent.retain_mut(|sent| {
            sent.first -= withdrawn;
            sent.end -= withdrawn;
            if !sent.request.as_ref().is_some_and(Request::is_call) {
                return true;
            }
            if sent.since > oldest {
                live(sent.since);
                return true;
            }
            let is_taken = sent.first < taken;
            if !is_taken {
                withdraw(out, sent.first - taken, sent.end - taken);
                withdrawn += sent.end - sent.first;
            }
            let error = if is_taken { CallError::Unknown } else { CallError::NotApplied };
            let request = sent.request.take();
            told.extend(request.and_then(|request| request.unanswered(error(fault.clone()))));
            is_taken
        });
        self.encoded -= withdrawn;
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.request.is_call() {
                if waiting.since <= oldest {
                    let error = CallError::NotApplied(fault.clone());
                    told.extend(waiting.request.unanswered(error));
                    continue;
                }
                live(waiting.since);
            }
            self.waiting.push_back(waiting);
        }
        rest
    }

    /// Nothing more is taken; what waits is told why. What was sent may still be answered.
    pub(super) fn close(&mut self, error: &CallError, told: &mut Vec<Told>) {
        self.closed.get_or_insert_with(|| error.clone());
        for waiting in std::mem::take(&mut self.waiting) {
            told.extend(waiting.request.unanswered(error.clone()));
        }
    }

    /// The connection has ended, for this reason, when the kernel had taken so many bytes.
    pub(super) fn end(&mut self, fault: &Fault, taken: u64, told: &mut Vec<Told>) {
        self.close(&CallError::NotApplied(fault.clone()), told);
        for Sent { request, end, .. } in std::mem::take(&mut self.sent) {
            let error = if end <= taken { CallError::Unknown } else { CallError::NotApplied };
            told.extend(request.and_then(|request| request.unanswered(error(fault.clone()))));
        }
    }
}

impl Told {
    pub(super) fn say(self, hub: &Hub) {
        // Nobody may be waiting any more.
        match self {
            Told::Run(answer, outcome) => drop(answer.send(outcome)),
            Told::Listen(listen, outcome) => hub.told(listen, outcome),
            Told::Unheard(listen) => hub.unheard(listen),
            Told::Pong(pong) => drop(pong.send(())),
        }
    }
}

impl Request {
    /// Nobody waits for it any more, and nothing was sent. A subscription without a waiter is one
    /// that is restored, or that its unsubscription follows.
    fn is_abandoned(&self) -> bool {
        matches!(self, Request::Run(run) if run.answer.is_closed())
    }

    /// Only calls have a time-out here.
    fn is_call(&self) -> bool {
        matches!(self, Request::Run(_))
    }

    fn unanswered(self, error: CallError) -> Option<Told> {
        match self {
            Request::Run(run) => Some(Told::Run(run.answer, Err(error))),
            Request::Listen(listen) => Some(Told::Unheard(listen)),
            Request::Unlisten(_) | Request::Ping(_) => None,
        }
    }
}

/// Takes these bytes out of the middle.
fn withdraw(out: &mut BytesMut, first: u64, end: u64) {
    let place = |number| usize::try_from(number).expect("BUG: more bytes than memory");
    let mut rest = out.split_off(place(first));
    rest.advance(place(end - first));
    out.unsplit(rest);
}

#[cfg(test)]
mod tests;
