//! Checks the history of a fault run against the rules of the library.
//!
//! # Holds
//!
//! A *hold* is what one worker has of one name, from `Granted` to its end. `Granted` and `Held` are
//! *confirmations*: the library answers that the lock is held, until a deadline if it names one.
//! `Doubted` and `Lost` are *loss notices*. A hold is *valid* from a confirmation
//!
//! - until the deadline that was named last, if it passed before the worker's next event.
//! - Otherwise until the last confirmation, if a loss notice follows, or if no event follows
//!   because the process was killed. It is unknown what happened after that confirmation. The
//!   instant of the confirmation itself is valid.
//! - Otherwise until `Releasing`, which the worker writes right after a confirmation.
//!
//! A later confirmation makes the hold valid again, after `Doubted` or after a deadline that
//! passed. A confirmation does not count if its deadline had passed when the event was written, as
//! happens in a frozen process. So the hold of a frozen process is valid until its deadline, and
//! not longer. From the end of its valid time until the worker releases the lock or notices the
//! loss, a hold is *stale*. `Lost` is final, but one `Held` may follow, because it may have been in
//! flight when the loss was reported.
//!
//! The holder *notices* a loss by a loss notice or by its deadline. When it releases the lock, or
//! when its process is killed, it *leaves* without noticing anything.
//!
//! A *lease update* is a call by which a server set the end of the lease: the grant, and each later
//! call that the driver reports or that moved the deadline by more than a millisecond. It was
//! carried out between the earliest time at which it may have been sent and the time at which its
//! effect was seen. A library that compares deadlines itself counts them from before the request,
//! so the call was sent at the deadline less the lease. For other libraries, the earliest time is
//! the request for the lock, or the previous event. A lease update after the grant is a *renewal*,
//! unless the lease is fixed, or the worker extended the lease or re-entered the lock since the
//! previous one. A renewal has *failed* if a confirmation or a loss notice shows that two thirds of
//! the lease have passed without one.
//!
//! Most holds have the *common* lease. Others have a fixed lease, or a larger one that is renewed.
//!
//! # Abandoned holds
//!
//! A hold is *abandoned* if it ends without a confirmed release. A wait is abandoned if it ends
//! without a grant and without a timeout. A server may still have the lock for them:
//!
//! - If the process lives, for two common leases, whatever the lease of the hold. By then the
//!   process has released the lock in the background. A hold with a fixed lease that was not
//!   extended ends with its lease.
//! - If the process died, nobody releases the lock: the hold is an *orphan*. It has ended after two
//!   of its own leases. In a `lasting` workload it never ends.
//! - If the server refused the call with `Protocol`, the hold is an orphan too. It has ended after
//!   two of its own leases in every workload.
//!
//! # Faults
//!
//! A fault has a *scope*: processes, slots, both, or neither. A fault without a scope reaches
//! everything. A fault that names processes reaches all their locks. A fault that names slots
//! reaches the locks in these slots, in all processes. If a fault names both, either one is enough.
//! Two rules read the scope differently:
//!
//! - An excuse reads it more narrowly. A server can forget a hold only if the lock is in the slots
//!   of the fault.
//! - The cause of a loss reads it more widely, and ignores slots. While one shard of a cluster is
//!   down, all other shards refuse calls. Only a fault that names processes and no slots cannot be
//!   the cause for other processes.
//!
//! Two kinds of faults make a server *forget* a hold:
//!
//! - A server is *replaced* by one that lags behind. Writes from half a second before the fault
//!   until `notice_within` after its end may be lost. A hold with a lease update in that time may
//!   be forgotten. It counts as forgotten from the beginning of the fault on, but not before all
//!   leases from earlier updates have ended: a replica that knew one of them did not grant the lock
//!   to another client.
//! - A server is *emptied*. A hold that was granted before the end of the fault counts as forgotten
//!   from the beginning of the fault on.
//!
//! A hold does not count as forgotten if a lease update was sent after that time, because the
//! server that carried it out has the hold. In that case a later grant may be the forgotten one, if
//! the replaced server gave it.
//!
//! # Rules
//!
//! Each event that breaks one of these rules is a violation.
//!
//! - **Overlaps** (`overlaps.rs`): two holds of one lock are never valid at the same instant,
//!   unless both are shared. No more permits are held than there are. A hold of a name with several
//!   locks is a hold of each lock. If two holds overlap repeatedly, each time counts. An overlap is
//!   *excused* (`excuses.rs`), and no violation, if one of its holds was forgotten at that time,
//!   and may have been granted before another one: a server that grants the lock must know only
//!   earlier grants. If a grant overlaps a stale hold, the overlap is *invalid*, and is only
//!   counted.
//! - **Notices** (`notice.rs`): in an excused overlap, one holder must notice in time: when its
//!   next renewal is answered, and no later than its deadline. The answer may take `notice_within`
//!   less a third of the common lease. Only the deadline counts for a lease that nobody renews, for
//!   a process that a fault delays, and for a worker that paused. One holder that notices in time
//!   is enough. So is a holder whose hold may be forgotten and that leaves before it has to notice.
//! - **Losses** (`losses.rs`), of a library that compares deadlines: a hold is *lost* if its holder
//!   notices a loss before it leaves, or if the release reports it, and the library does not
//!   confirm the hold later. A fixed lease that ends is not lost. A loss needs a *cause*: a fault
//!   of any kind that concerns the process. It must have been on at some time between the last
//!   lease update and the notice, or have ended at most `notice_within` before. If the worker did
//!   not look when its deadline passed, the cause may also come later, until the worker looked. A
//!   doubt that is taken back needs a cause too.
//! - **Tokens** (`tokens.rs`): a hold that is valid when it is granted has a higher token than the
//!   previous one, unless the previous grant can have been lost by a fault that began before the
//!   later grant. The resource accepts the writes of a valid hold. It may refuse one if the same or
//!   a higher token had been granted before: either earlier than the hold, with a counter that was
//!   lost, or later, by a server that had forgotten the hold.
//! - **Deadlines** (`reading.rs`): the library must not answer that a lock is held when the
//!   deadline that it names had passed before the question. Another client may have the lock by
//!   then, whether or not one has it in this run.
//! - **Order** (`order.rs`), in fair workloads: a waiter that asked for its place when another one
//!   had been told of its own must not be granted the lock earlier. Of other libraries only the
//!   moments are known at which their workers asked, so a waiter must have asked clearly later. If
//!   a fault was on in the meantime, or within one lease before, such a grant is only counted.
//! - **Waits** (`waits.rs`): no worker waits when its process reports that all workers have ended.
//!   After the end of a fault, a lock with waiters is free for at most `recovers_within` until it
//!   is granted, or until the last waiter gives up. The time in which it is held does not count:
//!   until the last valid instant of each hold, or until an orphaned hold has ended. Holds of locks
//!   that are taken together count for each of these locks. A semaphore is held when no permits are
//!   left. The recovery is not measured while another fault is on, or if the next fault begins
//!   before the grant. If the time until then was too long, that is still a violation.
//! - **Idle waits** (`idle.rs`): no worker waits longer than `idle` while no server can have the
//!   lock for anybody, and all faults have been over for `calm_after`. If names have several locks,
//!   `rivalry` is added to `idle`. Time in which a timer of a process was late does not count,
//!   because the machine was busy. A server can have a lock from the grant until a release is
//!   answered without an error, and longer if the hold or the wait was abandoned. Names that share
//!   locks are free when all of them are. A semaphore is free if permits are left.
//! - **Errors**: acquisitions and releases end only with documented kinds of errors. `cell.rs` also
//!   reports failed shutdowns, unless the fault removes permissions.
//! - **Driver** (`reading.rs`): the driver writes its events in a possible order.
//!
//! # Counted only
//!
//! - the kinds of holds, and the renewals and how they ended
//! - the faults that reached a holder, a waiter or a renewal (`coverage.rs`)
//! - how long a lock had waiters but no holder, since the first fault
//! - how long holders reported a lock as held after it was granted to another client
//! - the share of the time in which locks were held and a server may have forgotten the hold

mod coverage;
mod excuses;
mod faults;
mod holds;
mod idle;
mod losses;
mod notice;
mod order;
mod overlaps;
mod reading;
#[cfg(test)]
mod tests;
mod times;
mod tokens;
mod trace;
mod waits;

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_specification::trace::Entry;

use crate::history::Event;
use crate::result::Cell;

use excuses::LAG;
use faults::{Effect, Faults};
use order::Places;
use times::{Clock, nanos};
use trace::{Trace, WaitEnd};

/// What the library guarantees, and what the fault may do.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The common lease, of all holds that name no other one.
    pub(crate) lease: Duration,
    /// How many holds of [`Mode::Permit`](crate::history::Mode::Permit) one name admits at the same
    /// time.
    pub(crate) permits: usize,
    /// Workloads whose locks are granted in the order of the requests.
    pub(crate) fair: BTreeSet<String>,
    /// Workloads in which no lease ends the hold of a process that died.
    pub(crate) lasting: BTreeSet<String>,
    /// Workloads whose locks have several keys. If a server loses one of the keys, it may never
    /// grant the lock again, so waits are not checked.
    pub(crate) may_wedge: BTreeSet<String>,
    /// Faults by which a server may be replaced by one that lags behind.
    pub(crate) replaced_by: BTreeSet<String>,
    /// Faults by which a server may lose data: restarts without data or with old data, evictions,
    /// and clock jumps.
    pub(crate) emptied_by: BTreeSet<String>,
    /// A holder notices within this time that its hold was lost: a third of a lease until the next
    /// renewal, plus the time until that is answered.
    pub(crate) notice_within: Duration,
    /// Whether the library promises that holders notice losses. Some do not.
    pub(crate) tells_losses: bool,
    /// The longest time for which a worker may wait for a free lock.
    pub(crate) idle: Duration,
    /// Added to `idle` if names have several locks: waiters that hold some of the locks may block
    /// each other for this long.
    pub(crate) rivalry: Duration,
    /// After the end of a fault, a lock with waiters is free for at most this long until it is
    /// granted.
    pub(crate) recovers_within: Duration,
    /// This long after the end of a fault, none of its consequences keeps a waiter from a free
    /// lock.
    pub(crate) calm_after: Duration,
    /// The kinds of errors, other than timeouts, with which acquisitions and releases may end.
    pub(crate) documented_errors: BTreeSet<String>,
    /// Whether each `Granted` and `Held` has a deadline. If not, a hold without one stays valid
    /// until a loss notice or the release.
    pub(crate) knows_deadlines: bool,
    /// Whether the library itself compares deadlines with the clock, so that it never answers
    /// *held* after one.
    pub(crate) keeps_deadlines: bool,
}

/// Why the waits of a workload in [`Rules::may_wedge`] are not checked.
const WEDGED: &str =
    "waits were not checked, because permits may have been lost with one of their two keys";

/// What all rules share.
struct Context<'a> {
    rules: &'a Rules,
    faults: Faults<'a>,
    clock: Clock,
    places: Places,
}

/// A time in which servers may have lost grants.
#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Another server took over, and for a time both answered.
    pub(crate) is_believed: bool,
}

/// The times in which servers may have lost grants.
pub(crate) fn forgetting(history: &[Event], rules: &Rules) -> Vec<Forgetting> {
    let faults = Faults::of(history, rules);
    let all = faults.forgetting(u64::MAX).map(|fault| {
        let is_believed = fault.effect == Effect::Replaces;
        let (before, after) = if is_believed {
            (LAG, faults.learn_time)
        } else {
            (0, 0)
        };
        Forgetting {
            from: fault.on.saturating_sub(before),
            until: fault.off.saturating_add(after),
            is_believed,
        }
    });
    all.collect()
}

/// Returns one cell for each workload. The history must be sorted by time. `steps` are those of
/// leasehold's protocol.
pub(crate) fn check(history: &[Event], steps: &[Entry], rules: &Rules) -> Vec<Cell> {
    let clock = Clock::starting(history.first().map_or(0, |event| event.at));
    let traces = reading::traces(history, rules, clock);
    let judged = traces.into_iter().map(|(workload, trace)| {
        let faults = Faults::of(history, rules);
        judge(
            workload,
            &trace,
            &Context {
                rules,
                faults,
                clock,
                places: Places::of(steps),
            },
        )
    });
    judged.collect()
}

fn judge(workload: &str, trace: &Trace<'_>, context: &Context<'_>) -> Cell {
    let mut cell = Cell {
        workload: workload.to_owned(),
        ..Cell::default()
    };
    cell.violations
        .extend(context.faults.malformed(context.clock));
    cell.violations.extend_from_slice(&trace.violations);
    count(trace, context, &mut cell);
    coverage::count(trace, context, &mut cell);
    judge_errors(trace, context, &mut cell);
    overlaps::judge(trace, context, &mut cell);
    losses::judge(trace, context, &mut cell);
    tokens::judge(trace, context, &mut cell);
    if context.rules.fair.contains(workload) {
        order::judge(trace, context, &mut cell);
    }
    let queues = waits::queues(trace, context);
    waits::judge(trace, &queues, context, &mut cell);
    if context.rules.may_wedge.contains(workload) {
        cell.explained.push(format!("{workload}: {WEDGED}"));
    } else {
        waits::judge_recoveries(&queues, context, &mut cell);
        idle::judge(trace, context, &mut cell);
    }
    cell
}

fn count(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    cell.operations = trace.holds.len() as u64;
    cell.timeouts = trace
        .waits
        .iter()
        .filter(|wait| wait.end == WaitEnd::TimedOut)
        .count() as u64;
    let writes = trace.holds.iter().flat_map(|hold| &hold.writes);
    cell.refused_writes = writes.filter(|write| !write.accepted).count() as u64;
    cell.excusable_permille = context.faults.excusable_permille(trace);
    for hold in &trace.holds {
        hold.count(nanos(context.rules.lease), &mut cell.holds);
        cell.renewals.done += hold.renewed;
        cell.renewals.failed += hold.failed;
    }
}

fn judge_errors(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    for (&kind, errors) in &trace.errors {
        cell.errors.insert(kind.to_owned(), errors.count);
        if !context.rules.documented_errors.contains(kind) {
            let first = context.clock.format(errors.first);
            let count = errors.count;
            cell.violations.push(format!(
                "undocumented error: {kind} (count: {count}, first at {first})"
            ));
        }
    }
}
