//! What must be true at every moment, looked at every few milliseconds of simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::history::Wish;
use crate::line::{Lines, Takers};
use crate::plan::Weather;
use crate::run::Sim;
use crate::seen::{self, Dump, Seen};
use crate::target::{Manners, Side};

#[derive(Default)]
pub(crate) struct Monitor {
    /// Since when a name is free although somebody waits for it.
    free: BTreeMap<String, Instant>,
    /// Since when a field stands for no guard.
    orphans: BTreeMap<String, Instant>,
    lines: Lines,
    /// The tokens that were last written to each resource, and how often all was lost before.
    resources: (u32, BTreeMap<String, i64>),
}

impl Monitor {
    pub(crate) fn look(&mut self, sim: &Sim) {
        sim.history.check_guards();
        sim.history.rare.sweep();
        let dump = sim.engine.dump();
        self.look_at_resources(sim, &dump);
        match seen::read(sim.plan.kind, &sim.plan.all_names(), &dump) {
            Ok(all) => {
                check_guards_stand(sim, &all);
                check_the_closed(sim, &all);
                self.look_for_orphans(sim, &all);
                self.look_for_idle_names(sim, &all);
                self.look_at_lines(sim, &all);
            }
            Err(odd) => sim.history.violation(odd),
        }
    }

    /// What was written last has the highest token.
    fn look_at_resources(&mut self, sim: &Sim, dump: &Dump) {
        let emptied = sim.history.rare.emptied();
        if self.resources.0 != emptied {
            self.resources = (emptied, BTreeMap::new());
        }
        for (key, token) in seen::resources(dump) {
            let last = self.resources.1.insert(key.clone(), token).unwrap_or(0);
            if token < last {
                sim.history.violation(format!("{key} was written by {token} after {last}"));
            }
        }
    }

    fn look_for_orphans(&mut self, sim: &Sim, all: &BTreeMap<String, Seen>) {
        let (limit, Some(from)) = (sim.plan.orphans_within(), sim.unhurt_since()) else { return };
        let owners = sim.history.owners();
        let fields = all.values().flat_map(|seen| seen.holds.keys());
        let nobodys =
            |owner: &&String| !owners.contains(*owner) && !sim.history.rare.is_stray(owner);
        let mut orphans = BTreeMap::new();
        for owner in fields.filter(nobodys) {
            let since = self.orphans.get(owner).copied().unwrap_or_else(Instant::now).max(from);
            orphans.insert(owner.clone(), since);
        }
        self.orphans = orphans;
        complain(sim, "nobody has the guard of", &self.orphans, limit);
    }

    fn look_for_idle_names(&mut self, sim: &Sim, all: &BTreeMap<String, Seen>) {
        let Some((limit, from)) = sim.plan.prompt_within().zip(sim.unhurt_since()) else { return };
        let from = from + sim.recovers_within();
        for (name, seen) in all {
            let may_enter = |wish: &Wish| match seen.side {
                None => true,
                Some(Side::Read) => wish.side == Side::Read && wish.manners == Manners::Plain,
                Some(Side::Write) => false,
            };
            let such = |wish: &Wish| sim.processes[wish.actor.client].alive && may_enter(wish);
            // Who waits behind a hold of its own client goes on when that one's guard is told.
            let untold = sim.history.has_void(name) || sim.history.rare.is_forced(name);
            match sim.history.waiting_since(name, &such).filter(|_| !untold) {
                Some(since) => {
                    let now = Instant::now();
                    let entry = self.free.entry(name.clone()).or_insert(now);
                    let since = since.max(from);
                    *entry = (*entry).max(since).max(sim.history.last_crash().unwrap_or(since));
                }
                _ => drop(self.free.remove(name)),
            }
        }
        complain(sim, "free and waited for:", &self.free, limit);
    }

    fn look_at_lines(&mut self, sim: &Sim, all: &BTreeMap<String, Seen>) {
        let served = sim.history.served();
        if !sim.plan.keeps_order() {
            return;
        }
        for (name, seen) in all {
            if seen.kept != seen.queue.iter().cloned().collect() {
                let (queue, kept) = (&seen.queue, &seen.kept);
                sim.history.violation(format!("{name}: {queue:?} wait, kept are {kept:?}"));
            }
            let granted = served.iter().filter(|(of, _)| of == name);
            let granted: Vec<_> = granted.map(|(_, field)| field.clone()).collect();
            let takers = if sim.history.rare.is_moved(name) { Takers::Some } else { Takers::None };
            // A waiter that nobody polled when its turn came loses its place, and is put back too.
            let weather = if sim.plan.wild { Weather::Lossy } else { sim.plan.weather };
            if let Some(odd) = self.lines.look(weather, (name, seen), &granted, takers) {
                sim.history.violation(odd);
            }
        }
    }
}

/// What a guard believes must be so.
fn check_guards_stand(sim: &Sim, all: &BTreeMap<String, Seen>) {
    for valid in sim.history.valid() {
        let left = all.get(&valid.name).and_then(|seen| seen.holds.get(&valid.owner));
        let needed = i64::try_from(valid.left.as_millis()).unwrap_or(i64::MAX);
        if left.is_none_or(|left| *left < needed) {
            sim.history.violation(format!(
                "a guard of {} is good for {needed} ms, in the engine it stands for {left:?}",
                valid.name
            ));
        }
    }
}

/// A client that was shut down has no guard that is worth something; once it said so, nothing of it
/// is left but what it had handed on.
fn check_the_closed(sim: &Sim, all: &BTreeMap<String, Seen>) {
    for client in sim.history.rare.closed() {
        if let Some(actor) = sim.history.outlives(client) {
            sim.history.violation(format!("{actor:?} has a guard of a client that was shut down"));
        }
        if !sim.history.rare.is_settled(client) {
            continue;
        }
        let id = &sim.processes[client].id;
        let own = |field: &&String| field.starts_with(id) && !sim.history.rare.is_stray(field);
        for (name, seen) in all {
            let mut left = seen.holds.keys().chain(&seen.queue).filter(own);
            if let Some(field) = left.next() {
                sim.history.violation(format!("{field} of a client that is gone is at {name}"));
            }
        }
    }
}

fn complain(sim: &Sim, what: &str, since: &BTreeMap<String, Instant>, limit: Duration) {
    for (name, since) in since {
        // Not yet: its time begins later.
        if since.elapsed() > limit {
            sim.history.violation(format!("{what} {name} for {:?}", since.elapsed()));
        }
    }
}
