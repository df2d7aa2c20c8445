//! Whether one of those who held a lock together was told in time that its hold was over.

use crate::result::Cell;

use super::Context;
use super::story::{Hold, Story};
use super::times::{Span, millis, nanos};

/// Holds that were valid together from this time on: two, or one more than there are permits.
pub(super) struct Meeting {
    pub(super) lock: usize,
    pub(super) at: u64,
    pub(super) until: u64,
    pub(super) holds: Vec<usize>,
}

/// Two readings of the same deadline differ by less.
const READINGS: u64 = 100_000;

/// Of a meeting, one who held the lock.
pub(super) struct Party<'a> {
    pub(super) hold: &'a Hold,
    /// It is to be told by then.
    pub(super) due: u64,
    /// Before it left.
    pub(super) told: Option<u64>,
    left: Option<u64>,
    /// A server may have forgotten its hold: else the other one has to be told.
    is_forgotten: bool,
}

impl<'a> Party<'a> {
    fn new(hold: &'a Hold, slot: u16, at: u64, context: &Context<'_>) -> Self {
        let left = hold.left;
        let told = hold
            .told_after(at)
            .filter(|told| left.is_none_or(|left| *told <= left));
        let is_forgotten = context.faults.forgot(slot, hold, at).is_some();
        Self {
            hold,
            due: due(hold, at, context),
            told,
            left,
            is_forgotten,
        }
    }

    fn told_in_time(&self) -> Option<u64> {
        self.told
            .filter(|told| *told <= self.due.saturating_add(READINGS))
    }

    /// It released the lock, or died, before it was to be told.
    fn left_before(&self) -> bool {
        self.is_forgotten && self.left.is_some_and(|left| left <= self.due)
    }
}

/// When a holder is to be told at the latest that somebody else has the lock since `at`: its next renewal shows it, or
/// its deadline passes.
fn due(hold: &Hold, at: u64, context: &Context<'_>) -> u64 {
    let deadline = hold.deadline_at(at).unwrap_or(u64::MAX);
    // Nobody renews it, or nobody looks.
    if hold.is_fixed || hold.did.pause {
        return deadline;
    }
    let third = hold.lease / 3;
    let answered = nanos(
        context
            .rules
            .told_within
            .saturating_sub(context.rules.lease / 3),
    );
    let due = deadline.min(next_renewal(hold, at, third).saturating_add(answered));
    // A process that stands still hears nothing.
    let is_held_up = context
        .faults
        .hold_up(hold.who.process, Span { from: at, to: due });
    if is_held_up { deadline } else { due }
}

fn next_renewal(hold: &Hold, at: u64, third: u64) -> u64 {
    let signature = hold.signature_at(at).filter(|_| hold.shows_renewals);
    let next = signature.map_or(0, |signature| {
        signature.until.saturating_sub(hold.lease - third)
    });
    let is_seen = hold
        .answers
        .iter()
        .any(|answer| (next..=at).contains(&answer.at));
    if next > at {
        next
    } else if signature.is_some() && is_seen {
        at
    } else {
        // Nobody has looked since it was due: there may have been one, and the next one comes later.
        at + third
    }
}

/// Those who meet, the oldest first.
pub(super) fn parties<'a>(
    story: &'a Story<'_>,
    context: &Context<'_>,
    meeting: &Meeting,
) -> Vec<Party<'a>> {
    let slot = story.locks[meeting.lock].slot;
    let mut holds: Vec<_> = meeting.holds.clone();
    // Holds are in the order of their grants.
    holds.sort_unstable();
    let party = |hold: usize| Party::new(&story.holds[hold], slot, meeting.at, context);
    holds.into_iter().map(party).collect()
}

/// When one was told, if one was told in time; one of the older, if it can be.
pub(super) fn told_in_time(parties: &[Party<'_>]) -> Option<u64> {
    let (youngest, older) = parties.split_last()?;
    let of_older = older.iter().filter_map(Party::told_in_time).min();
    of_older.or_else(|| youngest.told_in_time())
}

/// One went before it had to be told.
pub(super) fn one_left(parties: &[Party<'_>]) -> bool {
    parties.iter().any(Party::left_before)
}

/// How long it took, and for how long the older said that they hold the lock.
pub(super) fn count(parties: &[Party<'_>], at: u64, cell: &mut Cell) {
    let losses = &mut cell.losses;
    let in_time = told_in_time(parties);
    let left = in_time.is_none() && one_left(parties);
    let late = || parties.iter().filter_map(|party| party.told).min();
    if let Some(told) = in_time.or_else(|| late().filter(|_| !left)) {
        losses.longest_told_ms = losses.longest_told_ms.max(millis(told - at));
    }
    let Some((youngest, older)) = parties.split_last() else {
        return;
    };
    // Then it was the younger that had no hold.
    let is_right = older.iter().all(|party| party.told_in_time().is_none());
    if is_right && youngest.told_in_time().is_some() {
        return;
    }
    let first = older
        .iter()
        .min_by_key(|party| party.told.unwrap_or(u64::MAX));
    let Some(party) = first else { return };
    let end = party.told.unwrap_or(u64::MAX);
    let said = party.hold.answers.iter().map(|answer| answer.at);
    if let Some(last) = said.filter(|said| (at + 1..=end).contains(said)).max() {
        losses.said_held += 1;
        losses.longest_said_held_ms = losses.longest_said_held_ms.max(millis(last - at));
    }
}
