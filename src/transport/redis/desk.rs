//! Which channels are wanted, and the orders that wait for the subscriber's connection.
//!
//! Plain state: no I/O, no tasks. The worker of the current connection takes orders from here in
//! batches; if its connection is lost, what it had taken goes back to the front.
//!
//! # Invariants
//!
//! - **I1** Orders of one channel are carried out in the order in which they were given.
//! - **I2** A channel is in `subscribed` only after a barrier confirmed it, and stays there, across
//!   connections, until it is unsubscribed or the server refuses it.
//! - **I3** Only the worker of the latest connection takes and settles. One before it may still be
//!   about to run: the runtime that drives it may stand still, and cannot drop it then.
//! - **I4** No batch has an empty list: SUBSCRIBE without a channel is an error that puts replies
//!   out of step, and UNSUBSCRIBE without one ends all subscriptions.
//!
//! # Locking
//!
//! One mutex, never held across an await. Nobody is woken under it: a waiter may end at once, and then
//! gives an order of its own. Answers are kept until [`Desk::with`] has released it.
//!
//! # Bounds
//!
//! The queue holds at most one order for each `subscribe` future and each subscribed channel.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::transport::{CallError, Fault};

/// Channels in one SUBSCRIBE: large enough that thousands of names need few commands, small enough
/// that one command does not hold up the server.
pub(super) const BATCH: usize = 500;

pub(super) struct Desk {
    state: Mutex<State>,
}

/// What the worker of one connection needs to take orders.
pub(super) struct Seat {
    number: u64,
    bell: Arc<Notify>,
}

type Outcome = Result<(), CallError>;

/// What somebody who subscribes is to be told.
struct Answer(oneshot::Sender<Outcome>, Outcome);

/// What to send next; one of the lists may be empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) unsubscribe: Vec<Arc<str>>,
    pub(super) subscribe: Vec<Arc<str>>,
}

/// What became of the batch that was taken last.
#[derive(Debug)]
pub(super) enum Fate {
    Confirmed,
    /// The server refused one channel of it, or all.
    Refused(Fault),
    /// The server takes no orders for now.
    NotYet(Fault),
    /// The connection went before the answer came.
    Lost,
}

struct State {
    mode: Mode,
    /// The seat of the latest connection's worker.
    seat: u64,
    bell: Arc<Notify>,
    subscribed: HashSet<Arc<str>>,
    queue: VecDeque<Order>,
    /// The SUBSCRIBE orders of the batch on the wire.
    taken: Vec<Subscribe>,
    /// To be given when the lock is released.
    answers: Vec<Answer>,
    /// The bell is to be rung then.
    rings: bool,
}

enum Mode {
    Open,
    Down(Fault),
    Closed,
}

enum Order {
    Subscribe(Subscribe),
    Unsubscribe(Arc<str>),
}

struct Subscribe {
    channel: Arc<str>,
    /// `None`: a channel that was subscribed before and is being restored.
    answer: Option<oneshot::Sender<Outcome>>,
    /// Was in a batch that the server refused: is sent alone, so that the others do not suffer.
    alone: bool,
}

impl Desk {
    pub(super) fn new() -> Self {
        Desk {
            state: Mutex::new(State {
                mode: Mode::Open,
                subscribed: HashSet::new(),
                queue: VecDeque::new(),
                taken: Vec::new(),
                answers: Vec::new(),
                rings: false,
                seat: 0,
                bell: Arc::new(Notify::new()),
            }),
        }
    }

    /// Changes the state under its lock; whoever is told something is told after it.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let done = change(&mut state);
        let answers = std::mem::take(&mut state.answers);
        let bell = std::mem::take(&mut state.rings).then(|| state.bell.clone());
        drop(state);
        for Answer(sender, outcome) in answers {
            // The caller may be gone; the channel then stays as it is.
            drop(sender.send(outcome));
        }
        if let Some(bell) = bell {
            bell.notify_one();
        }
        done
    }

    /// For the worker of a new connection; the one before gets no more orders.
    pub(super) fn seat(&self) -> Seat {
        self.with(|state| {
            if !matches!(state.mode, Mode::Closed) {
                state.mode = Mode::Open;
            }
            state.settle(&Fate::Lost);
            state.seat += 1;
            state.bell = Arc::new(Notify::new());
            Seat { number: state.seat, bell: state.bell.clone() }
        })
    }

    /// Orders a subscription; the receiver gets the outcome.
    pub(super) fn subscribe(
        &self,
        channel: &Arc<str>,
    ) -> Result<oneshot::Receiver<Outcome>, CallError> {
        self.with(|state| {
            match &state.mode {
                Mode::Open => {}
                Mode::Down(fault) => return Err(CallError::NotApplied(fault.clone())),
                Mode::Closed => return Err(CallError::Closed),
            }
            let (sender, receiver) = oneshot::channel();
            let answer = Some(sender);
            let order = Subscribe { channel: channel.clone(), answer, alone: false };
            state.queue.push_back(Order::Subscribe(order));
            state.rings = true;
            Ok(receiver)
        })
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        self.with(|state| match state.mode {
            Mode::Open => {
                state.queue.push_back(Order::Unsubscribe(channel.clone()));
                state.rings = true;
            }
            // No connection, hence no subscription on the server.
            Mode::Down(_) | Mode::Closed => {
                state.subscribed.remove(channel);
            }
        });
    }

    /// What a new connection has to restore.
    pub(super) fn subscribed(&self) -> Vec<Arc<str>> {
        self.state.lock().subscribed.iter().cloned().collect()
    }

    /// The server refused to restore these. One of several may be good: they are tried alone.
    pub(super) fn not_restored(&self, seat: &Seat, channels: &[Arc<str>]) {
        let mut state = self.state.lock();
        if state.seat != seat.number {
            return;
        }
        for channel in channels {
            state.subscribed.remove(channel);
            if channels.len() > 1 {
                let channel = channel.clone();
                let order = Subscribe { channel, answer: None, alone: true };
                state.queue.push_front(Order::Subscribe(order));
            }
        }
    }

    /// Waits for orders; for ever if there is a later seat.
    pub(super) async fn next(&self, seat: &Seat) -> Batch {
        loop {
            if let Some(batch) = self.take(seat) {
                return batch;
            }
            // A permit is kept if an order came since `take`.
            seat.bell.notified().await;
        }
    }

    pub(super) fn take(&self, seat: &Seat) -> Option<Batch> {
        self.with(|state| if state.seat == seat.number { state.take() } else { None })
    }

    pub(super) fn settle(&self, seat: &Seat, fate: &Fate) {
        self.with(|state| {
            if state.seat == seat.number {
                state.settle(fate);
            }
        });
    }

    /// The connection was lost; another is being made.
    pub(super) fn lost(&self) {
        self.with(|state| state.settle(&Fate::Lost));
    }

    /// There is no connection for now: nobody is kept waiting.
    pub(super) fn down(&self, fault: &Fault) {
        self.with(|state| {
            if !matches!(state.mode, Mode::Closed) {
                state.mode = Mode::Down(fault.clone());
                state.give_up(&CallError::NotApplied(fault.clone()));
            }
        });
    }

    pub(super) fn close(&self) {
        self.with(|state| {
            state.mode = Mode::Closed;
            state.give_up(&CallError::Closed);
            state.subscribed.clear();
        });
    }
}

impl State {
    /// Takes as many orders as may be sent together: no channel is in both lists.
    fn take(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        let mut joined: HashSet<Arc<str>> = HashSet::new();
        let mut left: HashSet<Arc<str>> = HashSet::new();
        while let Some(order) = self.queue.pop_front() {
            match order {
                Order::Subscribe(order) if order.is_abandoned() => {}
                Order::Subscribe(order) if self.subscribed.contains(&order.channel) => {
                    self.answers.extend(order.answered(Ok(())));
                }
                Order::Subscribe(order) => {
                    let first = batch.subscribe.is_empty() && batch.unsubscribe.is_empty();
                    let full = batch.subscribe.len() == BATCH && !joined.contains(&order.channel);
                    if full || left.contains(&order.channel) || (order.alone && !first) {
                        self.queue.push_front(Order::Subscribe(order));
                        break;
                    }
                    let alone = order.alone;
                    if joined.insert(order.channel.clone()) {
                        batch.subscribe.push(order.channel.clone());
                    }
                    self.taken.push(order);
                    if alone {
                        break;
                    }
                }
                Order::Unsubscribe(channel) => {
                    if joined.contains(&channel) || batch.unsubscribe.len() == BATCH {
                        self.queue.push_front(Order::Unsubscribe(channel));
                        break;
                    }
                    if self.subscribed.remove(&channel) && left.insert(channel.clone()) {
                        batch.unsubscribe.push(channel);
                    }
                }
            }
        }
        (batch != Batch::default()).then_some(batch)
    }

    fn settle(&mut self, fate: &Fate) {
        let taken = std::mem::take(&mut self.taken);
        let several = taken.iter().any(|order| order.channel != taken[0].channel);
        for mut order in taken.into_iter().rev() {
            match fate {
                Fate::Confirmed => {
                    self.subscribed.insert(order.channel.clone());
                    self.answers.extend(order.answered(Ok(())));
                }
                Fate::Refused(fault) if !several => {
                    let refused = CallError::Refused(fault.clone());
                    self.answers.extend(order.answered(Err(refused)));
                }
                Fate::Refused(_) => {
                    order.alone = true;
                    self.queue.push_front(Order::Subscribe(order));
                }
                // The connection is given up, and with it what it may have subscribed.
                Fate::NotYet(fault) => {
                    let not_yet = CallError::NotApplied(fault.clone());
                    self.answers.extend(order.answered(Err(not_yet)));
                }
                Fate::Lost => self.queue.push_front(Order::Subscribe(order)),
            }
        }
    }

    /// Answers all who wait, and carries out what needs no connection.
    fn give_up(&mut self, error: &CallError) {
        self.settle(&Fate::Lost);
        for order in std::mem::take(&mut self.queue) {
            match order {
                Order::Subscribe(order) => {
                    self.answers.extend(order.answered(Err(error.clone())));
                }
                Order::Unsubscribe(channel) => {
                    self.subscribed.remove(&channel);
                }
            }
        }
    }
}

impl Subscribe {
    /// Nobody waits for it any more, and nothing was sent.
    fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn answered(self, outcome: Outcome) -> Option<Answer> {
        self.answer.map(|sender| Answer(sender, outcome))
    }
}

#[cfg(test)]
mod tests;
