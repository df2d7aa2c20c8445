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
//! The holder is *told* by whatever ends its belief: a negative observation, its deadline, its own release, or the end
//! of its process.
//!
//! # What is a violation
//!
//! - **Overlaps** (`overlaps.rs`): two holds of one lock are valid at the same instant, unless both are shared; or one
//!   permit more than there are. A name of several locks is a hold of each. Each time that they meet counts. The
//!   overlap is *excused* if a fault that takes grants away began before it, and ended at most `lease + told_within`
//!   before it. Then one of both must be told within `told_within` after it began. A grant beside a stale hold is
//!   *invalid*, and only counted.
//! - **Tokens** (`tokens.rs`): a hold that is valid when it is granted has a higher token than the one before it,
//!   unless a fault that takes grants away, and with them the counter, lies between them, or ended at most `told_within`
//!   before the first. The resource refuses no write of a valid hold, unless there was such a fault. It accepts no write
//!   that comes after an accepted one with a higher token: by its own order; or, if it does not count, where the later
//!   write was sent after the earlier one was answered.
//! - **Deadlines** (`reading.rs`): the library says that a lock is held although the deadline that it names had passed
//!   before it was asked. Others may have the lock by then, whether or not one does in this run.
//! - **Turns** (`order.rs`), in fair workloads: a waiter that asked clearly later is granted earlier. It is only counted
//!   if a fault was on between, or a lease before.
//! - **Waits** (`waits.rs`): a worker still waits when its process says that all have ended. After the end of a fault,
//!   a lock with waiters is not granted within `recovers_within`. Nothing is measured while another fault is on, or
//!   if the next one comes before the grant; that it took too long until then is a violation all the same.
//! - **Idle waits** (`idle.rs`): somebody waits for longer than `idle` while no server can have the lock for anybody, and
//!   all faults have been over for `calm_after`. A server can have a lock for a hold until the release was answered
//!   without error; and for two leases more if the hold or the wait ended in any other way but a timeout. Names that
//!   share locks are free when all of them are. A semaphore is free if it has permits left.
//! - **Errors**: of a kind that is not documented.
//! - **The driver** writes what makes no sense (`reading.rs`).

mod faults;
mod holds;
mod idle;
mod order;
mod overlaps;
mod reading;
mod story;
#[cfg(test)]
mod tests;
mod times;
mod tokens;
mod waits;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::history::Event;
use crate::result::Cell;

use faults::Faults;
use story::{Story, WaitEnd};
use times::Clock;

/// What the library promises, and what the fault may do.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Of all holds, which are renewed.
    pub(crate) lease: Duration,
    /// How many holds of [`Mode::Permit`](crate::history::Mode::Permit) one name admits at once.
    pub(crate) permits: usize,
    /// Workloads whose names are granted in the order of asking.
    pub(crate) fair: BTreeSet<String>,
    /// Faults that take away what servers have granted: failovers, restarts without data or with old data, evictions,
    /// clocks that jump. They excuse overlaps.
    pub(crate) grants_lost_by: BTreeSet<String>,
    /// A holder whose hold was taken away is told after this at the latest.
    pub(crate) told_within: Duration,
    /// Whether it is to be told at all: some libraries do not promise it.
    pub(crate) tells_losses: bool,
    /// Nobody waits longer for a free lock.
    pub(crate) idle: Duration,
    /// After the end of a fault, each lock is granted again within this.
    pub(crate) recovers_within: Duration,
    /// After the end of a fault, nothing of it is left that could keep a free lock from a waiter.
    pub(crate) calm_after: Duration,
    /// Kinds of errors that acquisitions and releases may end with, timeouts apart.
    pub(crate) documented_errors: BTreeSet<String>,
    /// Each `Granted` and `Held` comes with a deadline. If not, a hold without one is believed in until its holder hears otherwise.
    pub(crate) knows_deadlines: bool,
    /// The library itself compares them with the clock: it never says *held* after one.
    pub(crate) keeps_deadlines: bool,
}

/// What each rule looks at beside the workload.
struct Context<'a> {
    rules: &'a Rules,
    faults: Faults<'a>,
    clock: Clock,
}

/// One cell for each workload of the history, which is in the order of its times.
pub(crate) fn check(history: &[Event], rules: &Rules) -> Vec<Cell> {
    let clock = Clock::starting(history.first().map_or(0, |event| event.at));
    let context = Context { rules, faults: Faults::of(history, rules), clock };
    let stories = reading::stories(history, rules, clock);
    stories.into_iter().map(|(workload, story)| judge(workload, &story, &context)).collect()
}

fn judge(workload: &str, story: &Story<'_>, context: &Context<'_>) -> Cell {
    let mut cell = Cell { workload: workload.to_owned(), ..Cell::default() };
    cell.violations.extend(context.faults.malformed(context.clock));
    cell.violations.extend_from_slice(&story.violations);
    count(story, &mut cell);
    judge_errors(story, context, &mut cell);
    overlaps::judge(story, context, &mut cell);
    tokens::judge(story, context, &mut cell);
    if context.rules.fair.contains(workload) {
        order::judge(story, context, &mut cell);
    }
    waits::judge(story, context, &mut cell);
    idle::judge(story, context, &mut cell);
    cell
}

fn count(story: &Story<'_>, cell: &mut Cell) {
    cell.operations = story.holds.len() as u64;
    cell.timeouts = story.waits.iter().filter(|wait| wait.end == WaitEnd::TimedOut).count() as u64;
    let writes = story.holds.iter().flat_map(|hold| &hold.writes);
    cell.refused_writes = writes.filter(|write| !write.accepted).count() as u64;
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
