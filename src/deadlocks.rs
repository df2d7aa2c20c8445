//! Waiters that wait for each other, in any processes that describe their holds.
//!
//! Two looks at what clients say about their waits (`session/holds/waits.rs`) show what lasted in between:
//! the id of a wait and the field of a hold are never used again, and a client that died says nothing new.
//! In the end Redis is asked about each hold. So every waiter of a reported cycle waited while the others
//! held what it waited for.

mod cycles;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::waits::{self, HeldLock, LongWait};
use crate::session::Handle;
use crate::timer::{Instant, sleep};

use cycles::{Edges, cycles};

/// The pause between two looks, and the time after which no further look begins. A living client says
/// its waits anew within half a second.
const PAUSE: Duration = Duration::from_millis(200);
const LOOKS: Duration = Duration::from_millis(1200);

/// Waiters that wait for each other; see [`Client::deadlocks`](crate::Client::deadlocks).
///
/// Each waiter waits for the lock that the next one holds, and the last one for the lock of the first. It
/// dereferences to the waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    waiters: Vec<DeadlockedWaiter>,
}

/// A waiter of a [`Deadlock`], with the lock that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockedWaiter {
    /// The key of the lock that it holds and another waiter waits for.
    pub holds: String,
    /// The owner of that hold on the wire; see [`Holder::owner`](crate::inspect::Holder::owner).
    pub owner: String,
    /// The [purpose](crate::Acquire::purpose) of that hold.
    pub purpose: Option<String>,
    /// The [name](crate::ClientBuilder::name) of its client.
    pub name: Option<String>,
    /// The key of the lock that it waits for.
    pub waits_for: String,
    /// How long it has waited.
    pub waited: Duration,
}

impl Deref for Deadlock {
    type Target = [DeadlockedWaiter];

    fn deref(&self) -> &[DeadlockedWaiter] {
        &self.waiters
    }
}

/// One line for each waiter.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, waiter) in self.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{waiter}")?;
        }
        Ok(())
    }
}

impl fmt::Display for DeadlockedWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(&self.owner))?;
        if let Some(purpose) = &self.purpose {
            write!(f, " ({purpose})")?;
        }
        let (holds, waits_for) = (&self.holds, &self.waits_for);
        let seconds = self.waited.as_secs_f64();
        write!(
            f,
            " holds `{holds}` and has waited {seconds:.1}s for `{waits_for}`"
        )
    }
}

/// A wait, as its client said it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    client: String,
    name: Option<String>,
    /// Grows each time the client says its waits.
    number: u64,
    wait: LongWait,
}

impl Said {
    fn id(&self) -> (&str, u64) {
        (&self.client, self.wait.id)
    }

    /// The hold that another waiter waits for.
    fn blocks(&self, waiter: &LongWait) -> Option<&HeldLock> {
        let shares = |hold: &&HeldLock| waiter.kind == Kind::Read && hold.kind == Kind::Read;
        let mut holds = self.wait.holds.iter().filter(|hold| !shares(hold));
        holds.find(|hold| hold.key == waiter.key)
    }
}

pub(crate) async fn find(handle: &Handle) -> Result<Vec<Deadlock>, Error> {
    let first = look(handle).await?;
    let until = Instant::now() + LOOKS;
    if cycles(&edges(&first)).is_empty() {
        return Ok(Vec::new());
    }
    loop {
        sleep(PAUSE).await;
        let now = look(handle).await?;
        let lasting = lasting(&first, &now);
        let is_settled =
            cycles(&edges(&remaining(&first, &now))).len() <= cycles(&edges(&lasting)).len();
        if is_settled || Instant::now() >= until {
            return held(handle, lasting).await;
        }
    }
}

/// Reads what the clients say, in a fixed order.
async fn look(handle: &Handle) -> Result<Vec<Said>, Error> {
    let name = Arc::from("deadlocks");
    let mut clients = handle.calls().ask(&name, waits::ask(), waits::seen).await?;
    clients.sort_by(|one, other| one.client.cmp(&other.client));
    let said = clients.into_iter().flat_map(|from| {
        let (client, name, number) = (from.client, from.name, from.number);
        from.waits.into_iter().map(move |wait| Said {
            client: client.clone(),
            name: name.clone(),
            number,
            wait,
        })
    });
    Ok(said.collect())
}

/// The waits of the first look that are still there.
fn remaining(first: &[Said], now: &[Said]) -> Vec<Said> {
    let now: HashSet<_> = now.iter().map(Said::id).collect();
    let is_there = |said: &&Said| now.contains(&said.id());
    first.iter().filter(is_there).cloned().collect()
}

/// The waits of the second look that lasted since the first, with the holds that did: their clients
/// have said them again.
fn lasting(first: &[Said], now: &[Said]) -> Vec<Said> {
    let first: HashMap<_, _> = first.iter().map(|said| (said.id(), said)).collect();
    let lasts = |said: &Said| {
        let before = first.get(&said.id())?;
        if said.number <= before.number || said.wait.key != before.wait.key {
            return None;
        }
        let mut said = said.clone();
        said.wait
            .holds
            .retain(|hold| before.wait.holds.contains(hold));
        Some(said)
    };
    now.iter().filter_map(lasts).collect()
}

/// Who waits for whom.
fn edges(waits: &[Said]) -> Edges {
    let mut holders: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, said) in waits.iter().enumerate() {
        for hold in &said.wait.holds {
            holders.entry(&hold.key).or_default().push(number);
        }
    }
    let waits_for = |said: &Said| {
        let all = holders.get(&*said.wait.key).into_iter().flatten().copied();
        all.filter(|other| waits[*other].blocks(&said.wait).is_some())
            .collect()
    };
    waits.iter().map(waits_for).collect()
}

/// The cycles whose holds Redis has.
async fn held(handle: &Handle, mut waits: Vec<Said>) -> Result<Vec<Deadlock>, Error> {
    loop {
        let cycles = cycles(&edges(&waits));
        let mut gone = None;
        'cycles: for cycle in &cycles {
            for (waiter, holder) in pairs(cycle) {
                let hold = waits[holder].blocks(&waits[waiter].wait);
                if let Some(hold) = hold
                    && !is_held(handle, hold).await?
                {
                    gone = Some((holder, hold.clone()));
                    break 'cycles;
                }
            }
        }
        let Some((holder, gone)) = gone else {
            let deadlock = |cycle: &Vec<usize>| deadlock(&waits, cycle);
            return Ok(cycles.iter().map(deadlock).collect());
        };
        waits[holder].wait.holds.retain(|hold| *hold != gone);
    }
}

/// Each waiter of a cycle, and the one it waits for.
fn pairs(cycle: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let next = cycle.iter().cycle().skip(1);
    cycle.iter().copied().zip(next.copied())
}

async fn is_held(handle: &Handle, hold: &HeldLock) -> Result<bool, Error> {
    let Ok(resource) = Resource::new(hold.kind, "", &hold.key) else {
        return Ok(false);
    };
    let read = |reply| resource.inspected(reply);
    let calls = handle.calls();
    let call = calls.inspect_call(&resource);
    let seen = calls.ask(&resource.name, call, read).await?;
    let holders = seen.into_iter().flat_map(|seen| seen.holders);
    Ok(holders
        .into_iter()
        .any(|holder| *holder.owner == *hold.field))
}

fn deadlock(waits: &[Said], cycle: &[usize]) -> Deadlock {
    let one = |(before, waiter): (usize, usize)| {
        let (before, waiter) = (&waits[before], &waits[waiter]);
        let hold = waiter.blocks(&before.wait)?;
        Some(DeadlockedWaiter {
            holds: hold.key.to_string(),
            owner: hold.field.to_string(),
            purpose: hold.purpose.clone(),
            name: waiter.name.clone(),
            waits_for: waiter.wait.key.to_string(),
            waited: waiter.wait.waited,
        })
    };
    let mut waiters: Vec<_> = pairs(cycle).filter_map(one).collect();
    // The pairs begin with the second waiter.
    waiters.rotate_right(1);
    Deadlock { waiters }
}
