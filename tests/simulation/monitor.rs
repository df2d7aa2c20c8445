//! What must be true at every moment, looked at every few milliseconds of simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::history::Wish;
use crate::line::Lines;
use crate::run::Sim;
use crate::seen::{self, Seen};
use crate::target::{Manners, Side};

#[derive(Default)]
pub(crate) struct Monitor {
    /// Since when a name is free although somebody waits for it.
    free: BTreeMap<String, Instant>,
    /// Since when a field stands for no guard.
    orphans: BTreeMap<String, Instant>,
    lines: Lines,
}

impl Monitor {
    pub(crate) fn look(&mut self, sim: &Sim) {
        sim.history.check_guards();
        match seen::read(sim.plan.kind, &sim.plan.all_names(), &sim.engine.dump()) {
            Ok(all) => {
                check_guards_stand(sim, &all);
                self.look_for_orphans(sim, &all);
                self.look_for_idle_names(sim, &all);
                self.look_at_lines(sim, &all);
            }
            Err(odd) => sim.history.violation(odd),
        }
    }

    fn look_for_orphans(&mut self, sim: &Sim, all: &BTreeMap<String, Seen>) {
        let Some(limit) = sim.plan.orphans_within() else { return };
        let owners = sim.history.owners();
        let fields = all.values().flat_map(|seen| seen.holds.keys());
        let mut orphans = BTreeMap::new();
        for owner in fields.filter(|owner| !owners.contains(owner)) {
            let since = self.orphans.get(owner).copied().unwrap_or_else(Instant::now);
            orphans.insert(owner.clone(), since);
        }
        self.orphans = orphans;
        complain(sim, "nobody has the guard of", &self.orphans, limit);
    }

    fn look_for_idle_names(&mut self, sim: &Sim, all: &BTreeMap<String, Seen>) {
        let Some(limit) = sim.plan.prompt_within() else { return };
        for (name, seen) in all {
            let may_enter = |wish: &Wish| match seen.side {
                None => true,
                Some(Side::Read) => wish.side == Side::Read && wish.manners == Manners::Plain,
                Some(Side::Write) => false,
            };
            let such = |wish: &Wish| sim.processes[wish.actor.client].alive && may_enter(wish);
            match sim.history.waiting_since(name, &such) {
                Some(since) => {
                    let now = Instant::now();
                    let entry = self.free.entry(name.clone()).or_insert(now);
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
            if let Some(odd) = self.lines.look(sim.plan.weather, (name, seen), &granted) {
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

fn complain(sim: &Sim, what: &str, since: &BTreeMap<String, Instant>, limit: Duration) {
    for (name, since) in since {
        if since.elapsed() > limit {
            sim.history.violation(format!("{what} {name} for {:?}", since.elapsed()));
        }
    }
}
