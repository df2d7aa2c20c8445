//! Fencing: tokens rise, and the resource goes by them.

use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::story::{Hold, Lock, Story, Write};

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    for lock in &story.locks {
        let fenced = Fenced::of(story, lock);
        if !fenced.holds.is_empty() {
            fenced.judge_grants(context, cell);
            fenced.judge_refusals(context, cell);
        }
    }
}

/// The holds of one lock that have tokens, in the order of their grants.
struct Fenced<'a> {
    lock: &'a str,
    slot: u16,
    holds: Vec<(i64, &'a Hold)>,
}

impl<'a> Fenced<'a> {
    fn of(story: &'a Story<'_>, lock: &'a Lock) -> Self {
        let holds = lock.holds.iter().map(|hold| &story.holds[*hold]);
        let holds = holds.filter_map(|hold| Some((hold.token?, hold))).collect();
        Self {
            lock: &lock.name,
            slot: lock.slot,
            holds,
        }
    }

    fn judge_grants(&self, context: &Context<'_>, cell: &mut Cell) {
        let valid = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_valid(hold.granted));
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
                match context
                    .faults
                    .took_the_grant(self.slot, earlier, hold.granted)
                {
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
            match self.explains_refusal(context, (token, hold), write.answered) {
                Some((what, fault)) => {
                    let fault = fault.say(context.clock);
                    cell.explained
                        .push(format!("{said}; {what} may be lost by {fault}"));
                }
                None => cell.violations.push(said),
            }
        }
    }

    /// A higher token, or the same one, was granted before the write: either it was lost with its counter, or the server
    /// that granted it did not know of this hold.
    fn explains_refusal<'b>(
        &self,
        context: &'b Context<'_>,
        (token, hold): (i64, &Hold),
        at: u64,
    ) -> Option<(&'static str, &'b Fault<'b>)> {
        let is_other = |other: &Hold| !std::ptr::eq(other, hold);
        let higher = self
            .holds
            .iter()
            .filter(|(other, by)| *other >= token && is_other(by));
        let mut higher = higher.map(|(_, by)| *by).filter(|by| by.granted <= at);
        higher.find_map(|by| {
            if by.granted <= hold.granted {
                let fault = context.faults.took_the_grant(self.slot, by, hold.granted)?;
                Some(("the counter", fault))
            } else {
                let fault = context.faults.forgot(self.slot, hold, by.granted)?;
                Some(("the hold", fault))
            }
        })
    }

    fn writes(&self) -> impl Iterator<Item = (i64, &'a Hold, &'a Write)> {
        let writes = |&(token, hold): &(i64, &'a Hold)| {
            hold.writes.iter().map(move |write| (token, hold, write))
        };
        self.holds.iter().flat_map(writes)
    }
}
