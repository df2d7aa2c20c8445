//! What must be true at every moment, looked at every few milliseconds of simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::run::Sim;

#[derive(Default)]
pub(crate) struct Monitor {
    /// Since when a name is free although somebody waits for it.
    free: BTreeMap<String, Instant>,
    /// Since when a field stands for no guard.
    orphans: BTreeMap<String, Instant>,
}

impl Monitor {
    pub(crate) fn look(&mut self, sim: &Sim) {
        sim.history.check_guards();
        let dump = sim.engine.dump();
        let owners = sim.history.owners();
        let mut orphans = BTreeMap::new();
        for (key, entry) in &dump {
            let key = String::from_utf8_lossy(key);
            if entry.kind != "hash" || entry.pttl.is_none() || entry.content.len() != 2 {
                sim.history.violation(format!("{key} is not one hold with an expiry: {entry:?}"));
            }
            let owner = String::from_utf8_lossy(&entry.content[0]).into_owned();
            if !owners.contains(&owner) {
                let since = self.orphans.get(&owner).copied().unwrap_or_else(Instant::now);
                orphans.insert(owner, since);
            }
        }
        self.orphans = orphans;
        if let Some(limit) = sim.plan.orphans_within() {
            complain(sim, "nobody has the guard of", &self.orphans, limit);
        }
        if let Some(limit) = sim.plan.prompt_within() {
            self.look_for_idle_names(sim, &dump.into_keys().collect::<Vec<_>>());
            complain(sim, "free and waited for:", &self.free, limit);
        }
    }

    fn look_for_idle_names(&mut self, sim: &Sim, held: &[Vec<u8>]) {
        let alive = |client: usize| sim.processes[client].alive;
        for name in 0..sim.plan.names {
            let name = format!("lock:{name}");
            let free = !held.iter().any(|key| *key == *name.as_bytes());
            match sim.history.waiting_since(&name, &alive) {
                Some(since) if free => {
                    let now = Instant::now();
                    let entry = self.free.entry(name).or_insert(now);
                    *entry = (*entry).max(since);
                }
                _ => drop(self.free.remove(&name)),
            }
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
