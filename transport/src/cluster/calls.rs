//! Calls, and the redirects that they follow.
//!
//! | answer | what follows |
//! | --- | --- |
//! | MOVED | the slot belongs to that node from now on; the call goes there |
//! | ASK | the call goes there once, together with ASKING; a script that reads undeclared keys pauses and tries the slot's node again |
//! | TRYAGAIN | a pause, and the call goes to the slot's node again |
//! | a script misses a key | the same; the outcome is *unknown*, because the script may have written before |
//! | CLUSTERDOWN, no connection, no reply | the caller gets the outcome: *not applied* or *unknown* |
//!
//! A redirected call was not run, so it cannot be applied twice by being sent again. The caller's
//! own future sends it: once that future is dropped, nobody sends the call again, so the call
//! cannot arrive after its undo. All attempts together take at most the time of one call, and at
//! most [`REDIRECTS_MAX`] redirects.

use tokio::sync::oneshot;

use super::{ClusterState, retired};
use crate::call::Call;
use crate::call_error::{CallError, Fault};
use crate::keyslot::keyslot;
use crate::lane::{Lane, Role};
use crate::node::{Node, answer};
use crate::redirect::Redirect;
use crate::request::{CallOutcome, KeyForm};
use crate::timer::{Duration, Instant, sleep, timeout_at};

/// How often one call is sent again because of MOVED and ASK.
pub(super) const REDIRECTS_MAX: u32 = 5;

/// Pauses of a call that is answered TRYAGAIN.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl ClusterState {
    pub(crate) async fn call(&self, lane: Lane, call: Call) -> CallOutcome {
        let Some(key) = call.keys.first() else {
            return self.call_anywhere(lane, call).await;
        };
        let slot = keyslot(key);
        let mut is_begun = false;
        let outcome = self.call_slot(slot, lane, call, &mut is_begun).await;
        if !is_begun {
            return outcome;
        }
        // An earlier attempt may have written, even if the last one certainly did not. And what the
        // last one answers is not what the call did: a release that was stopped half-way finds
        // nothing any more.
        let answered = |_| CallError::Unknown(Fault("a script was stopped half-way".into()));
        Err(outcome.map_or_else(CallError::in_doubt, answered))
    }

    /// Passes a call to the node of its key, without following redirects.
    pub(crate) fn send(
        &self,
        lane: Lane,
        call: Call,
    ) -> Result<oneshot::Receiver<CallOutcome>, CallError> {
        let number = self.owner(keyslot(call.keys.first().ok_or_else(retired)?))?;
        let node = self.nodes.get(number).ok_or_else(retired)?;
        node.send(lane, call, KeyForm::Plain)
    }

    /// Follows redirects. `is_begun` is set if an attempt was stopped in its middle, and may have
    /// written before.
    async fn call_slot(
        &self,
        slot: u16,
        lane: Lane,
        call: Call,
        is_begun: &mut bool,
    ) -> CallOutcome {
        let limit = Instant::now() + self.setup.timing.command;
        // Where ASK sends the next attempt.
        let mut detour = None;
        let (mut redirects, mut pause) = (0, PAUSE_MIN);
        // The first attempt needs no timer, because its connection limits its time.
        let mut beyond_first = None;
        loop {
            let (number, keys) = match detour.take() {
                Some(number) => (number, KeyForm::Asking),
                None => (self.owner(slot)?, KeyForm::Plain),
            };
            let Some(node) = self.nodes.get(number) else {
                self.doubted.notify_one();
                return Err(retired());
            };
            let error = match self
                .ask(&node, lane, call.clone(), keys, beyond_first)
                .await
            {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(redirect) = Redirect::of(&error) else {
                return Err(error);
            };
            *is_begun |= redirect == Redirect::InAScript;
            beyond_first = Some(limit);
            let mut waits = true;
            match redirect {
                Redirect::Moved(slot, to) => {
                    let to = self.node_at(&to, number)?;
                    self.moved(slot, to);
                    redirects += 1;
                    waits = to == number;
                }
                Redirect::Ask(to) if !call.script.reads_undeclared_keys => {
                    // INVARIANT MAP-1: count the change before the call goes to a node that is not
                    // the owner.
                    self.map.detour(slot);
                    detour = Some(self.node_at(&to, number)?);
                    redirects += 1;
                    waits = false;
                }
                Redirect::Ask(_) | Redirect::TryAgain | Redirect::InAScript => {}
            }
            if redirects > REDIRECTS_MAX || Instant::now() + pause >= limit {
                return Err(redirected(&error, &node));
            }
            if waits {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// A call that concerns no key.
    async fn call_anywhere(&self, lane: Lane, call: Call) -> CallOutcome {
        let nodes = self.nodes.all();
        let connected = nodes
            .iter()
            .find(|(_, node)| node.why_not_connected().is_none());
        let Some((_, node)) = connected.or(nodes.first()) else {
            return Err(retired());
        };
        self.ask(node, lane, call, KeyForm::Plain, None).await
    }

    /// Sends a call to one node, once. Waits for the connection to a node that was unknown before.
    pub(super) async fn ask(
        &self,
        node: &Node,
        lane: Lane,
        call: Call,
        keys: KeyForm,
        limit: Option<Instant>,
    ) -> CallOutcome {
        let role = Role::Calls(lane);
        if node.is_opening(role) {
            let limit = limit.unwrap_or_else(|| Instant::now() + self.setup.timing.command);
            drop(timeout_at(limit, node.first_attempt(role)).await);
        }
        let sent = node.send(lane, call, keys).inspect_err(|_| {
            // It is also refused in a grace.
            if node.fault(lane).is_some() {
                self.doubted.notify_one();
            }
        })?;
        let outcome = match limit {
            None => answer(sent).await,
            Some(limit) => timeout_at(limit, answer(sent)).await.unwrap_or_else(|_| {
                Err(CallError::Unknown(Fault(
                    "no answer after a redirect".into(),
                )))
            }),
        };
        if let Err(CallError::NotApplied(Fault(text))) = &outcome
            && text.starts_with("CLUSTERDOWN")
        {
            self.doubted.notify_one();
        }
        outcome
    }

    /// Records that a node has named another node as the owner of the slot.
    pub(super) fn moved(&self, slot: u16, to: u32) {
        if self.map.give(slot, to) {
            self.moved.notify_one();
        } else {
            self.doubted.notify_one();
        }
    }

    pub(super) fn owner(&self, slot: u16) -> Result<u32, CallError> {
        self.map.owner(slot).ok_or_else(|| {
            self.doubted.notify_one();
            CallError::NotApplied(Fault(format!("no node is known to serve slot {slot}")))
        })
    }
}

pub(super) fn redirected(error: &CallError, node: &Node) -> CallError {
    let by = node.server();
    let text = |text| format!("redirected within the time of a call, last by {by}: {text}");
    match error.clone().reworded(text) {
        CallError::Refused(fault) => CallError::NotApplied(fault),
        other => other,
    }
}
