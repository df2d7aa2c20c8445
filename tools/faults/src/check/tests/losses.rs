//! Holds that end before their holders release them, and the faults that may have caused that.

use crate::history::Doing;
use crate::result::Cell;

use super::actors::{A, B, Script, by, process, process_and_slot_of, rules, slot_of};

/// A hold that is renewed at 600 and lost at 700.
fn lost() -> Script {
    by(B.of("plain:1"))
        .asks(0)
        .gets(10)
        .keeps(0, 610)
        .loses(700)
}

fn without_cause(script: Script) -> Cell {
    let cell = script.finds(&["plain:1: worker 0 of process 2 lost the lock at 700.000 ms"]);
    assert_eq!((cell.losses.with_cause, cell.losses.without_cause), (0, 1));
    cell
}

fn with_cause(script: Script) {
    let cell = script.cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!((cell.losses.with_cause, cell.losses.without_cause), (1, 0));
}

#[test]
fn a_loss_needs_a_cause() {
    let cell = without_cause(lost());
    let expected = "nothing had happened since its lease was renewed at 600.000 ms";
    assert!(
        cell.violations[0].ends_with(expected),
        "{:?}",
        cell.violations
    );
    assert_eq!(cell.renewals.lost, 1);
    with_cause(lost().on(650, "cut").off(660, "cut"));
    with_cause(lost().on(0, "slow"));
}

#[test]
fn a_cause_comes_after_the_last_renewal_and_before_the_loss() {
    with_cause(lost().on(700, "cut").off(900, "cut"));
    without_cause(lost().on(701, "cut").off(900, "cut"));
    with_cause(lost().on(100, "cut").off(200, "cut"));
    without_cause(lost().on(100, "cut").off(199, "cut"));
}

#[test]
fn a_cause_must_concern_the_process() {
    let with_scope = |scope| lost().on_at(650, "cut", scope).off(660, "cut");
    with_cause(with_scope(process(2)));
    without_cause(with_scope(process(1)));
    with_cause(with_scope(slot_of("plain:1")));
    // While one shard is down, the other shards refuse calls too.
    with_cause(with_scope(slot_of("plain:0")));
    with_cause(with_scope(process_and_slot_of(1, "plain:0")));
}

#[test]
fn a_deadline_that_passes_is_a_loss() {
    let says =
        "process 1 lost the lock at 1010.000 ms, and nothing had happened since it was granted";
    by(A).asks(0).gets(10).loses(2_000).finds(&[says]);
    by(A).asks(0).gets(10).releases(1_010).finds(&[says]);
    by(A).asks(0).gets(10).releases(1_009).finds_nothing();
}

#[test]
fn a_deadline_that_passes_unseen_before_a_renewal_is_no_loss() {
    let paused = by(A).asks(0).gets(10).uses_hold(1_490, Doing::Paused);
    let cell = paused.clone().holds(1_500).releases(1_600).cell();
    assert_eq!((cell.violations.len(), cell.losses.without_cause), (0, 0));
    paused
        .doubts(1_500)
        .releases(1_600)
        .finds(&["lost the lock at 1010.000 ms"]);
}

#[test]
fn a_deadline_that_passes_unseen_may_have_a_later_cause() {
    let unseen = |cut| {
        let lost = by(A).asks(0).gets(10).doubts(1_500).releases(1_600);
        lost.on(cut, "cut").off(1_550, "cut").cell().losses
    };
    assert_eq!(
        (unseen(1_500).with_cause, unseen(1_500).without_cause),
        (1, 0)
    );
    assert_eq!(
        (unseen(1_501).with_cause, unseen(1_501).without_cause),
        (0, 1)
    );
}

#[test]
fn the_end_of_a_fixed_lease_is_no_loss() {
    let fixed = || by(A).asks_for(0, 1_000).gets(10);
    fixed().loses(1_010).finds_nothing();
    fixed().doubts(1_011).releases(1_012).finds_nothing();
    fixed().releases(1_500).finds_nothing();
    fixed().release_fails(1_500, "Lost").finds_nothing();
    let early = fixed()
        .loses(1_009)
        .finds(&["lost the lock at 1009.000 ms"]);
    assert_eq!((early.losses.without_cause, early.renewals.lost), (1, 0));
}

#[test]
fn a_release_may_report_a_loss() {
    let cell = by(A)
        .asks(0)
        .gets(10)
        .release_fails(100, "Lost")
        .finds(&["lost the lock at 101.000 ms"]);
    assert_eq!(cell.losses.without_cause, 1);
    by(A)
        .asks(0)
        .gets(10)
        .release_fails(100, "unavailable")
        .finds_nothing();
}

#[test]
fn a_retracted_doubt_is_no_loss_but_needs_a_cause() {
    let doubt = || by(A).asks(0).gets(10).doubts(100).holds(150).releases(200);
    let cell = doubt().finds(&["process 1 found the lock uncertain at 100.000 ms"]);
    assert_eq!((cell.losses.with_cause, cell.losses.without_cause), (0, 0));
    let cell = doubt().on(50, "cut").off(90, "cut").cell();
    assert_eq!(
        (
            cell.violations.len(),
            cell.losses.with_cause,
            cell.renewals.lost
        ),
        (0, 0, 0)
    );
    let cell = by(A)
        .asks(0)
        .gets(10)
        .doubts(100)
        .releases(200)
        .finds(&["lost the lock"]);
    assert_eq!(cell.losses.without_cause, 1);
}

#[test]
fn a_loss_counts_once() {
    let again = by(A).asks(0).gets(10).doubts(100).doubts(120).loses(150);
    let cell = again
        .release_fails(200, "Lost")
        .finds(&["lost the lock at 100.000 ms"]);
    assert_eq!(cell.losses.without_cause, 1);
    let twice = by(A)
        .asks(0)
        .gets(10)
        .doubts(100)
        .holds(120)
        .doubts(150)
        .releases(160)
        .cell();
    assert_eq!((twice.losses.without_cause, twice.violations.len()), (1, 2));
}

#[test]
fn a_killed_holder_has_not_lost_its_lock() {
    by(A)
        .asks(0)
        .gets(10)
        .holds(50)
        .starts(5_000)
        .finds_nothing();
}

#[test]
fn a_library_that_does_not_compare_deadlines_needs_no_cause() {
    let mut rules = rules();
    rules.keeps_deadlines = false;
    let cell = lost().cell_by(&rules);
    assert_eq!((cell.violations.len(), cell.losses.without_cause), (0, 0));
    assert_eq!(cell.renewals.lost, 1);
}
