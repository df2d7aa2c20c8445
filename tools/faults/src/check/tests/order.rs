//! The order of grants in fair workloads.

use super::actors::{A, Actor, B, C, Script, by};

const FAIR: &str = "fair:0";

/// B asks at 1,000. C asks at this time, and is granted the lock before B.
fn overtaken(asked: u64) -> Script {
    let first = by(A.of(FAIR)).has(0, 10, 1_500);
    first
        .by(B.of(FAIR))
        .has(1_000, 1_701, 1_800)
        .by(C.of(FAIR))
        .has(asked, 1_600, 1_700)
}

#[test]
fn a_waiter_that_asked_clearly_earlier_is_granted_earlier() {
    let cell = overtaken(1_101).finds(&[
        "fair:0: worker 0 of process 3 asked at 1101.000 ms and was granted at 1600.000 ms",
        "before worker 0 of process 2, which had asked at 1000.000 ms",
    ]);
    assert_eq!(cell.out_of_turn, 1);
    overtaken(1_100).finds_nothing();
}

/// B gets its place from 1,020 to 1,300. C asks for its own then, and is granted the lock before B.
fn overtaken_at(sent: u64) -> Script {
    let first = by(A.of(FAIR)).has(0, 10, 1_500);
    first
        .by(B.of(FAIR))
        .queues(1_000, (1_020, 1_300), 1_701, 1_800)
        .by(C.of(FAIR))
        .queues(1_120, (sent, 1_350), 1_600, 1_700)
}

#[test]
fn the_steps_say_who_had_a_place_first() {
    overtaken_at(1_300).finds_nothing();
    overtaken_at(1_301).finds(&[
        "process 3 asked at 1120.000 ms",
        "before worker 0 of process 2",
    ]);
}

#[test]
fn other_workloads_may_grant_in_any_order() {
    let first = by(A).has(0, 10, 1_500);
    first
        .by(B)
        .has(1_000, 1_701, 1_800)
        .by(C)
        .has(1_200, 1_600, 1_700)
        .finds_nothing();
}

#[test]
fn other_locks_have_other_queues() {
    let first = by(A.of(FAIR)).has(0, 10, 1_500);
    first
        .by(B.of(FAIR))
        .has(1_000, 1_701, 1_800)
        .by(C.of("fair:1"))
        .has(1_200, 1_300, 1_400)
        .finds_nothing();
}

#[test]
fn a_waiter_that_gives_up_is_not_overtaken() {
    let first = by(A.of(FAIR)).has(0, 10, 1_500);
    let later = first.by(C.of(FAIR)).has(1_200, 1_600, 1_700);
    later
        .by(B.of(FAIR))
        .asks(1_000)
        .times_out(1_701)
        .finds_nothing();
}

#[test]
fn during_a_fault_a_wrong_order_is_only_counted() {
    let counted = |script: Script| {
        let cell = script.cell();
        assert_eq!(cell.out_of_turn, 1);
        cell.violations.len()
    };
    assert_eq!(
        counted(overtaken(1_101).on(1_050, "cut").off(1_060, "cut")),
        0
    );
    assert_eq!(counted(overtaken(1_101).on(0, "cut").off(0, "cut")), 0);
    assert_eq!(
        counted(overtaken(1_101).on(1_601, "cut").off(1_602, "cut")),
        1
    );
}

#[test]
fn a_wrong_order_is_a_violation_again_a_lease_after_a_fault() {
    let shifted = |by_ms: u64| {
        let first = by(A.of(FAIR))
            .on(0, "cut")
            .off(10, "cut")
            .has(20, 30, by_ms + 500);
        let first = first.by(B.of(FAIR)).has(by_ms, by_ms + 701, by_ms + 800);
        first
            .by(C.of(FAIR))
            .has(by_ms + 101, by_ms + 600, by_ms + 700)
            .cell()
    };
    assert_eq!(
        (shifted(1_010).out_of_turn, shifted(1_010).violations.len()),
        (1, 0)
    );
    assert_eq!(
        (shifted(1_011).out_of_turn, shifted(1_011).violations.len()),
        (1, 1)
    );
}

#[test]
fn the_last_of_several_overtaken_waiters_decides() {
    let first = by(A.of(FAIR))
        .on(0, "cut")
        .off(10, "cut")
        .has(20, 30, 1_500);
    let in_the_aftermath = first.by(B.of(FAIR)).has(500, 1_901, 2_000);
    let in_calm = in_the_aftermath
        .by(Actor::new(4, FAIR))
        .has(1_011, 1_801, 1_900);
    let cell = in_calm
        .by(C.of(FAIR))
        .has(1_112, 1_600, 1_700)
        .finds(&["before worker 0 of process 4"]);
    assert_eq!(cell.out_of_turn, 2);
}

#[test]
fn long_holds_do_not_change_the_order() {
    let long = by(A.of(FAIR))
        .has(0, 10, 5_000)
        .by(B.of(FAIR))
        .has(500, 5_010, 9_000);
    long.clone()
        .by(C.of(FAIR))
        .has(700, 9_010, 9_020)
        .finds_nothing();
    long.by(C.of(FAIR))
        .has(700, 5_005, 5_006)
        .finds(&["before worker 0 of process 2"]);
}
