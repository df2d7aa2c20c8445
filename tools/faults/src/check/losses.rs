//! Losses: holds that ended before their holders released them, and the faults that may have caused
//! that.

use crate::result::Cell;

use super::Context;
use super::times::Span;
use super::trace::{Hold, LossNotice, NoticeSource, Trace};

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    for hold in &trace.holds {
        let loss = hold.loss();
        cell.renewals.lost += u64::from(loss.is_some() && !hold.is_fixed);
        if !context.rules.keeps_deadlines {
            continue;
        }
        for notice in hold
            .loss_notices
            .iter()
            .filter(|notice| needs_a_cause(notice))
        {
            let has_cause = has_cause(context, hold, notice);
            match (notice.is_retracted, has_cause) {
                (false, true) => cell.losses.with_cause += 1,
                (false, false) => cell.losses.without_cause += 1,
                (true, _) => {}
            }
            if !has_cause {
                cell.violations.push(describe(trace, context, hold, notice));
            }
        }
    }
}

/// A deadline that passed needs no cause if the lock is held again later: the lease was renewed,
/// and the worker had only not yet seen the later deadline.
fn needs_a_cause(notice: &LossNotice) -> bool {
    notice.by == NoticeSource::Library || !notice.is_retracted
}

fn has_cause(context: &Context<'_>, hold: &Hold, notice: &LossNotice) -> bool {
    let span = Span {
        from: notice.update.earliest.min(notice.at),
        to: notice.seen,
    };
    context.faults.cause(hold.worker.process, span).is_some()
}

fn describe(trace: &Trace<'_>, context: &Context<'_>, hold: &Hold, notice: &LossNotice) -> String {
    let how = if notice.is_retracted {
        "found the lock uncertain"
    } else {
        "lost the lock"
    };
    let since = if notice.update.latest == hold.granted {
        "it was granted"
    } else {
        "its lease was renewed"
    };
    format!(
        "{}: {} {how} at {}, and nothing had happened since {since} at {}",
        trace.name_of(hold),
        hold.worker,
        context.clock.format(notice.at),
        context.clock.format(notice.update.latest),
    )
}
