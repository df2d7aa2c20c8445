//! The history of a client: what it sends, what is answered, and until when it trusts its holds.
//!
//! For the checks of this crate, with the feature `history`: `specification/src/trace.rs` says whether a history is
//! one that the specification allows.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::clock::Moment;
use crate::sync::call_out;
use crate::transport::{Arg, Call, CallError, Value};

/// Gets each event as it happens. An event may come after later ones; `at` is right.
#[derive(Clone, Default)]
pub struct History(Option<Arc<Sink>>);

struct Sink {
    next_call: AtomicU64,
    write: Box<dyn Fn(Event) + Send + Sync>,
}

/// What a client did, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// Not later than it was sent, and not earlier than it was answered.
    pub at: Instant,
    /// What happened.
    pub what: What,
}

/// What a client did.
#[derive(Clone, Debug)]
pub enum What {
    /// A script is sent, or may be.
    Sent {
        /// The number of the call within the history.
        call: u64,
        /// The name of the script.
        script: &'static str,
        /// Its `KEYS`.
        keys: Vec<Arc<str>>,
        /// Its `ARGV`. Numbers are decimal text.
        args: Vec<Arc<str>>,
    },
    /// The reply of the script has arrived. Without this event, nobody knows whether the script runs.
    Answered {
        /// The number of the call.
        call: u64,
        /// What it returned.
        reply: Value,
    },
    /// The server ran nothing of the script, and never will.
    NotRun {
        /// The number of the call.
        call: u64,
    },
    /// A hold is trusted until a moment: the local deadline of its lease, whatever else may end it before.
    Trusted {
        /// The number of the hold within the client.
        hold: u64,
        /// The key of the lock.
        key: Arc<str>,
        /// The field of the hold.
        field: Arc<str>,
        /// Until when.
        until: Instant,
    },
    /// A message said that a release has granted the lock.
    Told {
        /// A number that no call has.
        call: u64,
        /// The key of the lock.
        key: Arc<str>,
        /// The field of the hold.
        field: Arc<str>,
        /// The lease began no earlier.
        since: Instant,
        /// How long it is.
        lease: Duration,
    },
    /// A hold was handed on as text, or is restored from its text.
    HandedOn {
        /// The key of the lock.
        key: Arc<str>,
        /// The field of the hold.
        field: Arc<str>,
    },
}

/// A call that was sent.
pub(crate) struct Told(Option<(Arc<Sink>, u64)>);

/// The history of one hold. Empty until the hold is observed.
#[derive(Debug, Default)]
pub(crate) struct OfHold(OnceLock<History>);

impl History {
    /// Passes each event to a function, which must not block.
    pub fn new(write: impl Fn(Event) + Send + Sync + 'static) -> Self {
        History(Some(Arc::new(Sink {
            next_call: AtomicU64::new(1),
            write: Box::new(write),
        })))
    }

    pub(crate) fn sends(&self, call: &Call) -> Told {
        let told = self.0.as_ref().map(|sink| {
            let number = sink.next_call.fetch_add(1, Relaxed);
            let text = |arg: &Arg| match arg {
                Arg::Int(number) => Arc::from(number.to_string()),
                Arg::Text(text) => text.clone(),
            };
            sink.write(
                now(),
                What::Sent {
                    call: number,
                    script: call.script.name,
                    keys: call.keys.clone(),
                    args: call.args.iter().map(text).collect(),
                },
            );
            (sink.clone(), number)
        });
        Told(told)
    }

    /// A waiter believes a message.
    pub(crate) fn told_of_grant(
        &self,
        (key, field): (&Arc<str>, &Arc<str>),
        (since, lease): (Moment, Duration),
    ) {
        let Some(sink) = &self.0 else { return };
        let call = sink.next_call.fetch_add(1, Relaxed);
        let (key, field) = (key.clone(), field.clone());
        let since = since.instant();
        let told = What::Told {
            call,
            key,
            field,
            since,
            lease,
        };
        sink.write(now(), told);
    }

    /// A hold is taken by its text, which others may have too.
    pub(crate) fn restores(&self, key: &Arc<str>, field: &Arc<str>) {
        let Some(sink) = &self.0 else { return };
        sink.handed_on(key, field);
    }
}

impl Sink {
    fn write(&self, at: Instant, what: What) {
        call_out(|| (self.write)(Event { at, what }));
    }

    fn handed_on(&self, key: &Arc<str>, field: &Arc<str>) {
        let (key, field) = (key.clone(), field.clone());
        self.write(now(), What::HandedOn { key, field });
    }
}

impl Told {
    pub(crate) fn answered(&self, reply: &Result<Value, CallError>) {
        let Some((sink, call)) = &self.0 else { return };
        let call = *call;
        let what = match reply {
            Ok(reply) => What::Answered {
                call,
                reply: reply.clone(),
            },
            Err(CallError::NotApplied(_) | CallError::Closed) => What::NotRun { call },
            // A script that fails may have written before.
            Err(_) => return,
        };
        sink.write(now(), what);
    }
}

impl OfHold {
    pub(crate) fn begins(&self, history: &History) {
        self.0.set(history.clone()).ok();
    }

    /// `at` is when the hold was found to be trusted. It was read while the hold was locked, so that nothing that
    /// ends the hold comes before it.
    pub(crate) fn trusted(
        &self,
        hold: u64,
        (key, field): (&Arc<str>, &Arc<str>),
        (at, until): (Moment, Moment),
    ) {
        let Some(sink) = self.sink() else { return };
        let (key, field) = (key.clone(), field.clone());
        let until = until.instant();
        let trusted = What::Trusted {
            hold,
            key,
            field,
            until,
        };
        sink.write(at.instant(), trusted);
    }

    pub(crate) fn handed_on(&self, key: &Arc<str>, field: &Arc<str>) {
        let Some(sink) = self.sink() else { return };
        sink.handed_on(key, field);
    }

    fn sink(&self) -> Option<&Sink> {
        self.0.get()?.0.as_deref()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("History").field(&self.0.is_some()).finish()
    }
}
