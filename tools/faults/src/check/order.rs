//! Who was granted out of turn.

use crate::result::Cell;

use super::Context;
use super::story::{Lock, Story, Wait, WaitEnd};
use super::times::nanos;

/// Who asked earlier by less may be later in the queue: the way there takes time.
const MARGIN: u64 = 100_000_000;

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let calm_margin = nanos(context.rules.lease);
    for lock in &story.locks {
        for (early, passed_over) in out_of_turn(story, lock) {
            cell.out_of_turn += 1;
            if context
                .faults
                .calm(passed_over.asked, early.ended, calm_margin)
            {
                cell.violations.push(format!(
                    "{}: {} asked at {} and was granted at {}, before {}, who had asked at {}",
                    lock.name,
                    early.who,
                    context.clock.say(early.asked),
                    context.clock.say(early.ended),
                    passed_over.who,
                    context.clock.say(passed_over.asked),
                ));
            }
        }
    }
}

/// Each with the last one that had asked before it, and was granted later.
fn out_of_turn<'a>(story: &'a Story<'_>, lock: &Lock) -> Vec<(&'a Wait, &'a Wait)> {
    let granted = lock.waits.iter().map(|wait| &story.waits[*wait]);
    let by_asked: Vec<&Wait> = granted
        .filter(|wait| wait.end == WaitEnd::Granted)
        .collect();
    let mut by_grant = by_asked.clone();
    by_grant.sort_by_key(|wait| wait.ended);
    let mut asked = by_asked.into_iter().peekable();
    let mut pending: Vec<&Wait> = Vec::new();
    let mut found = Vec::new();
    for early in by_grant {
        pending.extend(std::iter::from_fn(|| {
            asked.next_if(|wait| wait.asked < early.ended)
        }));
        pending.retain(|wait| wait.ended > early.ended);
        let earlier = pending
            .iter()
            .filter(|wait| wait.asked + MARGIN < early.asked);
        if let Some(passed_over) = earlier.max_by_key(|wait| wait.asked) {
            found.push((early, *passed_over));
        }
    }
    found
}
