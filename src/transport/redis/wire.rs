//! The way onto one connection: at once, or together with others.
//!
//! `fred` writes every script call to the socket by itself. As long as few calls are on their way, a
//! call is sent at once by whoever makes it. Further ones queue until there are enough to go out as
//! one command, or fewer are on their way, or a moment has passed (`batcher.rs`).
//!
//! # Invariants
//!
//! - **W1** Calls reach `fred` in the order in which their futures were first polled: no call is
//!   sent at once while others queue or are being sent.
//! - **W2** A queued call whose future is gone is not sent any more; what was sent is executed.
//! - **W3** A queue belongs to one connection and ends with it: no call moves to another one.
//!
//! # Locking
//!
//! `state`: short, never across an await; nothing else is locked inside.
//!
//! # Bounds
//!
//! The queue holds one job for each future inside `call`, and those dropped since the batcher last
//! ran.

use std::collections::VecDeque;

use fred::clients::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant, timeout_at};

use super::evaluate::{eval, eval_sha, not_loaded};
use crate::protocol::{Call, Value, batch};
use crate::transport::{CallError, Fault};

/// Calls on their way beyond which further ones queue. For fewer, to wait for each other does not
/// pay.
const AT_ONCE: usize = 16;

/// At least so many calls, and a fourth of those on their way, go out together: so the server runs
/// some while others gather.
const GROUP: usize = 8;

/// Calls in one command. Redis does nothing else meanwhile: about a microsecond for each.
const BATCH_MAX: usize = 64;

/// How long a call is held back at most, if no answer comes: on a long way to the server it is sent
/// without waiting for one.
pub(super) const HELD_MAX: Duration = Duration::from_millis(1);

pub(super) type Outcome = Result<Value, CallError>;

pub(super) struct Wire {
    pub(super) client: Client,
    /// For the answer to one call, from its first poll.
    limit: Duration,
    state: Mutex<State>,
    /// Rung when the batcher may have something to do.
    pub(super) due: Notify,
}

struct State {
    /// Calls, not commands.
    on_the_way: usize,
    /// Something is being given to `fred` that nothing may overtake.
    blocks: usize,
    queue: VecDeque<Job>,
    /// How many jobs have left the queue: the number of the first in it.
    gone: u64,
    closed: Option<CallError>,
}

/// A call that queues, or is part of a batch.
pub(super) struct Job {
    pub(super) call: Call,
    pub(super) answer: oneshot::Sender<Outcome>,
    pub(super) since: Instant,
}

/// One command that is on its way, and how many calls it carries.
pub(super) struct Flight<'a>(&'a Wire, usize);

/// As long as it lives, new calls queue.
pub(super) struct Block<'a>(&'a Wire);

/// What the batcher is to send.
pub(super) struct Parcel<'a> {
    pub(super) jobs: Vec<Job>,
    pub(super) flight: Flight<'a>,
    pub(super) block: Block<'a>,
}

enum Entry<'a> {
    Direct(Call, Flight<'a>),
    Queued(u64, oneshot::Receiver<Outcome>),
}

impl Wire {
    pub(super) fn new(client: Client, limit: Duration) -> Self {
        let state =
            State { on_the_way: 0, blocks: 0, queue: VecDeque::new(), gone: 0, closed: None };
        Wire { client, limit, state: Mutex::new(state), due: Notify::new() }
    }

    /// Makes a call. The second part of the answer: whether its outcome is still to be learnt from.
    pub(super) async fn call(&self, call: Call) -> (Outcome, bool) {
        let started = Instant::now();
        match self.enter(call, started) {
            // INVARIANT W1: no await between entering and the first poll of what is sent.
            Ok(Entry::Direct(call, flight)) => {
                let outcome = self.at_once(&call, started).await;
                drop(flight);
                (outcome, true)
            }
            Ok(Entry::Queued(number, answer)) => {
                (self.queued(number, answer, started).await, false)
            }
            Err(error) => (Err(error), false),
        }
    }

    fn enter(&self, call: Call, since: Instant) -> Result<Entry<'_>, CallError> {
        let mut state = self.state.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        let free = state.queue.is_empty() && state.blocks == 0;
        if free && (state.on_the_way < AT_ONCE || !batch::takes(&call)) {
            state.on_the_way += 1;
            return Ok(Entry::Direct(call, Flight(self, 1)));
        }
        let (answer, receiver) = oneshot::channel();
        let number = state.gone + state.queue.len() as u64;
        state.queue.push_back(Job { call, answer, since });
        if state.queue.len() == 1 || state.is_due() {
            self.due.notify_one();
        }
        Ok(Entry::Queued(number, receiver))
    }

    async fn at_once(&self, call: &Call, started: Instant) -> Outcome {
        let outcome = eval_sha(&self.client, call, None).await;
        if !not_loaded(&outcome) {
            return outcome;
        }
        // Later calls may have been executed by now. Whoever sends one to undo this call has
        // dropped this future before, and then nothing is sent here any more.
        eval(&self.client, call, self.left(started)).await
    }

    async fn queued(
        &self,
        number: u64,
        mut answer: oneshot::Receiver<Outcome>,
        since: Instant,
    ) -> Outcome {
        match timeout_at(since + self.limit, &mut answer).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => {
                return Err(CallError::Unknown(Fault("the connection was given up".into())));
            }
            Err(_) => {}
        }
        // INVARIANT W2: from here on it is not sent, if it was not yet.
        answer.close();
        if let Ok(outcome) = answer.try_recv() {
            return outcome;
        }
        let fault = Fault(format!("no answer within {} ms", self.limit.as_millis()));
        if number < self.state.lock().gone {
            Err(CallError::Unknown(fault))
        } else {
            Err(CallError::NotApplied(fault))
        }
    }

    /// What is left of a call's time.
    pub(super) fn left(&self, since: Instant) -> Duration {
        self.limit.saturating_sub(since.elapsed()).max(Duration::from_millis(1))
    }

    /// The next jobs to be sent as one, if it is time for them.
    pub(super) fn take(&self) -> Option<Parcel<'_>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut jobs = Vec::new();
        while let Some(job) = state.queue.front() {
            if !job.answer.is_closed() {
                let batched = batch::takes(&job.call);
                let wait =
                    jobs.is_empty() && batched && !state.is_due() && job.since.elapsed() < HELD_MAX;
                if wait || jobs.len() == BATCH_MAX || !(jobs.is_empty() || batched) {
                    break;
                }
            }
            let Some(job) = state.queue.pop_front() else { break };
            state.gone += 1;
            let alone = !batch::takes(&job.call);
            if !job.answer.is_closed() {
                jobs.push(job);
                if alone {
                    break;
                }
            }
        }
        if jobs.is_empty() {
            return None;
        }
        state.on_the_way += jobs.len();
        state.blocks += 1;
        let flight = Flight(self, jobs.len());
        Some(Parcel { jobs, flight, block: Block(self) })
    }

    /// Whether there is something to send, sooner or later.
    pub(super) fn has_queue(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }

    pub(super) fn block(&self) -> Block<'_> {
        self.state.lock().blocks += 1;
        Block(self)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// Nothing is sent any more; what queues is told so.
    pub(super) fn close(&self, error: &CallError) {
        let jobs = {
            let mut state = self.state.lock();
            state.closed.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.queue)
        };
        for job in jobs {
            // Nobody may be waiting any more.
            drop(job.answer.send(Err(error.clone())));
        }
        self.due.notify_one();
    }
}

impl State {
    /// Whether what queues is to be sent now.
    fn is_due(&self) -> bool {
        let group = (self.on_the_way / 4).clamp(GROUP, BATCH_MAX);
        let queued = self.queue.len();
        queued >= group || queued > 0 && self.on_the_way < AT_ONCE
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.on_the_way -= self.1;
        if state.is_due() {
            self.0.due.notify_one();
        }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.0.state.lock().blocks -= 1;
    }
}
