//! How long workers waited, whether one still does, and how soon all were served again after a fault.

use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::story::{Lock, Story, WaitEnd};
use super::times::{millis, nanos, say_length};

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    for wait in &story.waits {
        match wait.end {
            WaitEnd::Granted | WaitEnd::TimedOut | WaitEnd::Failed => {
                let length = millis(wait.ended - wait.asked);
                cell.longest_wait_ms = cell.longest_wait_ms.max(length);
            }
            WaitEnd::Left => cell.violations.push(format!(
                "{}: {} asked at {} and was left without an answer",
                story.names[wait.name].text,
                wait.who,
                context.clock.say(wait.asked),
            )),
            WaitEnd::Vanished => {}
        }
    }
    judge_recoveries(story, context, cell);
}

fn judge_recoveries(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let queues: Vec<Queue<'_>> = story.locks.iter().map(|lock| Queue::of(story, lock)).collect();
    for fault in context.faults.last_ends() {
        let next = context.faults.next(fault.off).map(|fault| fault.on);
        let waiting = queues.iter().filter(|queue| queue.waits_at(fault.off));
        let recoveries: Vec<_> = waiting.map(|queue| queue.recovery(fault, next)).collect();
        for recovery in &recoveries {
            recovery.judge(fault, context, cell);
        }
        let took = recoveries.iter().map(|recovery| recovery.took.filter(|_| !recovery.cut_short));
        if let Some(Some(took)) = took.reduce(|one, other| Some(one?.max(other?))) {
            cell.recovery_ms.push(millis(took));
        }
    }
}

/// What one lock needed after the end of a fault.
struct Recovery<'a> {
    lock: &'a str,
    /// Until it was granted, or until the next fault if that came first. `None`: neither came.
    took: Option<u64>,
    cut_short: bool,
}

impl Recovery<'_> {
    fn judge(&self, fault: &Fault<'_>, context: &Context<'_>, cell: &mut Cell) {
        let within = nanos(context.rules.recovers_within);
        if self.took.is_some_and(|took| took <= within) {
            return;
        }
        let lock = self.lock;
        let how = match self.took {
            Some(took) if self.cut_short => format!("not granted for {}", say_length(took)),
            Some(took) => format!("granted only {} later", say_length(took)),
            None => "not granted again".to_owned(),
        };
        let fault = fault.say(context.clock);
        cell.violations.push(format!("{lock}: had waiters at the end of {fault}, and was {how}"));
    }
}

struct Queue<'a> {
    lock: &'a str,
    /// In the order of asking: when the wait began, and when this one and all before had ended.
    waits: Vec<(u64, u64)>,
    grants: Vec<u64>,
}

impl<'a> Queue<'a> {
    fn of(story: &Story<'_>, lock: &'a Lock) -> Self {
        let mut all_ended = 0;
        let waits = lock.waits.iter().map(|wait| &story.waits[*wait]);
        let waits = waits.map(|wait| {
            all_ended = wait.ended.max(all_ended);
            (wait.asked, all_ended)
        });
        let waits = waits.collect();
        let grants = lock.holds.iter().map(|hold| story.holds[*hold].granted).collect();
        Self { lock: &lock.name, waits, grants }
    }

    fn waits_at(&self, at: u64) -> bool {
        let asked = self.waits.partition_point(|(asked, _)| *asked <= at);
        self.waits[..asked].last().is_some_and(|(_, all_ended)| *all_ended > at)
    }

    fn recovery(&self, fault: &Fault<'_>, next_fault: Option<u64>) -> Recovery<'a> {
        let later = self.grants.partition_point(|granted| *granted <= fault.off);
        let granted = self.grants.get(later).copied();
        let cut_short = next_fault.filter(|next| granted.is_none_or(|granted| granted > *next));
        let end = cut_short.or(granted);
        let took = end.map(|end| end - fault.off);
        Recovery { lock: self.lock, took, cut_short: cut_short.is_some() }
    }
}
