//! How long workers wait, and how soon a lock is granted again after a fault.

use std::time::Duration;

use crate::check::Rules;
use crate::history::Mode;
use crate::result::Cell;

use super::actors::{A, Actor, B, C, FORBIDDEN, Script, by, rules};

#[test]
fn the_longest_wait_is_known_however_it_ended() {
    assert_eq!(
        by(A)
            .has(0, 10, 100)
            .by(B)
            .has(5, 120, 200)
            .cell()
            .longest_wait_ms,
        115
    );
    assert_eq!(
        by(A)
            .has(0, 10, 600)
            .by(B)
            .asks(5)
            .times_out(505)
            .cell()
            .longest_wait_ms,
        500
    );
    assert_eq!(
        by(A)
            .asks(5)
            .fails(55, "unavailable")
            .cell()
            .longest_wait_ms,
        50
    );
    assert_eq!(
        by(A).asks(5).fails(55, FORBIDDEN).cell().longest_wait_ms,
        50
    );
}

#[test]
fn operations_timeouts_and_errors_are_counted() {
    let cell = by(A)
        .has(0, 10, 100)
        .asks(110)
        .gets(120)
        .release_fails(130, "unavailable")
        .by(B)
        .asks(0)
        .times_out(50)
        .asks(60)
        .fails(70, "unavailable")
        .cell();
    assert_eq!((cell.operations, cell.timeouts), (2, 1));
    assert_eq!(
        cell.errors.into_iter().collect::<Vec<_>>(),
        [("unavailable".to_owned(), 2)]
    );
    assert_eq!(cell.violations, [""; 0]);
}

#[test]
fn undocumented_errors_are_violations() {
    let fails = |error| by(A).asks(0).fails(10, error).asks(20).fails(30, error);
    fails("unavailable").finds_nothing();
    let cell = fails("panic").finds(&["undocumented error: panic (count: 2, first at 10.000 ms)"]);
    assert_eq!(cell.errors["panic"], 2);
    by(A)
        .asks(0)
        .gets(10)
        .release_fails(20, "panic")
        .finds(&["panic (count: 1"]);
    by(A)
        .has(0, 10, 100)
        .by(B)
        .asks(0)
        .times_out(5)
        .finds_nothing();
}

#[test]
fn no_worker_waits_when_its_process_ends() {
    let waiting = by(A).has(0, 10, 100).by(B).asks(50);
    waiting.clone().finds_nothing();
    waiting
        .clone()
        .ends(200)
        .finds(&["process 2 asked at 50.000 ms and had no answer"]);
    waiting.clone().by(A).ends(200).finds_nothing();
    waiting.gets(120).releases(150).ends(200).finds_nothing();
}

/// A holds the lock. A cut lasts from 100 to 1,000. B waits, and is granted the lock at this time.
fn cut(granted: u64) -> Script {
    cut_of("plain:0", granted)
}

fn cut_of(name: &'static str, granted: u64) -> Script {
    let held = by(A.of(name)).has(0, 10, 500);
    let cut = held.on(100, "cut").off(1_000, "cut");
    cut.by(B.of(name)).has(400, granted, granted + 10)
}

fn recovery(cell: &Cell) -> &[u64] {
    &cell.recovery_ms
}

#[test]
fn after_a_fault_each_lock_is_granted_again() {
    assert_eq!(recovery(&cut(1_250).cell()), [250]);
    cut(1_250).finds_nothing();
    cut(4_000).finds_nothing();
    let late = cut(4_001).finds(&[
        "plain:0",
        "the end of cut (of a server)",
        "granted only after 3001.000 ms",
    ]);
    assert_eq!(recovery(&late), [3_001]);
}

#[test]
fn the_slowest_lock_counts() {
    let cell = cut(1_250).by(C.of("plain:1")).has(900, 1_400, 1_410).cell();
    assert_eq!(recovery(&cell), [400]);
}

#[test]
fn a_lock_without_waiters_needs_no_recovery() {
    let cell = cut(1_250)
        .by(C.of("plain:1"))
        .has(1_001, 1_400, 1_410)
        .cell();
    assert_eq!(recovery(&cell), [250]);
    assert_eq!(
        recovery(&by(A).has(0, 10, 50).on(100, "cut").off(200, "cut").cell()),
        [0; 0]
    );
}

#[test]
fn a_lock_that_is_not_granted_again_has_not_recovered() {
    let never = by(A)
        .has(0, 10, 500)
        .on(100, "cut")
        .off(1_000, "cut")
        .by(B)
        .asks(400);
    never.clone().times_out(4_000).finds_nothing();
    let expected = "not granted again; nobody held it for 3001.000 ms";
    let cell = never.clone().times_out(4_001).finds(&[expected]);
    assert_eq!(recovery(&cell), [0; 0]);
    never.times_out(999).finds_nothing();
}

#[test]
fn no_recovery_is_measured_during_another_fault() {
    let both = |off| cut(4_500).on(900, "slow").off(off, "slow").cell();
    assert_eq!(recovery(&both(1_600)), [2_900], "from the end of the last");
    assert_eq!(both(1_600).violations, [""; 0]);
    assert_eq!(both(950).violations.len(), 1);
}

#[test]
fn the_next_fault_cuts_a_recovery_short() {
    let again = |on, granted| cut(granted).on(on, "slow").off(5_000, "slow").cell();
    assert_eq!(recovery(&again(3_000, 5_200)), [200]);
    assert_eq!(again(3_000, 5_200).violations, [""; 0]);
    assert_eq!(again(4_000, 5_200).violations, [""; 0]);
    let late = again(4_001, 5_200);
    assert_eq!(late.violations.len(), 1, "{:?}", late.violations);
    assert!(
        late.violations[0].contains("not granted for 3001.000 ms"),
        "{:?}",
        late.violations
    );
}

/// A holds the lock until `released`. A cut ends at 1,000. B waits, and is granted the lock at
/// `granted`.
fn long(released: u64, granted: u64) -> Script {
    let held = by(A).has(0, 10, released).on(100, "cut").off(1_000, "cut");
    held.by(B).has(400, granted, granted + 10)
}

#[test]
fn the_time_in_which_a_lock_is_held_does_not_count() {
    let cell = long(9_000, 9_050).cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!((recovery(&cell), cell.outage_ms), (&[50][..], 50));
    let late = long(3_000, 6_001).cell();
    let expected = "granted only after 3001.000 ms in which nobody held it";
    assert!(
        late.violations[0].contains(expected),
        "{:?}",
        late.violations
    );
    let to_the_end = by(A).has(0, 10, 9_000).on(100, "cut").off(1_000, "cut");
    to_the_end.by(B).asks(400).times_out(8_990).finds_nothing();
}

/// A abandons the lock during a cut that ends at 1,000. B waits, and is granted the lock at this
/// time. The idle wait of B is not checked.
fn left_behind(left: &Script, granted: u64) -> Cell {
    let cut = left.clone().on(100, "cut").off(1_000, "cut");
    let waits = cut.by(B).has(400, granted, granted + 10);
    waits.cell_by(&Rules {
        idle: Duration::MAX,
        ..rules()
    })
}

#[test]
fn an_abandoned_lock_is_held_until_its_lease_has_ended() {
    let dead = by(A).asks(0).gets(10).holds(900);
    let cell = left_behind(&dead, 5_900);
    assert_eq!(
        (recovery(&cell), cell.outage_ms),
        (&[3_000][..], 3_000),
        "gone by 2,900"
    );
    assert_eq!(cell.violations, [""; 0]);
    let late = left_behind(&dead, 5_901);
    let expected = "granted only after 3001.000 ms in which nobody held it";
    assert!(
        late.violations[0].contains(expected),
        "{:?}",
        late.violations
    );
    let forbidden = by(A).asks(0).gets(10).release_fails(899, FORBIDDEN);
    assert_eq!(recovery(&left_behind(&forbidden, 5_900)), [3_000]);
    let failed = by(A).asks(0).gets(10).release_fails(899, "unavailable");
    assert_eq!(
        recovery(&left_behind(&failed, 3_900)),
        [2_900],
        "its process releases it"
    );
}

#[test]
fn a_semaphore_is_held_when_it_has_no_permits_left() {
    let permit = |actor: Actor| actor.with(Mode::Permit);
    let one = by(permit(A))
        .has(0, 10, 2_000)
        .on(100, "cut")
        .off(1_000, "cut");
    let waits = one.by(permit(B)).has(900, 1_900, 2_200);
    assert_eq!(recovery(&waits.clone().cell()), [900]);
    let full = waits.by(permit(C)).has(0, 20, 1_890).cell();
    assert_eq!((recovery(&full), full.outage_ms), (&[10][..], 10));
}

#[test]
fn a_hold_counts_for_locks_that_are_taken_together() {
    let held = by(A.of("multi:1+2"))
        .has(0, 10, 9_000)
        .on(100, "cut")
        .off(1_000, "cut");
    let cell = held.by(B.of("multi:0+1")).has(400, 9_050, 9_060).cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!((recovery(&cell), cell.outage_ms), (&[50][..], 50));
}

#[test]
fn an_outage_is_the_longest_time_without_a_holder() {
    let outage = |script: Script| script.cell().outage_ms;
    assert_eq!(outage(cut(1_250)), 750);
    assert_eq!(
        outage(by(A).has(0, 10, 50).by(B).has(40, 950, 990)),
        0,
        "no fault"
    );
    assert_eq!(
        outage(by(A).has(0, 900, 990).on(500, "cut").off(510, "cut")),
        400
    );
    let asks_again = by(A).asks(0).fails(500, "unavailable").has(520, 900, 950);
    assert_eq!(outage(asks_again.on(0, "cut")), 900);
    let later = by(A).asks(0).fails(500, "unavailable").has(700, 900, 950);
    assert_eq!(outage(later.on(0, "cut")), 500);
    assert_eq!(outage(by(A).asks(0).times_out(700).on(0, "cut")), 700);
}
