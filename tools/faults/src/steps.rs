//! The steps of the protocol, judged by the specification.

use std::collections::BTreeSet;

use leasehold_specification::trace::{Entry, Said, Verdict, judge};

use crate::check::Forgetting;
use crate::result::Cell;

/// By how much the clocks of a server and a client may differ within a lease, in milliseconds:
/// readings of whole milliseconds, and a server that reads its clock before it reads the command.
const NOISE: u32 = 5;
/// So many wrong steps are told; more show nothing new.
const TOLD: usize = 3;

/// Judges the steps of a cell's locks.
pub(crate) fn check(steps: &[Entry], forgetting: &[Forgetting], cell: &mut Cell) {
    let is_ours = |step: &&Entry| {
        let workload = step.key.split_once(':').map(|(workload, _)| workload);
        workload == Some(&cell.workload)
    };
    let mut history: Vec<_> = steps.iter().filter(is_ours).cloned().collect();
    let keys: BTreeSet<_> = history
        .iter()
        .map(|step| (step.server, step.key.clone()))
        .collect();
    for (server, key) in keys {
        history.extend(
            forgetting
                .iter()
                .map(|time| told(time, server, key.clone())),
        );
    }
    let Verdict {
        allowed,
        grants,
        believed,
        states,
        rejected,
        walked: _,
    } = judge(history, NOISE);
    let (allowed, grants, believed, states) = (
        allowed as u64,
        grants as u64,
        believed as u64,
        states as u64,
    );
    cell.steps = crate::result::Steps {
        allowed,
        grants,
        believed,
        states,
    };
    let told = rejected.iter().take(TOLD);
    cell.violations.extend(told.map(|rejected| {
        let text = rejected.to_string();
        let steps: Vec<_> = text.lines().map(str::trim).collect();
        format!(
            "the specification does not allow this: {}",
            steps.join("; ")
        )
    }));
}

fn told(time: &Forgetting, server: u32, key: String) -> Entry {
    let until = time.until;
    Entry {
        at: time.from,
        client: 0,
        server,
        key,
        said: if time.is_believed {
            Said::Replaced { until }
        } else {
            Said::Forgets { until }
        },
    }
}
