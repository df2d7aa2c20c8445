//! What a history shows, and what of it must not be.
//!
//! # Holds
//!
//! A *hold* is what one worker has of one name from `Granted` to its end. `Granted` and `Held` are *positive*
//! observations: the library says that the lock is held, until its deadline if it names one. `Doubted` and `Lost` are
//! *negative*. A hold is *valid* from a positive observation
//!
//! - to the deadline that was named last, if that passed before the worker's next event;
//! - else to the last positive observation, if the next one is negative, or if nothing follows because the process was
//!   killed: what came in between is not known. That instant is valid, however short the hold;
//! - else to `Releasing`, which comes right after a positive answer.
//!
//! A positive observation makes it valid again after `Doubted`, and after a deadline that passed. An observation whose
//! deadline had passed when it was written down (the process was frozen meanwhile) counts for nothing. So a frozen
//! process has a valid hold until its deadline, and no longer. From the end of its valid time until the worker releases
//! or hears that it is lost, a hold is *stale*. `Lost` is final; one `Held` may have been on its way when it came.
//!
//! The holder is *told* by a negative observation, or by its deadline. Its own release, and the end of its process,
//! tell it nothing: it *leaves*.
//!
//! A *signature* is what a server carried out so that the lease runs until some deadline: the grant, and each later one
//! that shows in a deadline which is later by more than a millisecond, or that the driver reports. It lies between the
//! earliest time at which it can have been sent and the time at which it was seen to be done. Where the library compares
//! deadlines itself, it counts them from before the request: the deadline less the lease is when it was sent. Else that
//! is when the lock was asked for, or the observation before. A signature after the first is a *renewal*, unless
//! the lease is fixed, or the worker extended the lease or re-entered the lock in between. A renewal has *failed* if two
//! thirds of the lease have passed without one, at an observation.
//!
//! Most leases are the *common* one. A hold may have another one: a fixed lease, or a larger one that is renewed.
//!
//! # What is left behind
//!
//! A hold is *left behind* if it ends without a confirmed release; a wait, if it ends without a grant and without a
//! timeout. A server may still have the lock for it:
//!
//! - If its process lives, for two common leases, however long its own lease is: the process gives it back. A hold with
//!   a fixed lease that was not extended is gone when the lease runs out.
//! - If its process died, it is an *orphan*: nobody gives it back. It is gone after two of its own leases. In a
//!   workload of `lasting` no lease ends it, and it stays for ever.
//! - If the server refused the call with `Protocol`, it is an orphan too. It never stays for ever.
//!
//! # Faults
//!
//! A fault has a *scope*: processes, slots of locks, both, or nothing. A scope that names nothing is everybody. A fault
//! reaches the processes that it names, with all their locks. It reaches the locks in its slots, in all processes. If it
//! names both, either is enough. The scope is narrower for an excuse, and wider for the cause of a loss:
//!
//! - A server can forget a hold of a lock only if the lock is in the slots of the fault.
//! - While one shard of a cluster is down, all others refuse calls. So slots do not narrow the cause of a loss. Only a
//!   fault that names processes and no slots is no cause for other processes.
//!
//! A server can *forget* a hold by two kinds of faults. A hold counts as forgotten only while the fault can have
//! brought that about:
//!
//! - A server is *replaced* by one that is behind. What was written from half a second before the fault until
//!   `told_within` after its end may be lost. A hold is forgotten from the beginning of the fault on, if it has a
//!   signature in that time, and as soon as all leases that were signed before it have ended: a replica that knew of one
//!   of them gave the lock to nobody else.
//! - A server is *emptied*. A hold that was granted before the end of the fault is forgotten from its beginning on.
//!
//! It is not forgotten if a signature was sent after that: the server that carried it out has the hold. Then a later
//! grant may be forgotten instead, if the server that was replaced gave it.
//!
//! # What is a violation
//!
//! - **Overlaps** (`overlaps.rs`): two holds of one lock are valid at the same instant, unless both are shared; or one
//!   permit more than there are. A name of several locks is a hold of each. Each time that they meet counts. The
//!   overlap is *excused* (`excuses.rs`) if one of the holds was forgotten at that time, and can have been granted
//!   before another one: a server that grants the lock needs to know only earlier grants. A grant beside a stale hold is
//!   *invalid*, and only counted.
//! - **Told in time** (`told.rs`): of an excused overlap, one holder must be told by the time at which it is due: when
//!   its next renewal is answered, at most `told_within` less a third of the common lease after it was sent; by its
//!   deadline at the latest. A lease that nobody renews has only its deadline. So has a process that a fault holds up,
//!   and a hold whose worker paused. It is enough that one is told, or that one which may have been forgotten leaves
//!   before it is due.
//! - **Losses** (`losses.rs`), of a library that keeps deadlines: a hold is *lost* if its holder is told before it
//!   leaves, or if its release says so, and the library does not say again that it is held. A fixed lease that runs out
//!   is not lost. A loss needs a *cause*: a fault of any kind that concerns the process, and was on at some time from
//!   the last signature until the holder was told, or had ended at most `told_within` before. If nobody saw the deadline
//!   pass, the cause may also come later, until the worker looked. A doubt that is taken back needs a cause, too.
//! - **Tokens** (`tokens.rs`): a hold that is valid when it is granted has a higher token than the one before it,
//!   unless the one before was granted when it could be lost, by a fault that had begun before the later grant. The
//!   resource refuses no write of a valid hold, unless the same or a higher token was granted before, and lost with its
//!   counter; or later, by a server that had forgotten the hold.
//! - **Deadlines** (`reading.rs`): the library says that a lock is held although the deadline that it names had passed
//!   before it was asked. Others may have the lock by then, whether or not one does in this run.
//! - **Turns** (`order.rs`), in fair workloads: a waiter that asked clearly later is granted earlier. It is only counted
//!   if a fault was on between, or a lease before.
//! - **Waits** (`waits.rs`): a worker still waits when its process says that all have ended. After the end of a fault,
//!   a lock with waiters is held by nobody for more than `recovers_within` before it is granted, or before the last
//!   waiter gives up. The time in which it is held does not count: until the last valid instant of a hold, of the lock or
//!   of one that is taken together with it; of an orphaned hold, until it is gone. A semaphore is held when it has no permits
//!   left. Nothing is measured while another fault is on, or if the next one comes before the grant; that it took too
//!   long until then is a violation all the same.
//! - **Idle waits** (`idle.rs`): somebody waits for longer than `idle` while no server can have the lock for anybody, and
//!   all faults have been over for `calm_after`. Where names have several locks, `rivalry` is added to `idle`. The time
//!   by which a timer of a process was late does not count: the machine had no time. A server can have a lock from the
//!   grant until a release is answered without error, and for longer if the hold or the wait was left behind. Names that
//!   share locks are free when all of them are. A semaphore is free if it has permits left.
//! - **Errors**: of a kind that is not documented. `cell.rs` adds shutdowns that fail, unless the fault takes rights
//!   away.
//! - **The driver** writes what makes no sense (`reading.rs`).
//!
//! # What is only counted
//!
//! Kinds of holds, renewals and how they ended, what the faults met (`met.rs`), for how long a lock was waited for and
//! held by nobody since the first fault, how long holders said that they hold a lock after somebody else was granted it,
//! and in how much of the time in which locks were held a server may have forgotten the hold.

mod excuses;
mod faults;
mod holds;
mod idle;
mod losses;
mod met;
mod order;
mod overlaps;
mod reading;
mod story;
#[cfg(test)]
mod tests;
mod times;
mod tokens;
mod told;
mod waits;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::history::Event;
use crate::result::Cell;

use faults::Faults;
use story::{Story, WaitEnd};
use times::{Clock, nanos};

/// What the library promises, and what the fault may do.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Of all holds that name no other one.
    pub(crate) lease: Duration,
    /// How many holds of [`Mode::Permit`](crate::history::Mode::Permit) one name admits at once.
    pub(crate) permits: usize,
    /// Workloads whose names are granted in the order of asking.
    pub(crate) fair: BTreeSet<String>,
    /// Workloads whose holds nobody takes back from the dead.
    pub(crate) lasting: BTreeSet<String>,
    /// Workloads with several keys, of which a server can lose one. Then it grants nothing any more: how soon it does is
    /// not judged.
    pub(crate) may_wedge: BTreeSet<String>,
    /// Faults by which a server that is behind may take the place of another one.
    pub(crate) replaced_by: BTreeSet<String>,
    /// Faults by which a server may forget what it had: restarts without data or with old data, evictions, clocks that
    /// jump.
    pub(crate) emptied_by: BTreeSet<String>,
    /// A holder whose hold was taken away is told after this at the latest: a third of a lease until its next renewal,
    /// and until that is answered.
    pub(crate) told_within: Duration,
    /// Whether it is to be told at all: some libraries do not promise it.
    pub(crate) tells_losses: bool,
    /// Nobody waits longer for a free lock.
    pub(crate) idle: Duration,
    /// Added to `idle` where names have several locks: waiters that have some of them block each other for so long.
    pub(crate) rivalry: Duration,
    /// After the end of a fault, a lock with waiters is held by nobody for this long at most.
    pub(crate) recovers_within: Duration,
    /// After the end of a fault, nothing of it is left that could keep a free lock from a waiter.
    pub(crate) calm_after: Duration,
    /// Kinds of errors that acquisitions and releases may end with, timeouts apart.
    pub(crate) documented_errors: BTreeSet<String>,
    /// Each `Granted` and `Held` comes with a deadline. If not, a hold without one is believed in until its holder hears
    /// otherwise.
    pub(crate) knows_deadlines: bool,
    /// The library itself compares them with the clock: it never says *held* after one.
    pub(crate) keeps_deadlines: bool,
}

/// Said of a cell whose waits are not judged.
const WEDGED: &str = "waits are not judged, because permits may have gone with one of two keys";

/// What each rule looks at beside the workload.
struct Context<'a> {
    rules: &'a Rules,
    faults: Faults<'a>,
    clock: Clock,
}

/// One cell for each workload of the history, which is in the order of its times.
pub(crate) fn check(history: &[Event], rules: &Rules) -> Vec<Cell> {
    let clock = Clock::starting(history.first().map_or(0, |event| event.at));
    let context = Context {
        rules,
        faults: Faults::of(history, rules),
        clock,
    };
    let stories = reading::stories(history, rules, clock);
    stories
        .into_iter()
        .map(|(workload, story)| judge(workload, &story, &context))
        .collect()
}

fn judge(workload: &str, story: &Story<'_>, context: &Context<'_>) -> Cell {
    let mut cell = Cell {
        workload: workload.to_owned(),
        ..Cell::default()
    };
    cell.violations
        .extend(context.faults.malformed(context.clock));
    cell.violations.extend_from_slice(&story.violations);
    count(story, context, &mut cell);
    met::count(story, context, &mut cell);
    judge_errors(story, context, &mut cell);
    overlaps::judge(story, context, &mut cell);
    losses::judge(story, context, &mut cell);
    tokens::judge(story, context, &mut cell);
    if context.rules.fair.contains(workload) {
        order::judge(story, context, &mut cell);
    }
    let queues = waits::queues(story, context);
    waits::judge(story, &queues, context, &mut cell);
    if context.rules.may_wedge.contains(workload) {
        cell.explained.push(format!("{workload}: {WEDGED}"));
    } else {
        waits::judge_recoveries(&queues, context, &mut cell);
        idle::judge(story, context, &mut cell);
    }
    cell
}

fn count(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    cell.operations = story.holds.len() as u64;
    cell.timeouts = story
        .waits
        .iter()
        .filter(|wait| wait.end == WaitEnd::TimedOut)
        .count() as u64;
    let writes = story.holds.iter().flat_map(|hold| &hold.writes);
    cell.refused_writes = writes.filter(|write| !write.accepted).count() as u64;
    cell.excusable_permille = context.faults.excusable_permille(story);
    for hold in &story.holds {
        hold.count(nanos(context.rules.lease), &mut cell.holds);
        cell.renewals.done += hold.renewed;
        cell.renewals.failed += hold.failed;
    }
}

fn judge_errors(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    for (&kind, errors) in &story.errors {
        cell.errors.insert(kind.to_owned(), errors.count);
        if !context.rules.documented_errors.contains(kind) {
            let first = context.clock.say(errors.first);
            let count = errors.count;
            cell.violations.push(format!(
                "an error of no documented kind: {kind} ({count} times, first at {first})"
            ));
        }
    }
}
