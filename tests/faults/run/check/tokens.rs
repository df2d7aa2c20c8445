//! Fencing: tokens rise, and the resource goes by them.

use crate::result::Cell;

use super::Context;
use super::story::{Hold, Lock, Story, Write};

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    for lock in &story.locks {
        let fenced = Fenced::of(story, lock);
        if !fenced.holds.is_empty() {
            fenced.judge_grants(context, cell);
            fenced.judge_refusals(context, cell);
            fenced.judge_acceptances(context, cell);
        }
    }
}

/// The holds of one lock that have tokens, in the order of their grants.
struct Fenced<'a> {
    lock: &'a str,
    holds: Vec<(i64, &'a Hold)>,
}

impl<'a> Fenced<'a> {
    fn of(story: &'a Story<'_>, lock: &'a Lock) -> Self {
        let holds = lock.holds.iter().map(|hold| &story.holds[*hold]);
        let holds = holds.filter_map(|hold| Some((hold.token?, hold))).collect();
        Self { lock: &lock.name, holds }
    }

    fn judge_grants(&self, context: &Context<'_>, cell: &mut Cell) {
        let valid = self.holds.iter().filter(|(_, hold)| hold.is_valid(hold.granted));
        let mut last: Option<(i64, &Hold)> = None;
        for &(token, hold) in valid {
            if let Some((before, earlier)) = last
                && token <= before
            {
                let said = format!(
                    "{}: {} was granted token {token} at {}, and {} token {before} at {}",
                    self.lock,
                    hold.who,
                    context.clock.say(hold.granted),
                    earlier.who,
                    context.clock.say(earlier.granted),
                );
                match context.faults.took_the_grant(earlier.granted, hold.granted) {
                    Some(fault) => {
                        cell.explained.push(format!(
                            "{said}; the counter may be lost by {}",
                            fault.say(context.clock)
                        ));
                    }
                    None => cell.violations.push(said),
                }
            }
            last = Some((token, hold));
        }
    }

    fn judge_refusals(&self, context: &Context<'_>, cell: &mut Cell) {
        for (token, hold, write) in self.writes().filter(|(_, _, write)| !write.accepted) {
            if !hold.is_valid(write.answered) {
                continue;
            }
            let said = format!(
                "{}: a write of {} with token {token} was refused at {}, while it held the lock",
                self.lock,
                hold.who,
                context.clock.say(write.answered),
            );
            match context.faults.took_between(0, write.answered) {
                Some(fault) => {
                    cell.explained.push(format!(
                        "{said}; the counter may be lost by {}",
                        fault.say(context.clock)
                    ));
                }
                None => cell.violations.push(said),
            }
        }
    }

    fn judge_acceptances(&self, context: &Context<'_>, cell: &mut Cell) {
        let accepted: Vec<_> = self.writes().filter(|(_, _, write)| write.accepted).collect();
        let by_order = accepted.iter().all(|(_, _, write)| write.order.is_some());
        // When each was certainly not yet, and when certainly done.
        let begins = |write: &Write| if by_order { write.order.unwrap_or(0) } else { write.sent };
        let ends = |write: &Write| if by_order { write.order.unwrap_or(0) } else { write.answered };
        let mut by_begin = accepted.clone();
        by_begin.sort_by_key(|(_, _, write)| begins(write));
        let mut by_end = accepted;
        by_end.sort_by_key(|(_, _, write)| ends(write));
        let mut done = by_end.into_iter().peekable();
        let mut highest: Option<(i64, &Write)> = None;
        for (token, hold, write) in by_begin {
            while let Some((other, _, earlier)) =
                done.next_if(|(_, _, other)| ends(other) < begins(write))
            {
                if highest.is_none_or(|(highest, _)| highest < other) {
                    highest = Some((other, earlier));
                }
            }
            if let Some((before, earlier)) = highest.filter(|(highest, _)| *highest > token) {
                cell.violations.push(format!(
                    "{}: the resource accepted a write of {} with token {token} at {}, after one with token \
                     {before} at {}",
                    self.lock,
                    hold.who,
                    context.clock.say(write.answered),
                    context.clock.say(earlier.answered),
                ));
            }
        }
    }

    fn writes(&self) -> impl Iterator<Item = (i64, &'a Hold, &'a Write)> {
        let writes = |&(token, hold): &(i64, &'a Hold)| {
            hold.writes.iter().map(move |write| (token, hold, write))
        };
        self.holds.iter().flat_map(writes)
    }
}
