//! Whether, after an excused overlap, one of the holders noticed in time that its hold is over.

use crate::result::Cell;

use super::Context;
use super::times::{Span, millis, nanos};
use super::trace::{Hold, Trace};

/// Holds that were valid at the same time: two, or one more than there are permits.
pub(super) struct Overlap {
    /// Index into [`Trace::locks`].
    pub(super) lock: usize,
    pub(super) at: u64,
    pub(super) until: u64,
    /// Indices into [`Trace::holds`].
    pub(super) holds: Vec<usize>,
}

/// Two readings of one deadline may differ by this much, because each is computed from another
/// reading of the clock.
const READING_ERROR: u64 = 100_000;

/// One holder of an overlap.
pub(super) struct Participant<'a> {
    pub(super) hold: &'a Hold,
    /// The holder must notice by this time.
    pub(super) due: u64,
    /// When the holder noticed, if it did so before it left.
    pub(super) noticed: Option<u64>,
    left: Option<u64>,
    /// Whether a server may have forgotten this hold. If not, the other holder is the one that must
    /// notice.
    is_forgotten: bool,
}

impl<'a> Participant<'a> {
    fn new(hold: &'a Hold, slot: u16, at: u64, context: &Context<'_>) -> Self {
        let left = hold.left_at;
        let noticed = hold
            .noticed_after(at)
            .filter(|noticed| left.is_none_or(|left| *noticed <= left));
        let is_forgotten = context.faults.forgetting_fault(slot, hold, at).is_some();
        Self {
            hold,
            due: due(hold, at, context),
            noticed,
            left,
            is_forgotten,
        }
    }

    fn noticed_in_time(&self) -> Option<u64> {
        self.noticed
            .filter(|noticed| *noticed <= self.due.saturating_add(READING_ERROR))
    }

    /// Whether the holder of a forgotten hold released the lock, or died, before it had to notice.
    fn left_before(&self) -> bool {
        self.is_forgotten && self.left.is_some_and(|left| left <= self.due)
    }
}

/// The latest time at which a holder must notice that another client has had the lock since `at`.
/// Its next renewal shows that, or its deadline passes.
fn due(hold: &Hold, at: u64, context: &Context<'_>) -> u64 {
    let deadline = hold.deadline_at(at).unwrap_or(u64::MAX);
    // Without a renewal, or while the worker pauses, only the deadline shows the loss.
    if hold.is_fixed || hold.actions.paused {
        return deadline;
    }
    let third = hold.lease / 3;
    let reply_time = nanos(
        context
            .rules
            .notice_within
            .saturating_sub(context.rules.lease / 3),
    );
    let due = deadline.min(next_renewal(hold, at, third).saturating_add(reply_time));
    // A stopped process receives no replies.
    let is_held_up = context
        .faults
        .delays(hold.worker.process, Span { from: at, to: due });
    if is_held_up { deadline } else { due }
}

/// When the next renewal after `at` is sent.
fn next_renewal(hold: &Hold, at: u64, third: u64) -> u64 {
    let update = hold.lease_update_at(at).filter(|_| hold.shows_renewals);
    let next = update.map_or(0, |update| update.until.saturating_sub(hold.lease - third));
    let is_seen = hold
        .confirmations
        .iter()
        .any(|confirmation| (next..=at).contains(&confirmation.at));
    if next > at {
        next
    } else if update.is_some() && is_seen {
        at
    } else {
        // The worker has not looked since the renewal was due. The renewal may have been sent in
        // the meantime, so the next one is due up to a third of the lease later.
        at + third
    }
}

/// The holders of an overlap, in the order of their grants.
pub(super) fn participants<'a>(
    trace: &'a Trace<'_>,
    context: &Context<'_>,
    overlap: &Overlap,
) -> Vec<Participant<'a>> {
    let slot = trace.locks[overlap.lock].slot;
    let mut holds: Vec<_> = overlap.holds.clone();
    // `Trace::holds` is sorted by grant, so this sorts by grant too.
    holds.sort_unstable();
    let participant = |hold: usize| Participant::new(&trace.holds[hold], slot, overlap.at, context);
    holds.into_iter().map(participant).collect()
}

/// When a holder noticed in time. If an older and the youngest holder did, this is the time of the
/// older one.
pub(super) fn noticed_in_time(participants: &[Participant<'_>]) -> Option<u64> {
    let (youngest, older) = participants.split_last()?;
    let of_older = older.iter().filter_map(Participant::noticed_in_time).min();
    of_older.or_else(|| youngest.noticed_in_time())
}

/// Whether a holder left before it had to notice.
pub(super) fn one_left(participants: &[Participant<'_>]) -> bool {
    participants.iter().any(Participant::left_before)
}

/// Counts how long it took until a holder noticed, and for how long the older holders still
/// reported the lock as held.
pub(super) fn count(participants: &[Participant<'_>], at: u64, cell: &mut Cell) {
    let losses = &mut cell.losses;
    let in_time = noticed_in_time(participants);
    let left = in_time.is_none() && one_left(participants);
    let late = || {
        participants
            .iter()
            .filter_map(|participant| participant.noticed)
            .min()
    };
    if let Some(noticed) = in_time.or_else(|| late().filter(|_| !left)) {
        losses.longest_notice_ms = losses.longest_notice_ms.max(millis(noticed - at));
    }
    let Some((youngest, older)) = participants.split_last() else {
        return;
    };
    // If only the youngest holder noticed, its grant was the lost one. The older holders were
    // right.
    let is_right = older
        .iter()
        .all(|participant| participant.noticed_in_time().is_none());
    if is_right && youngest.noticed_in_time().is_some() {
        return;
    }
    let first = older
        .iter()
        .min_by_key(|participant| participant.noticed.unwrap_or(u64::MAX));
    let Some(participant) = first else { return };
    let end = participant.noticed.unwrap_or(u64::MAX);
    let confirmed = participant
        .hold
        .confirmations
        .iter()
        .map(|confirmation| confirmation.at);
    if let Some(last) = confirmed
        .filter(|confirmed| (at + 1..=end).contains(confirmed))
        .max()
    {
        losses.reported_held += 1;
        losses.longest_reported_held_ms = losses.longest_reported_held_ms.max(millis(last - at));
    }
}
