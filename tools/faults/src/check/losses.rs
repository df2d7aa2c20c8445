//! Holds that ended before their holders released them, and what can have brought that about.

use crate::result::Cell;

use super::Context;
use super::story::{Alarm, Hold, Story, Teller};
use super::times::Span;

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    for hold in &story.holds {
        let loss = hold.loss();
        cell.renewals.lost += u64::from(loss.is_some() && !hold.is_fixed);
        if !context.rules.keeps_deadlines {
            continue;
        }
        for alarm in hold.alarms.iter().filter(|alarm| needs_a_cause(alarm)) {
            let has_cause = has_cause(context, hold, alarm);
            match (alarm.is_taken_back, has_cause) {
                (false, true) => cell.losses.with_cause += 1,
                (false, false) => cell.losses.without_cause += 1,
                (true, _) => {}
            }
            if !has_cause {
                cell.violations.push(say(story, context, hold, alarm));
            }
        }
    }
}

/// A deadline was only the last one that was seen, if the lock is held after it.
fn needs_a_cause(alarm: &Alarm) -> bool {
    alarm.by == Teller::Library || !alarm.is_taken_back
}

fn has_cause(context: &Context<'_>, hold: &Hold, alarm: &Alarm) -> bool {
    let span = Span {
        from: alarm.signature.from.min(alarm.at),
        to: alarm.seen,
    };
    context.faults.cause(hold.who.process, span).is_some()
}

fn say(story: &Story<'_>, context: &Context<'_>, hold: &Hold, alarm: &Alarm) -> String {
    let how = if alarm.is_taken_back {
        "doubted it"
    } else {
        "lost it"
    };
    let signed = if alarm.signature.by == hold.granted {
        "it was granted"
    } else {
        "its lease was prolonged"
    };
    format!(
        "{}: {} {how} at {}, and nothing had happened since {signed} at {}",
        story.name_of(hold),
        hold.who,
        context.clock.say(alarm.at),
        context.clock.say(alarm.signature.by),
    )
}
