//! What the tests and the fault run of this crate hear of a client. No promise of stability.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::clock::Moment;
use crate::sync::call_out;
pub use crate::transport::{Arg, Call, CallError, Value};

/// Hears what one client sends, and on which deadlines it relies. It must not block, and may hear
/// something after what came later.
pub trait Harness: Send + Sync {
    /// A script is sent, or may be. Returns a number for the call.
    fn on_sent(&self, _call: &Call) -> u64 {
        0
    }

    /// What became of a call. Without it, nobody knows whether the script runs.
    fn on_reply(&self, _call: u64, _reply: &Result<Value, CallError>) {}

    /// A message said that a release has handed the lock over. The lease began at `since` or later.
    fn on_handover_by_message(&self, _lock: Field<'_>, _since: Instant, _lease: Duration) {}

    /// At `at`, the local deadline of a hold was `until`, whatever else may end the hold before.
    /// `hold` is its number within the client.
    fn on_local_deadline(&self, _lock: Field<'_>, _hold: u64, _at: Instant, _until: Instant) {}

    /// A hold is forgotten, or is restored from its text.
    fn on_hand_on(&self, _lock: Field<'_>) {}

    /// Wraps the background task of a client on the embedded engine.
    fn wrap(&self, background: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        background
    }
}

/// The key of a lock, and the field of a hold.
pub type Field<'a> = (&'a Arc<str>, &'a Arc<str>);

/// The harness of a client, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Hearing(Option<Arc<dyn Harness>>);

/// A call that the harness has heard of.
pub(crate) struct HeardCall(Option<(Arc<dyn Harness>, u64)>);

impl Hearing {
    pub(crate) fn by(harness: Arc<dyn Harness>) -> Self {
        Hearing(Some(harness))
    }

    pub(crate) fn sent(&self, call: &Call) -> HeardCall {
        HeardCall(self.0.as_ref().and_then(|harness| {
            let number = call_out(|| harness.on_sent(call))?;
            Some((harness.clone(), number))
        }))
    }

    pub(crate) fn handed_over_by_message(&self, lock: Field<'_>, since: Moment, lease: Duration) {
        self.hears(|harness| harness.on_handover_by_message(lock, since.instant(), lease));
    }

    /// `at` was read while the hold was locked, so that nothing that ends the hold comes before it.
    pub(crate) fn local_deadline(&self, lock: Field<'_>, hold: u64, (at, until): (Moment, Moment)) {
        self.hears(|harness| harness.on_local_deadline(lock, hold, at.instant(), until.instant()));
    }

    pub(crate) fn handed_on(&self, lock: Field<'_>) {
        self.hears(|harness| harness.on_hand_on(lock));
    }

    pub(crate) fn wrap(&self, background: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        match &self.0 {
            Some(harness) => harness.wrap(background),
            None => background,
        }
    }

    fn hears(&self, what: impl FnOnce(&dyn Harness)) {
        if let Some(harness) = &self.0 {
            call_out(|| what(&**harness));
        }
    }
}

impl HeardCall {
    pub(crate) fn answered(&self, reply: &Result<Value, CallError>) {
        if let Some((harness, call)) = &self.0 {
            call_out(|| harness.on_reply(*call, reply));
        }
    }
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hearing").field(&self.0.is_some()).finish()
    }
}
