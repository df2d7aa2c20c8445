//! One user of semaphores.

use std::time::Duration;

use leasehold::{Error, PermitExpirableSemaphore, Semaphore};
use tokio::time::{Instant, sleep};

use super::Shared;
use super::named::Named;
use crate::ledger::{Entry, Ledger, Wish};
use crate::plan::{ms, us};
use crate::user::User;

impl User<Shared> {
    pub(crate) async fn run(mut self) {
        let named = |number| Named::new(self.plan.kind, &self.clients[0], number);
        let all: Vec<_> = (0..self.plan.names).map(named).collect();
        for (number, named) in all.iter().enumerate() {
            self.set(named, number).await;
        }
        while !self.is_over() {
            self.pauses().await;
            let number = self.rng.usize(0..all.len());
            let named = &all[number];
            if self.rng.u8(0..8) == 0 {
                self.set(named, number).await;
            }
            if self.manages() && self.rng.bool() {
                for _ in 0..self.rng.u8(1..5) {
                    self.change(named, number).await;
                }
            }
            self.visit(named, number).await;
        }
    }

    /// One of all users changes the number of permits.
    fn manages(&self) -> bool {
        self.plan.changes() && (self.actor.process, self.actor.number) == (0, 0)
    }

    async fn set(&mut self, named: &Named, number: usize) {
        match named.try_set(self.plan.permits).await {
            Ok(true) => self.note(&format!("sets {number}")),
            Ok(false) => {}
            Err(error) => self.refused(Some(Duration::ZERO), &error),
        }
    }

    async fn visit(&mut self, named: &Named, number: usize) {
        let most = self.plan.permits.min(3);
        let permits = self.rng.u32(1..=most);
        let mut request = self.request();
        if self.plan.changes() {
            // There may be too few for good.
            request.wait = Some(request.wait.unwrap_or(ms(2000)));
        }
        let wish = Wish {
            permits,
            ..Wish::new(self.actor, vec![number])
        };
        let Some(entry) = self
            .takes(wish, request, named.take(permits, request))
            .await
        else {
            return;
        };
        self.shared.granted(&self.ledger, &entry);
        self.works(&entry).await;
        self.extends(&entry).await;
        // Where it is not known what was kept, nothing else can be counted on.
        let rarely = if self.plan.is_calm() { 4 } else { 30 };
        match named {
            Named::Plain(semaphore) if self.manages() && self.rng.u8(0..rarely) == 0 => {
                self.keep(semaphore, number, entry).await;
            }
            Named::Expirable(semaphore) if self.rng.u8(0..12) == 0 => {
                self.forget(semaphore, entry).await;
            }
            Named::Expirable(semaphore) if self.rng.u8(0..12) == 0 => {
                self.steal(semaphore, number).await;
                self.lets_go(entry).await;
            }
            _ => self.lets_go(entry).await,
        }
    }

    /// Keeps permits for good, and gives them back by number.
    async fn keep(&mut self, semaphore: &Semaphore, number: usize, entry: Entry) {
        let permits = i64::from(entry.wish.permits);
        self.shared.totals.begins(number, -permits);
        self.ledger.leaves(&entry);
        entry.held.forget();
        self.note(&format!("keeps {permits}"));
        sleep(ms(100) + us(self.rng.u64(0..200_000))).await;
        if self.plan.is_calm() {
            // Redis has been told; else they may come back with the lease.
            self.shared.totals.ends(number, -permits, &Ok(()));
        }
        self.shared.totals.begins(number, permits);
        let released = semaphore.add_permits(permits).await;
        self.note(&format!("gives {permits}: {released:?}"));
        self.shared.totals.ends(number, permits, &released);
    }

    /// Leaves permits to their lease, or releases them by their ids.
    async fn forget(&mut self, semaphore: &PermitExpirableSemaphore, entry: Entry) {
        let (valid, ends) = (entry.is_valid(), entry.held.deadline());
        let ids = super::ids_of(&entry);
        self.shared.forgotten.lock().extend(ids.iter().cloned());
        self.note(&format!("forgets {}", ids.len()));
        self.ledger.leaves(&entry);
        entry.held.forget();
        if self.rng.bool() {
            return;
        }
        sleep(us(self.rng.u64(0..100_000))).await;
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let released = semaphore.release_all(&ids).await;
        self.note(&format!("releases by id: {released:?}"));
        let in_time = valid && Instant::now() < ends;
        if released.is_err() && in_time && self.plan.is_calm() {
            self.violation("cannot release what it forgot");
        }
    }

    /// Releases what somebody else holds.
    async fn steal(&mut self, semaphore: &PermitExpirableSemaphore, number: usize) {
        let ids = {
            let entries = self.ledger.entries();
            let here = |entry: &&Entry| entry.wish.names == [number];
            let mut others = entries
                .iter()
                .filter(|entry| entry.wish.actor != self.actor);
            let Some(victim) = others.find(here) else {
                return;
            };
            Ledger::void_one(victim);
            self.note(&format!("steals what is held by {:?}", victim.wish));
            super::ids_of(victim)
        };
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let stolen = semaphore.release_all(&ids).await;
        self.note(&format!("stole: {stolen:?}"));
    }

    /// Changes how many there are, and changes it back, unless it is not known what was done.
    async fn change(&mut self, named: &Named, number: usize) {
        let pause = us(self.rng.u64(0..40_000));
        let change = self.rng.i64(1..4);
        let usual = i64::from(self.plan.permits);
        if self.shared.totals.range(number).0 != self.shared.totals.range(number).1 {
            return;
        }
        match (self.rng.u8(0..3), named) {
            (0, _) => self.change_twice(named, number, change, pause).await,
            (1, Named::Plain(semaphore)) => self.drain(semaphore, number, pause).await,
            (1, Named::Expirable(semaphore)) => {
                let size = self.rng.i64(0..7);
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
            self.note(&format!("adds {change}: {added:?}"));
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
        self.note(&format!("drains: {drained:?}"));
        match drained {
            Ok(drained) => {
                self.shared.totals.is(number, high - drained);
                sleep(pause).await;
                let permits = drained.max(0);
                self.shared.totals.begins(number, permits);
                let released = semaphore.add_permits(permits).await;
                self.shared.totals.ends(number, permits, &released);
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
        let resized = semaphore
            .set_permits(u32::try_from(permits).expect("small"))
            .await;
        self.note(&format!("resizes to {permits}: {resized:?}"));
        match resized {
            Ok(_) => self.shared.totals.is(number, permits),
            Err(Error::Unavailable { .. }) => self.shared.totals.is(number, before),
            Err(_) => {}
        }
        resized.is_ok()
    }
}
