//! Latches: nobody passes a closed one, nobody hangs at an open one, every count counts once.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::{CountDownLatch, Lease};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::permits::since;
use super::player::{Manner, Player};
use super::world::World;
use crate::plan::{ms, us};

/// What is known of a latch. It is set, counted down and opened in rounds; between two rounds
/// whatever was in doubt has come to an end.
#[derive(Debug, Default)]
struct Round {
    /// Tells it from those before.
    since: Option<Instant>,
    count: i64,
    /// Since when it is surely closed; nothing that might open it has begun.
    closed_since: Option<Instant>,
    /// Counts that may still be begun.
    tickets: i64,
    begun: i64,
    done: i64,
    in_doubt: i64,
    /// What counts were told that is left; no two the same.
    lefts: Vec<i64>,
    /// It is being set or deleted, or the server forgot it.
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
struct Shared(Arc<Mutex<Vec<Round>>>);

pub(crate) struct Game {
    shared: Shared,
    /// Since when somebody waits at an open latch.
    idle: BTreeMap<u64, Instant>,
    rng: fastrand::Rng,
}

fn name_of(number: usize) -> String {
    format!("latch:{number}")
}

impl Game {
    pub(crate) fn new(world: &World) -> Self {
        let rounds = (0..world.plan.names).map(|_| Round { void: true, ..Round::default() });
        let shared = Shared(Arc::new(Mutex::new(rounds.collect())));
        let rng = fastrand::Rng::with_seed(world.plan.seed ^ 0x7E11);
        Game { shared, idle: BTreeMap::new(), rng }
    }

    fn check_count(&self, world: &World, number: usize, count: i64) {
        let round = &self.shared.0.lock()[number];
        let least = (round.count - round.begun).max(0);
        let most = (round.count - round.done).max(0);
        if !round.void && !(least..=most).contains(&count) {
            world.book.log.violation(format!("the count is {count}: {round:?}"));
        }
    }

    /// Somebody tells of the count of a closed latch, as Redisson does of a new one. Never of an open
    /// one: a wake that was lost stays lost.
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

/// What the server has.
fn count_of(world: &World, number: usize) -> i64 {
    let dump = world.engines[0].dump();
    let text = |entry: &leasehold::test_util::Dumped| {
        String::from_utf8_lossy(&entry.content[0]).parse().expect("a number")
    };
    dump.get(name_of(number).as_bytes()).map_or(0, text)
}

impl super::world::Game for Game {
    fn play(&self, player: Player) -> BoxFuture<'static, ()> {
        let user = User { player, shared: self.shared.clone() };
        let who = user.player.who;
        // A latch that nobody sets is always open.
        if who.process == 0 && who.actor < user.player.plan.names {
            return user.direct(who.actor).boxed();
        }
        user.run().boxed()
    }

    fn look(&mut self, world: &World) {
        let mut idle = Vec::new();
        for number in 0..world.plan.names {
            let count = count_of(world, number);
            self.check_count(world, number, count);
            if count == 0 {
                let wishes = world.book.wishes();
                let here = wishes.into_iter().filter(|(_, wish)| wish.names[0] == number);
                idle.extend(here.map(|(id, _)| id));
            }
            self.tell(world, number);
        }
        since(&mut self.idle, idle);
        if let Some(limit) = world.plan.prompt_within() {
            world.complain("waits at an open latch:", &self.idle, limit);
        }
    }

    fn forgets(&mut self, world: &World, _engine: usize) {
        (0..world.plan.names).for_each(|number| self.void(number));
    }

    fn evict(&mut self, world: &World, engine: usize, rng: &mut fastrand::Rng) {
        let number = rng.usize(0..world.plan.names);
        world.book.log.note(&format!("{} is evicted", name_of(number)));
        self.void(number);
        world.engines[engine].lose(&name_of(number));
    }

    fn repair<'a>(&'a mut self, _world: &'a World) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn left<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Vec<String>> {
        let keys = world.engines[0].dump().into_keys();
        let left = keys.map(|key| format!("key {}", String::from_utf8_lossy(&key))).collect();
        std::future::ready(left).boxed()
    }
}

struct User {
    player: Player,
    shared: Shared,
}

impl User {
    fn latch(&self, number: usize) -> CountDownLatch {
        self.player.clients[0].count_down_latch(name_of(number))
    }

    /// Waits and counts.
    async fn run(mut self) {
        let names = self.player.plan.names;
        let latches: Vec<_> = (0..names).map(|number| self.latch(number)).collect();
        while !self.player.is_over() {
            self.player.rests().await;
            let number = self.player.rng.usize(0..names);
            if self.player.rng.bool() {
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
        let cancels = self.player.rng.u8(0..6) == 0;
        let cancel_at = cancels.then(|| us(self.player.rng.u64(0..20_000)));
        let counted = self.player.cancelled_at(cancel_at, latch.count_down()).await;
        self.player.note(&format!("counts {number} down: {counted:?}"));
        let mut rounds = self.shared.0.lock();
        let round = &mut rounds[number];
        if round.since != since {
            return;
        }
        let left = match counted {
            Some(Ok(left)) => left,
            Some(Err(leasehold::Error::Unavailable { .. })) => {
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
            self.player.violation(&format!("was told that {left} are left: {round:?}"));
        }
        round.lefts.push(left);
    }

    async fn wait(&mut self, latch: &CountDownLatch, number: usize) {
        let manner = Manner { lease: Lease::Renewed, ..self.player.manner() };
        let wish = self.player.wish(vec![number], 1);
        self.player.note(&format!("waits for {number}: {manner:?}"));
        let waiting = self.player.book.waits(wish.clone());
        let passed = self.player.cancelled_at(manner.cancel_at, latch.wait(manner.patience()));
        let passed = passed.await;
        drop(waiting);
        self.player.note(&format!("has waited for {number}: {passed:?}"));
        self.player.check_wait(manner, wish.since);
        match passed {
            Some(Ok(())) => {
                let round = &self.shared.0.lock()[number];
                if round.closed_since.is_some_and(|closed| closed <= wish.since) {
                    self.player.violation(&format!("passed a closed latch: {round:?}"));
                }
            }
            Some(Err(error)) => {
                self.player.refused(&error);
                if error.may_be_held() {
                    self.player.violation(&format!("a wait takes nothing: {error}"));
                }
            }
            None => {}
        }
    }

    /// Sets the latch again and again, and sees that each time it is opened.
    async fn direct(mut self, number: usize) {
        let latch = self.latch(number);
        while !self.player.is_over() {
            self.player.rests().await;
            if self.set(&latch, number).await {
                if self.player.rng.u8(0..4) == 0 {
                    sleep(us(self.player.rng.u64(0..400_000))).await;
                    self.delete(&latch, number).await;
                } else {
                    self.open(&latch, number).await;
                }
                // Long enough to see who hangs.
                if self.player.rng.bool() {
                    let long = self.player.plan.prompt_within().unwrap_or_default() + ms(100);
                    sleep(long).await;
                }
            }
            self.quiet(number).await;
        }
        self.delete(&latch, number).await;
    }

    /// Whatever was sent comes to an end.
    async fn quiet(&self, number: usize) {
        self.shared.0.lock()[number].tickets = 0;
        let patience = Instant::now() + ms(6000);
        // Who counts may have died.
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
        let count = self.player.rng.u32(1..6);
        let extra = self.player.rng.i64(0..3);
        self.shared.0.lock()[number] = Round { void: true, ..Round::default() };
        let set = latch.try_set_count(count).await;
        self.player.note(&format!("sets {number} to {count}: {set:?}"));
        let broken = self.shared.0.lock()[number].broken;
        if matches!(set, Ok(true)) && !broken {
            let count = i64::from(count);
            let (closed_since, tickets) = (Some(Instant::now()), count + extra);
            self.shared.0.lock()[number] =
                Round { since: closed_since, count, closed_since, tickets, ..Round::default() };
            return true;
        }
        if self.player.plan.is_calm() {
            self.player.violation(&format!("cannot set a latch: {set:?}"));
        }
        // Perhaps it was set.
        sleep(ms(2500)).await;
        self.delete(latch, number).await;
        false
    }

    /// Until enough has been counted.
    async fn open(&mut self, latch: &CountDownLatch, number: usize) {
        while !self.player.is_over() {
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
                Err(error) => self.player.note(&format!("cannot see the count: {error}")),
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
            self.player.note(&format!("deletes {number}: {deleted:?}"));
            match deleted {
                Ok(_) => return,
                Err(error) if self.player.plan.is_calm() => {
                    return self.player.violation(&format!("cannot delete a latch: {error}"));
                }
                Err(_) => sleep(ms(50)).await,
            }
        }
    }
}
