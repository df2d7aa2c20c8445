//! The waiters of one resource in this client, and the hand-over from one to the next.
//!
//! All waiters of a name in this process queue here, and only the contender talks to Redis. When a
//! hold ends, the next waiter gets it directly, without a call. After a limited streak of such
//! hand-overs, the lock is released for other clients.
//!
//! If several owners may hold at once, the next waiter contends as soon as the previous one was
//! granted. If Redis keeps the queue, every waiter is a contender.
//!
//! # Invariants
//!
//! - **QUEUE-1** A queue is in the map while it is held or has waiters, while it yields to other
//!   clients, and while it remembers that other clients poll.
//! - **QUEUE-2** A queue has one contender or one hold, never both. Whichever stops being that
//!   gives the queue to the next waiter or closes it.
//! - **QUEUE-3** A queued waiter is signalled once. The signal may carry a hold; if the waiter does
//!   not take it, its slot's drop releases it.
//! - **QUEUE-4** No queue waits for a hold that is over. A hold is first marked as ended and then
//!   leaves its queue. A queue checks, under its lock, whether a hold has ended before it is held
//!   by it. So one of the two sees the other. The watchdog ends a hold whose lease ends, so it must
//!   know the hold right after the queue. A sweep once a second repairs queues for which this rule
//!   was broken.
//!
//! # Locking
//!
//! One shard of the map at a time, then a hold's state, the watchdog's table or one waiter's
//! `signal`. No hold is dropped while a shard is locked, because that would re-enter this module.
//! No foreign code is called either (FOREIGN-1).
//!
//! # Bounds
//!
//! Queues: names held or waited for. Waiters: futures inside `acquire`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::clock::Moment;
use crate::protocol::fair::NAMED;
use crate::protocol::kind::Contenders;
use crate::protocol::resource::{QueueName, Resource};
use crate::session::deadline::HoldTerms;
use crate::session::hold::Hold;
use crate::session::settings::Streak;
use crate::session::waiter::{
    Audience, ConnectionEpoch, SHORTEST, Turns, Waiter, WaiterSignal, Yield, Yielded,
};
use crate::sync::{Map, Notify};

/// The local queues of one client.
pub(crate) struct LocalQueues {
    map: Map<QueueName, LocalQueue>,
    streak: Streak,
    /// Notified when a waiter got a place in a queue in Redis.
    in_redis: Notify,
}

impl LocalQueues {
    pub(crate) fn new(streak: Streak) -> Self {
        LocalQueues {
            map: Map::default(),
            streak,
            in_redis: Notify::new(),
        }
    }

    /// Joins the queue of a resource. The first waiter becomes its contender.
    pub(crate) fn enter(&self, resource: &Arc<Resource>, waiter: &Arc<Waiter>) {
        let make = || LocalQueue::new(resource.clone());
        let mut queue = self.map.get_or_insert_with(resource.queue_name(), make);
        if resource.kind.contenders() == Contenders::All {
            queue.waiters.insert(waiter.id, waiter.clone());
            waiter.set_signal(queue.contend(None));
            return;
        }
        let QueueState::Vacant { yielding } = &mut queue.state else {
            queue.waiters.insert(waiter.id, waiter.clone());
            return;
        };
        let yielding = yielding.take();
        let yielding = yielding.filter(|yielding| yielding.until > Instant::now());
        // It takes its signal before it sleeps, so it needs no notification.
        drop(queue.set_contender(waiter.clone(), yielding));
    }

    pub(crate) fn is_occupied(&self, resource: &Resource) -> bool {
        let nobody = |queue: &LocalQueue| matches!(queue.state, QueueState::Vacant { .. });
        resource.kind.contenders() == Contenders::All
            || self
                .map
                .get(resource.queue_name())
                .is_some_and(|queue| !nobody(&queue))
    }

    /// Whether this client holds the lock, and is not releasing it, or waits for it. Readers count
    /// only while they wait.
    pub(crate) fn is_in_use(&self, resource: &Resource) -> bool {
        let in_use = |queue: &LocalQueue| queue.holder().is_some() || queue.waiting() > 0;
        self.map
            .get(resource.queue_name())
            .is_some_and(|queue| in_use(&queue))
    }

    /// A waiter leaves without the lock. If it was the contender, the next waiter becomes that.
    pub(crate) fn leave(&self, resource: &Resource, waiter: &Arc<Waiter>) {
        self.settle(resource.queue_name(), |queue| {
            if queue.is_contender(waiter) {
                return queue.promote(None);
            }
            queue.waiters.remove(&waiter.id);
            Next::Empty
        });
    }

    /// The latch was open when the contender asked, so it is open for all waiters that came before
    /// that question.
    pub(crate) fn opened(&self, resource: &Resource, contender: &Arc<Waiter>, asked: Instant) {
        let mut let_in: Vec<Arc<Waiter>> = Vec::new();
        self.settle(resource.queue_name(), |queue| {
            let all = std::mem::take(&mut queue.waiters).into_iter();
            let (older, later): (BTreeMap<_, _>, _) = all.partition(|(_, one)| one.since < asked);
            (let_in, queue.waiters) = (older.into_values().collect(), later);
            for waiter in &let_in {
                waiter.set_signal(WaiterSignal::Open);
            }
            if queue.is_contender(contender) {
                queue.promote(None)
            } else {
                Next::Same
            }
        });
        for waiter in let_in {
            waiter.notify();
        }
    }

    /// The contender got the lock from Redis.
    pub(crate) fn granted(
        &self,
        resource: &Resource,
        contender: &Arc<Waiter>,
        (hold, at): (&Arc<Hold>, Instant),
        yielded: Yielded,
    ) {
        self.settle(resource.queue_name(), |queue| {
            queue.waiters.remove(&contender.id);
            if !queue.is_contender(contender) {
                return Next::Empty;
            }
            if resource.kind.contenders() == Contenders::Successive {
                return queue.promote(None);
            }
            let next = queue.set_holder(hold, at);
            queue.turns.granted(yielded, resource.kind.wait_mode());
            next
        });
    }

    /// The last guard of a hold is gone. If allowed, gives the hold that `pass` makes in its place
    /// to the next waiter. `None`: release the hold in Redis, then call [`vacate`](Self::vacate).
    ///
    /// `pass` is called with the shard locked, so it must not re-enter this module or call foreign
    /// code.
    pub(crate) fn hand_over(
        &self,
        hold: &Arc<Hold>,
        terms: HoldTerms,
        pass: impl FnOnce(HoldTerms) -> Arc<Hold>,
    ) -> Option<Arc<Hold>> {
        let mut queue = self.map.get_mut(hold.resource.queue_name())?;
        let mut hand_overs = queue.hand_overs_of(hold)?;
        if queue.waiters.is_empty() {
            return None;
        }
        let bounded =
            hand_overs.count >= self.streak.count || hand_overs.since.elapsed() >= self.streak.time;
        let may_pass =
            !bounded && hold.resource.kind.hands_over() && terms.renewed && hold.can_hand_over();
        let continues = |next: &&Arc<Waiter>| next.terms.continue_lease(hold.longest_lease());
        let next = queue.waiters.values().next().filter(|_| may_pass);
        let next = next.filter(continues)?.clone();
        queue.waiters.remove(&next.id);
        hand_overs.count += 1;
        let hold = pass(next.terms);
        // The queue must know the hold before anybody else does (QUEUE-4).
        queue.state = QueueState::Held {
            hold: hold.clone(),
            hand_overs,
        };
        next.set_signal(WaiterSignal::HandedOver(hold.clone()));
        drop(queue);
        next.notify();
        Some(hold)
    }

    /// A hold is gone, released or lost: the next waiter asks Redis.
    ///
    /// Other clients that received the release message get time to ask first. After a writer, so do
    /// readers of this client. Both learn of the release at the same time, but the writer learns of
    /// it in memory, which is faster.
    pub(crate) fn vacate(&self, hold: &Hold, audience: Audience) {
        let readers = hold
            .resource
            .queue_of_readers()
            .is_some_and(|queue| self.wake_contender(&queue));
        self.settle(hold.resource.queue_name(), |queue| {
            if !queue.is_held_by(hold) {
                return Next::Same;
            }
            let readers = i64::from(readers);
            let to_others = match audience {
                Audience::Unlisted => Some(Yield::to_listening(1)),
                Audience::Others(0) => queue.turns.yields_to(0),
                Audience::Others(receivers) => queue.turns.yields_to(receivers + readers),
            };
            let to_readers = (readers > 0).then(|| Yield::to(readers, SHORTEST));
            queue.promote(to_others.or(to_readers).map(Box::new))
        });
    }

    /// Wakes every waiter of every queue, after a reconnect and on shutdown.
    pub(crate) fn wake_all(&self) {
        for (_, waiter) in self.waiters(|_| true) {
            waiter.wake();
        }
    }

    /// Wakes waiters whose timers should have fired before `then`. Their runtime is stalled, so
    /// they hold up others. A waiter that is woken and not polled is cancelled.
    pub(crate) fn wake_overslept(&self, then: Instant) {
        for (_, waiter) in self.waiters(|waiter| waiter.overslept(then)) {
            waiter.notify();
        }
    }

    /// The chosen waiters of all queues, in the order in which they came. Hash order would make
    /// simulations irreproducible. Wake them when no queue is locked.
    fn waiters(&self, chosen: impl Fn(&Waiter) -> bool) -> Vec<(Arc<Resource>, Arc<Waiter>)> {
        let chosen_of = |queue: &LocalQueue| {
            let chosen = queue.all_waiters().filter(|waiter| chosen(waiter));
            let pair = |waiter: &Arc<Waiter>| (queue.resource.clone(), waiter.clone());
            Some(chosen.map(pair).collect::<Vec<_>>())
        };
        let mut waiters: Vec<_> = self.map.collect(|_, queue| chosen_of(queue)).concat();
        waiters.sort_by_key(|(_, waiter)| waiter.id);
        waiters
    }

    /// Holds that are over but have not left their queues.
    pub(crate) fn stale_holds(&self, now: Moment) -> Vec<Arc<Hold>> {
        let mut holds = self.map.collect(|_, queue| queue.stale_hold(now));
        holds.sort_by_key(|hold| hold.id);
        holds
    }

    /// True if the contender has found a key without an expiry.
    pub(crate) fn met_no_expiry(&self, resource: &Resource) -> bool {
        self.contender(resource.queue_name())
            .is_some_and(|contender| contender.met_no_expiry())
    }

    /// Wakes the contender of a queue, if there is one. Returns this client's hold that the queue
    /// waits for, if there is one.
    pub(crate) fn nudge(&self, queue: &QueueName) -> Option<Arc<Hold>> {
        self.wake_contender(queue);
        self.holder(queue)
    }

    /// Lets the contender of a queue ask. False if there is none.
    fn wake_contender(&self, queue: &QueueName) -> bool {
        let contender = self.contender(queue);
        contender.inspect(|contender| contender.wake()).is_some()
    }

    fn contender(&self, queue: &QueueName) -> Option<Arc<Waiter>> {
        self.map.get(queue)?.contender().cloned()
    }

    /// This client's hold that a queue waits for, unless it is being released.
    pub(crate) fn holder(&self, queue: &QueueName) -> Option<Arc<Hold>> {
        self.map.get(queue)?.holder()
    }

    /// Removes queues that only remembered other clients.
    pub(crate) fn sweep(&self) {
        self.map.retain(|queue| !queue.is_over());
    }

    /// The resources whose waiters sleep without asking, for the safety poll.
    pub(crate) fn waited_for(&self) -> Vec<Arc<Resource>> {
        let waits = |queue: &LocalQueue| match &queue.state {
            QueueState::Contending(_) => queue.resource.kind.wait_mode().listens(),
            QueueState::Held { hold, .. } => hold.is_live() && !queue.waiters.is_empty(),
            QueueState::Vacant { .. } => false,
        };
        let mut resources = self.map.collect(|_, queue| {
            let is_polled = queue.resource.kind.is_polled_by_key() && waits(queue);
            is_polled.then(|| queue.resource.clone())
        });
        resources.sort_by(|one, other| one.queue_name().cmp(other.queue_name()));
        resources
    }

    pub(crate) fn len(&self) -> usize {
        self.map.count()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.map.sum(LocalQueue::waiting)
    }

    /// Changes a queue under its lock, and notifies the affected waiter after unlocking. Removes a
    /// queue that is unused, unless it must be remembered (QUEUE-1).
    fn settle(&self, queue: &QueueName, change: impl FnOnce(&mut LocalQueue) -> Next) {
        let next = self.map.change(queue, |queue| {
            let next = change(queue);
            let is_over = matches!(next, Next::Empty) && queue.is_over();
            (next, is_over)
        });
        if let Some(Next::Notify(waiter)) = next {
            waiter.notify();
        }
    }
}

impl fmt::Debug for LocalQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueues")
            .field("queues", &self.map.count())
            .finish_non_exhaustive()
    }
}

// One local queue: its holder or contender, its waiters, and what it remembers about other
// clients.

struct LocalQueue {
    resource: Arc<Resource>,
    state: QueueState,
    /// The waiters that are not the contender. If Redis keeps the order, each of them asks for
    /// itself.
    /// By id, which is the order in which they came.
    waiters: BTreeMap<u64, Arc<Waiter>>,
    turns: Turns,
}

enum QueueState {
    /// This waiter asks Redis on behalf of all.
    Contending(Arc<Waiter>),
    /// This client's hold has the lock or is being released.
    Held {
        hold: Arc<Hold>,
        hand_overs: HandOvers,
    },
    /// Neither. If `yielding`, the next waiter lets other clients go first.
    Vacant { yielding: Option<Box<Yield>> },
}

/// The hand-overs since Redis granted the lock to this client.
#[derive(Clone, Copy)]
struct HandOvers {
    count: u32,
    since: Instant,
}

/// What is left to do after a change, once the queue is unlocked.
#[must_use = "a waiter that is not notified sleeps on"]
enum Next {
    Same,
    Notify(Arc<Waiter>),
    /// Nobody is left, or perhaps nobody.
    Empty,
}

impl LocalQueue {
    fn new(resource: Arc<Resource>) -> Self {
        LocalQueue {
            resource,
            state: QueueState::Vacant { yielding: None },
            waiters: BTreeMap::new(),
            turns: Turns::default(),
        }
    }

    /// Makes the next waiter the contender.
    fn promote(&mut self, yielding: Option<Box<Yield>>) -> Next {
        if let Some((_, next)) = self.waiters.pop_first() {
            self.set_contender(next, yielding)
        } else {
            self.state = QueueState::Vacant { yielding };
            Next::Empty
        }
    }

    fn set_contender(&mut self, next: Arc<Waiter>, yielding: Option<Box<Yield>>) -> Next {
        if let Some(before) = self.contender() {
            next.learns_from(before);
        }
        next.set_signal(self.contend(yielding));
        self.state = QueueState::Contending(next.clone());
        Next::Notify(next)
    }

    fn contend(&self, yielding: Option<Box<Yield>>) -> WaiterSignal {
        let crowded = self.waiters.len() > 1;
        WaiterSignal::Contend { yielding, crowded }
    }

    /// A hold that Redis has just granted now has the lock, unless it ended before: then it may
    /// already have tried to leave the queue (QUEUE-4).
    fn set_holder(&mut self, hold: &Arc<Hold>, at: Instant) -> Next {
        if hold.has_ended() {
            return self.promote(None);
        }
        self.state = QueueState::Held {
            hold: hold.clone(),
            hand_overs: HandOvers {
                count: 0,
                since: at,
            },
        };
        Next::Same
    }

    fn is_contender(&self, waiter: &Arc<Waiter>) -> bool {
        self.contender()
            .is_some_and(|contender| Arc::ptr_eq(contender, waiter))
    }

    fn contender(&self) -> Option<&Arc<Waiter>> {
        match &self.state {
            QueueState::Contending(contender) => Some(contender),
            QueueState::Held { .. } | QueueState::Vacant { .. } => None,
        }
    }

    fn all_waiters(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.contender().into_iter().chain(self.waiters.values())
    }

    fn waiting(&self) -> usize {
        self.waiters.len() + usize::from(self.contender().is_some())
    }

    /// True if nobody uses the queue and nothing in it is worth remembering.
    fn is_over(&self) -> bool {
        let QueueState::Vacant { yielding } = &self.state else {
            return false;
        };
        let rests = yielding
            .as_ref()
            .is_some_and(|yielding| Instant::now() < yielding.until);
        !rests && !self.turns.remembers_pollers() && self.waiters.is_empty()
    }

    fn is_held_by(&self, hold: &Hold) -> bool {
        self.hand_overs_of(hold).is_some()
    }

    /// The hand-overs so far, if the queue is held by this hold.
    fn hand_overs_of(&self, hold: &Hold) -> Option<HandOvers> {
        match &self.state {
            QueueState::Held {
                hold: holder,
                hand_overs,
            } if holder.id == hold.id => Some(*hand_overs),
            _ => None,
        }
    }

    /// The hold that has the lock, unless it is being released.
    fn holder(&self) -> Option<Arc<Hold>> {
        match &self.state {
            QueueState::Held { hold, .. } if hold.is_live() => Some(hold.clone()),
            _ => None,
        }
    }

    /// The hold that the queue is held by although it is over. QUEUE-4 rules that out.
    fn stale_hold(&self, now: Moment) -> Option<Arc<Hold>> {
        match &self.state {
            QueueState::Held { hold, .. } if hold.is_over(now) => Some(hold.clone()),
            _ => None,
        }
    }
}

// Waiters that have a place in a queue in Redis: those of fair locks.

/// Waiters in a queue in Redis, each with its field.
pub(crate) type RedisQueue = Vec<(Arc<str>, Arc<Waiter>)>;

impl LocalQueues {
    /// The resources with waiters in queues in Redis.
    pub(crate) fn with_redis_queues(&self) -> Vec<Arc<Resource>> {
        let in_redis_queue = |queue: &LocalQueue| {
            queue
                .waiters
                .values()
                .any(|waiter| waiter.field_in_redis_queue().is_some())
        };
        let resource = |queue: &LocalQueue| in_redis_queue(queue).then(|| queue.resource.clone());
        let mut resources = self.map.collect(|_, queue| resource(queue));
        resources.sort_by(|one, other| one.queue_name().cmp(other.queue_name()));
        resources
    }

    /// A waiter has a place in the queue in Redis. `kept` is when the call that last kept the place
    /// was sent. `handover_provable_since` is set if it is the first that asked for a place.
    pub(crate) fn record_place(
        &self,
        waiter: &Waiter,
        field: &Arc<str>,
        refreshed: Moment,
        handover_provable_since: Option<ConnectionEpoch>,
    ) {
        waiter.record_place(field, refreshed, handover_provable_since);
        self.in_redis.notify_one();
    }

    /// The last waiters of this client in the queue in Redis that came before this one, the last
    /// one first.
    pub(crate) fn ahead_of(&self, resource: &Resource, waiter: &Waiter) -> Vec<Arc<str>> {
        let Some(queue) = self.map.get(resource.queue_name()) else {
            return Vec::new();
        };
        let ahead = queue.waiters.range(..waiter.id).rev();
        let fields = ahead.filter_map(|(_, waiter)| waiter.field_in_redis_queue());
        fields.take(NAMED).collect()
    }

    /// Resolves when a waiter has got a place in a queue in Redis, perhaps in a queue that was
    /// empty.
    pub(crate) async fn newcomer_in_redis(&self) {
        self.in_redis.notified().await;
    }

    /// The waiters of a local queue that are also in the queue in Redis.
    pub(crate) fn in_redis_queue(&self, queue: &QueueName) -> RedisQueue {
        let in_redis_queue =
            |waiter: &Arc<Waiter>| Some((waiter.field_in_redis_queue()?, waiter.clone()));
        let Some(queue) = self.map.get(queue) else {
            return RedisQueue::new();
        };
        queue.waiters.values().filter_map(in_redis_queue).collect()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
