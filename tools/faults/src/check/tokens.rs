//! Fencing: tokens rise with each grant, and the resource accepts the writes of valid holds.

use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::trace::{Hold, Lock, Trace, Write};

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    for lock in &trace.locks {
        let fenced = Fenced::of(trace, lock);
        if !fenced.holds.is_empty() {
            fenced.judge_grants(context, cell);
            fenced.judge_refusals(context, cell);
        }
    }
}

/// The holds of one lock that have tokens, sorted by grant.
struct Fenced<'a> {
    lock: &'a str,
    slot: u16,
    holds: Vec<(i64, &'a Hold)>,
}

impl<'a> Fenced<'a> {
    fn of(trace: &'a Trace<'_>, lock: &'a Lock) -> Self {
        let holds = lock.holds.iter().map(|hold| &trace.holds[*hold]);
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
                let text = format!(
                    "{}: {} was granted token {token} at {}, although {} had got token {before} at \
                     {}",
                    self.lock,
                    hold.worker,
                    context.clock.format(hold.granted),
                    earlier.worker,
                    context.clock.format(earlier.granted),
                );
                match context
                    .faults
                    .grant_losing_fault(self.slot, earlier, hold.granted)
                {
                    Some(fault) => {
                        cell.explained.push(format!(
                            "{text}; the counter may have been lost by {}",
                            fault.describe(context.clock)
                        ));
                    }
                    None => cell.violations.push(text),
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
            let text = format!(
                "{}: a write of {} with token {token} was refused at {}, while it held the lock",
                self.lock,
                hold.worker,
                context.clock.format(write.answered),
            );
            match self.explains_refusal(context, (token, hold), write.answered) {
                Some((what, fault)) => {
                    let fault = fault.describe(context.clock);
                    cell.explained
                        .push(format!("{text}; {what} may have been lost by {fault}"));
                }
                None => cell.violations.push(text),
            }
        }
    }

    /// The fault that explains a refused write, and what was lost by it. The resource had seen the
    /// same or a higher token. If that was granted before this hold, the counter was lost. If it
    /// was granted later, the server that granted it had forgotten this hold.
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
                let fault = context
                    .faults
                    .grant_losing_fault(self.slot, by, hold.granted)?;
                Some(("the counter", fault))
            } else {
                let fault = context
                    .faults
                    .forgetting_fault(self.slot, hold, by.granted)?;
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
