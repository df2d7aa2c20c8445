//! Latches. Invariants: nobody passes a latch that was closed all the time; nobody waits at an open
//! one; each count counts once, and at most once if its outcome is unknown.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use leasehold::{CountDownLatch, Error};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::lasting::Lasting;
use crate::ledger::Wish;
use crate::plan::{Plan, ms, name_of, us};
use crate::user::{Request, User, Users};
use crate::workload::Workload;
use crate::world::World;

/// What is known about a latch. It is set, counted down and opened in rounds. Between two rounds,
/// everything in doubt is settled.
#[derive(Debug, Default)]
struct Round {
    /// Distinguishes it from earlier rounds.
    since: Option<Instant>,
    count: i64,
    /// Since when it is certainly closed, with nothing started that might open it.
    closed_since: Option<Instant>,
    /// Counts that may still be started.
    tickets: i64,
    begun: i64,
    done: i64,
    in_doubt: i64,
    /// The numbers that counts returned, no two of which may be equal.
    lefts: Vec<i64>,
    /// The latch is being set or deleted, or the server forgot it.
    void: bool,
    /// The server forgot it.
    broken: bool,
}

impl Round {
    fn under_way(&self) -> i64 {
        self.begun - self.done - self.in_doubt
    }
}

#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Vec<Round>>>);

pub(crate) struct Latches {
    shared: Shared,
    /// Waits at an open latch.
    idle: Lasting<u64>,
    rng: Rng,
}

impl Latches {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rounds = (0..plan.names).map(|_| Round {
            void: true,
            ..Round::default()
        });
        let shared = Shared(Arc::new(Mutex::new(rounds.collect())));
        Latches {
            shared,
            idle: Lasting::default(),
            rng: plan.kind.rng(plan.seed, 0x7E11),
        }
    }

    fn check_count(&self, world: &World, number: usize, count: i64) {
        let round = &self.shared.0.lock()[number];
        let least = (round.count - round.begun).max(0);
        let most = (round.count - round.done).max(0);
        if !round.void && !(least..=most).contains(&count) {
            world
                .ledger
                .violation(format!("the count is {count}: {round:?}"));
        }
    }

    /// Publishes the count of a closed latch, as Redisson does for a new one. Never for an open
    /// one, because a lost wake-up must stay lost.
    fn tell(&mut self, world: &World, number: usize) {
        let closed = self.shared.0.lock()[number].closed_since.is_some();
        if closed && self.rng.u8(0..12) == 0 {
            let channel = format!("redisson_countdownlatch__channel__{{{}}}", name_of(number));
            drop(world.engines[0].command(&["PUBLISH", &channel, "1"]));
        }
    }

    fn void(&self, number: usize) {
        let mut rounds = self.shared.0.lock();
        rounds[number].void = true;
        rounds[number].broken = true;
        rounds[number].closed_since = None;
    }
}

/// The count on the server.
fn count_of(world: &World, number: usize) -> i64 {
    let dump = world.engines[0].dump();
    let text = |entry: &leasehold::test_util::Dumped| {
        String::from_utf8_lossy(&entry.content[0])
            .parse()
            .expect("a number")
    };
    dump.get(name_of(number).as_bytes()).map_or(0, text)
}

impl Workload for Latches {
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users {
        let names = world.plan.names;
        world.users(process, rng, &self.shared, |user| match user.actor.number {
            // A latch that nobody sets is always open.
            number if process == 0 && number < names => user.direct(number).boxed(),
            _ => user.run().boxed(),
        })
    }

    fn look(&mut self, world: &World) {
        let mut idle = Vec::new();
        for number in 0..world.plan.names {
            let count = count_of(world, number);
            self.check_count(world, number, count);
            if count == 0 {
                let wishes = world.ledger.wishes();
                let here = wishes
                    .into_iter()
                    .filter(|(_, wish)| wish.names[0] == number);
                idle.extend(here.map(|(id, _)| id));
            }
            self.tell(world, number);
        }
        self.idle.are(idle);
        self.idle.check(
            &world.ledger,
            "waits at an open latch:",
            world.plan.prompt_within(),
        );
    }

    fn forgets(&mut self, _world: &World, _engine: usize, names: &[usize]) {
        for name in names {
            self.void(*name);
        }
    }
}

impl User<Shared> {
    fn latch(&self, number: usize) -> CountDownLatch {
        self.clients[0].count_down_latch(name_of(number))
    }

    /// Waits and counts.
    async fn run(mut self) {
        let names = self.plan.names;
        let latches: Vec<_> = (0..names).map(|number| self.latch(number)).collect();
        while !self.is_over() {
            self.pauses().await;
            let number = self.rng.usize(0..names);
            if self.rng.bool() {
                self.count(&latches[number], number).await;
            } else {
                self.wait(&latches[number], number).await;
            }
        }
    }

    async fn count(&mut self, latch: &CountDownLatch, number: usize) {
        let since = {
            let mut rounds = self.shared.0.lock();
            let round = &mut rounds[number];
            if round.tickets == 0 {
                return;
            }
            round.tickets -= 1;
            round.begun += 1;
            if round.begun >= round.count {
                round.closed_since = None;
            }
            round.since
        };
        let cancels = self.rng.u8(0..6) == 0;
        let cancel_at = cancels.then(|| us(self.rng.u64(0..20_000)));
        let counted = self.cancelled_at(cancel_at, latch.count_down()).await;
        self.note(&format!("counts {number} down: {counted:?}"));
        let mut rounds = self.shared.0.lock();
        let round = &mut rounds[number];
        if round.since != since {
            return;
        }
        let left = match counted {
            Some(Ok(left)) => left,
            Some(Err(Error::Unavailable { .. })) => {
                round.begun -= 1;
                return;
            }
            _ => {
                round.in_doubt += 1;
                return;
            }
        };
        round.done += 1;
        let again = left > 0 && round.lefts.contains(&left);
        if !round.void && (again || left < 0 || left >= round.count) {
            self.violation(&format!("was told that {left} are left: {round:?}"));
        }
        round.lefts.push(left);
    }

    async fn wait(&mut self, latch: &CountDownLatch, number: usize) {
        let Request {
            wait, cancel_at, ..
        } = self.request();
        let wish = Wish::new(self.actor, vec![number]);
        self.note(&format!("waits for {number}: {wait:?}, {cancel_at:?}"));
        let waiting = self.ledger.waits(wish.clone());
        let passing = latch.wait(wait.unwrap_or(Duration::MAX));
        let passed = self.cancelled_at(cancel_at, passing).await;
        drop(waiting);
        self.note(&format!("has waited for {number}: {passed:?}"));
        self.check_wait(wait, wish.since);
        match passed {
            Some(Ok(())) => {
                let round = &self.shared.0.lock()[number];
                if round
                    .closed_since
                    .is_some_and(|closed| closed <= wish.since)
                {
                    self.violation(&format!("passed a closed latch: {round:?}"));
                }
            }
            Some(Err(error)) => {
                self.refused(wait, &error);
                if error.may_be_held() {
                    self.violation(&format!("a wait takes nothing: {error}"));
                }
            }
            None => {}
        }
    }

    /// Sets the latch again and again, and sees that each time it is opened.
    async fn direct(mut self, number: usize) {
        let latch = self.latch(number);
        while !self.is_over() {
            self.pauses().await;
            if self.set(&latch, number).await {
                if self.rng.u8(0..4) == 0 {
                    sleep(us(self.rng.u64(0..400_000))).await;
                    self.delete(&latch, number).await;
                } else {
                    self.open(&latch, number).await;
                }
                // Long enough to notice waiters that hang.
                if self.rng.bool() {
                    let long = self.plan.prompt_within().unwrap_or_default() + ms(100);
                    sleep(long).await;
                }
            }
            self.quiet(number).await;
        }
        self.delete(&latch, number).await;
    }

    /// Waits until every call has ended.
    async fn quiet(&self, number: usize) {
        self.shared.0.lock()[number].tickets = 0;
        let patience = Instant::now() + ms(6000);
        // A client that counts may have died.
        while self.shared.0.lock()[number].under_way() > 0 && Instant::now() < patience {
            sleep(ms(20)).await;
        }
        let sure = {
            let round = &self.shared.0.lock()[number];
            round.in_doubt == 0 && !round.void
        };
        sleep(if sure { ms(5) } else { ms(2500) }).await;
    }

    async fn set(&mut self, latch: &CountDownLatch, number: usize) -> bool {
        let count = self.rng.u32(1..6);
        let extra = self.rng.i64(0..3);
        self.shared.0.lock()[number] = Round {
            void: true,
            ..Round::default()
        };
        let set = latch.try_set_count(count).await;
        self.note(&format!("sets {number} to {count}: {set:?}"));
        let broken = self.shared.0.lock()[number].broken;
        if matches!(set, Ok(true)) && !broken {
            let count = i64::from(count);
            let (closed_since, tickets) = (Some(Instant::now()), count + extra);
            self.shared.0.lock()[number] = Round {
                since: closed_since,
                count,
                closed_since,
                tickets,
                ..Round::default()
            };
            return true;
        }
        if self.plan.is_calm() {
            self.violation(&format!("cannot set a latch: {set:?}"));
        }
        // Perhaps it was set.
        sleep(ms(2500)).await;
        self.delete(latch, number).await;
        false
    }

    /// Waits until enough has been counted.
    async fn open(&mut self, latch: &CountDownLatch, number: usize) {
        while !self.is_over() {
            sleep(ms(20)).await;
            if self.shared.0.lock()[number].tickets > 0 {
                self.count(latch, number).await;
                continue;
            }
            match latch.count().await {
                Ok(0) => return,
                Ok(count) => {
                    let mut rounds = self.shared.0.lock();
                    if rounds[number].under_way() == 0 {
                        rounds[number].tickets += count;
                    }
                }
                Err(error) => self.note(&format!("cannot see the count: {error}")),
            }
        }
    }

    async fn delete(&mut self, latch: &CountDownLatch, number: usize) {
        {
            let mut rounds = self.shared.0.lock();
            rounds[number].void = true;
            rounds[number].closed_since = None;
        }
        loop {
            let deleted = latch.delete().await;
            self.note(&format!("deletes {number}: {deleted:?}"));
            match deleted {
                Ok(_) => return,
                Err(error) if self.plan.is_calm() => {
                    return self.violation(&format!("cannot delete a latch: {error}"));
                }
                Err(_) => sleep(ms(50)).await,
            }
        }
    }
}
