//! One user of semaphores.

use std::time::Duration;

use leasehold::{Error, PermitExpirableSemaphore, Semaphore};
use tokio::time::{Instant, sleep};

use super::book::{Entry, Held};
use super::permits::{Shared, name_of};
use super::plan::Sort;
use super::player::{Manner, Player};
use crate::plan::{ms, us};

pub(crate) struct User {
    pub(crate) player: Player,
    pub(crate) shared: Shared,
}

/// Either sort.
#[derive(Debug)]
enum Named {
    Plain(Semaphore),
    Expirable(PermitExpirableSemaphore),
}

impl Named {
    async fn try_set(&self, permits: u32) -> Result<bool, Error> {
        match self {
            Named::Plain(semaphore) => semaphore.try_set_permits(permits).await,
            Named::Expirable(semaphore) => semaphore.try_set_permits(permits).await,
        }
    }

    async fn add(&self, change: i64) -> Result<(), Error> {
        match self {
            Named::Plain(semaphore) => semaphore.add_permits(change).await,
            Named::Expirable(semaphore) => semaphore.add_permits(change).await,
        }
    }

    async fn take(&self, permits: u32, manner: Manner) -> Result<Held, Error> {
        match self {
            Named::Plain(semaphore) => {
                let taken = match manner.wait {
                    Some(wait) => semaphore.try_acquire(permits, wait).await,
                    None => semaphore.acquire(permits).await,
                };
                taken.map(Held::Semaphore)
            }
            Named::Expirable(semaphore) => {
                let (wait, lease) = (manner.patience(), manner.lease);
                let taken = match permits {
                    1 if manner.wait.is_none() => semaphore.acquire(lease).await,
                    1 => semaphore.try_acquire(wait, lease).await,
                    _ => semaphore.try_acquire_many(permits, wait, lease).await,
                };
                taken.map(Held::Permit)
            }
        }
    }
}

impl User {
    pub(crate) async fn run(mut self) {
        let plan = self.player.plan.clone();
        let named = |number| {
            let (client, name) = (&self.player.clients[0], name_of(number));
            match self.shared.sort {
                Sort::Permits => Named::Expirable(client.permit_expirable_semaphore(name)),
                _ => Named::Plain(client.semaphore(name)),
            }
        };
        let all: Vec<_> = (0..plan.names).map(named).collect();
        for (number, named) in all.iter().enumerate() {
            self.set(named, number).await;
        }
        while !self.player.is_over() {
            self.player.rests().await;
            let number = self.player.rng.usize(0..plan.names);
            let named = &all[number];
            if self.player.rng.u8(0..8) == 0 {
                self.set(named, number).await;
            }
            if self.manages() && self.player.rng.bool() {
                for _ in 0..self.player.rng.u8(1..5) {
                    self.change(named, number).await;
                }
            }
            self.visit(named, number).await;
        }
    }

    /// One of all users changes the number of permits.
    fn manages(&self) -> bool {
        let who = self.player.who;
        self.player.plan.changes() && (who.process, who.actor) == (0, 0)
    }

    async fn set(&mut self, named: &Named, number: usize) {
        match named.try_set(self.player.plan.permits).await {
            Ok(true) => self.player.note(&format!("sets {number}")),
            Ok(false) => {}
            Err(error) => self.player.refused(&error),
        }
    }

    async fn visit(&mut self, named: &Named, number: usize) {
        let most = self.player.plan.permits.min(3);
        let permits = self.player.rng.u32(1..=most);
        let mut manner = self.player.manner();
        if self.player.plan.changes() {
            // There may be too few for good.
            manner.wait = Some(manner.wait.unwrap_or(ms(2000)));
        }
        let wish = self.player.wish(vec![number], permits);
        let taken = self.player.takes(&wish, manner, named.take(permits, manner)).await;
        let Some(entry) = taken else { return };
        self.shared.granted(&self.player.book, &entry);
        self.player.works(&entry).await;
        // Where it is not known what was kept, nothing else can be counted on.
        let rarely = if self.player.plan.is_calm() { 4 } else { 30 };
        match named {
            Named::Plain(semaphore) if self.manages() && self.player.rng.u8(0..rarely) == 0 => {
                self.keep(semaphore, number, entry).await;
            }
            Named::Expirable(semaphore) if self.player.rng.u8(0..12) == 0 => {
                self.forget(semaphore, entry).await;
            }
            Named::Expirable(semaphore) if self.player.rng.u8(0..12) == 0 => {
                self.steal(semaphore, number).await;
                self.player.lets_go(entry).await;
            }
            _ => self.player.lets_go(entry).await,
        }
    }

    /// Keeps permits for good, and gives them back by number.
    async fn keep(&mut self, semaphore: &Semaphore, number: usize, entry: Entry) {
        let permits = i64::from(entry.wish.permits);
        self.shared.totals.begins(number, -permits);
        let Held::Semaphore(permit) = self.player.book.leaves(entry) else { unreachable!() };
        permit.forget();
        self.player.note(&format!("keeps {permits}"));
        sleep(ms(100) + us(self.player.rng.u64(0..200_000))).await;
        if self.player.plan.is_calm() {
            // Redis has been told; else they may come back with the lease.
            self.shared.totals.ends(number, -permits, &Ok(()));
        }
        self.shared.totals.begins(number, permits);
        let wanted = u32::try_from(permits).expect("small");
        let released = semaphore.release(wanted).await;
        self.player.note(&format!("gives {permits}: {released:?}"));
        self.shared.totals.ends(number, permits, &released);
    }

    /// Leaves permits to their lease, or releases them by their ids.
    async fn forget(&mut self, semaphore: &PermitExpirableSemaphore, entry: Entry) {
        let (valid, ends) = (entry.is_valid(), entry.held.deadline());
        let Held::Permit(permit) = &*entry.held else { unreachable!() };
        let ids: Vec<_> = permit.ids().map(str::to_owned).collect();
        self.shared.forgotten.lock().extend(ids.iter().cloned());
        self.player.note(&format!("forgets {}", ids.len()));
        let Held::Permit(permit) = self.player.book.leaves(entry) else { unreachable!() };
        permit.forget();
        if self.player.rng.bool() {
            return;
        }
        sleep(us(self.player.rng.u64(0..100_000))).await;
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let released = semaphore.release_all(&ids).await;
        self.player.note(&format!("releases by id: {released:?}"));
        let in_time = valid && Instant::now() < ends;
        if released.is_err() && in_time && self.player.plan.is_calm() {
            self.player.violation("cannot release what it forgot");
        }
    }

    /// Releases what somebody else holds.
    async fn steal(&mut self, semaphore: &PermitExpirableSemaphore, number: usize) {
        let book = self.player.book.clone();
        let (victim, ids): (_, Vec<_>) = {
            let entries = book.entries();
            let mine = self.player.who;
            let victim = entries
                .iter()
                .find(|entry| entry.wish.names[0] == number && entry.wish.who != mine);
            let Some(victim) = victim else { return };
            book.void_one(victim.id);
            let Held::Permit(permit) = &*victim.held else { unreachable!() };
            (victim.wish.clone(), permit.ids().map(str::to_owned).collect())
        };
        self.player.note(&format!("steals what is held by {victim:?}"));
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let stolen = semaphore.release_all(&ids).await;
        self.player.note(&format!("stole: {stolen:?}"));
    }

    /// Changes how many there are, and changes it back, unless it is not known what was done.
    async fn change(&mut self, named: &Named, number: usize) {
        let pause = us(self.player.rng.u64(0..40_000));
        let change = self.player.rng.i64(1..4);
        let usual = i64::from(self.player.plan.permits);
        if self.shared.totals.range(number).0 != self.shared.totals.range(number).1 {
            return;
        }
        match (self.player.rng.u8(0..3), named) {
            (0, _) => self.change_twice(named, number, change, pause).await,
            (1, Named::Plain(semaphore)) => self.drain(semaphore, number, pause).await,
            (1, Named::Expirable(semaphore)) => {
                let size = self.player.rng.i64(0..7);
                if self.resize(semaphore, number, size).await {
                    sleep(pause).await;
                    self.resize(semaphore, number, usual).await;
                }
            }
            _ => self.change_twice(named, number, -change, pause).await,
        }
    }

    async fn change_twice(&mut self, named: &Named, number: usize, change: i64, pause: Duration) {
        for change in [change, -change] {
            self.shared.totals.begins(number, change);
            let added = named.add(change).await;
            self.player.note(&format!("adds {change}: {added:?}"));
            if !self.shared.totals.ends(number, change, &added) || added.is_err() {
                return;
            }
            sleep(pause).await;
        }
    }

    async fn drain(&mut self, semaphore: &Semaphore, number: usize, pause: Duration) {
        let (low, high) = self.shared.totals.range(number);
        self.shared.totals.may_become(number, low.min(0));
        // What was missing to none is drained as a negative number.
        self.shared.totals.may_become(number, high + 3);
        let drained = semaphore.drain().await;
        self.player.note(&format!("drains: {drained:?}"));
        match drained {
            Ok(drained) => {
                self.shared.totals.is(number, high - drained);
                sleep(pause).await;
                let permits = u32::try_from(drained).unwrap_or(0);
                self.shared.totals.begins(number, permits.into());
                let released = semaphore.release(permits).await;
                self.shared.totals.ends(number, permits.into(), &released);
            }
            Err(Error::Unavailable { .. }) => self.shared.totals.is(number, high),
            Err(_) => {}
        }
    }

    /// True if it is known that it was done.
    async fn resize(
        &mut self,
        semaphore: &PermitExpirableSemaphore,
        number: usize,
        permits: i64,
    ) -> bool {
        let (_, before) = self.shared.totals.range(number);
        self.shared.totals.may_become(number, permits);
        let resized = semaphore.set_permits(u32::try_from(permits).expect("small")).await;
        self.player.note(&format!("resizes to {permits}: {resized:?}"));
        match resized {
            Ok(_) => self.shared.totals.is(number, permits),
            Err(Error::Unavailable { .. }) => self.shared.totals.is(number, before),
            Err(_) => {}
        }
        resized.is_ok()
    }
}
