//! Renewals, and the kinds of holds.

use crate::check::Rules;
use crate::history::{Doing, What};
use crate::result::Holds;

use super::actors::{A, B, Script, by, rules};

fn done(script: Script) -> u64 {
    script.cell().renewals.done
}

#[test]
fn a_later_deadline_is_a_renewal() {
    let held = by(A).asks(0).gets(10);
    assert_eq!(done(held.clone().holds(300).holds(600).releases(700)), 2);
    assert_eq!(
        done(held.clone().holds_until(300, Some(1_010)).releases(700)),
        0
    );
    assert_eq!(
        done(held.clone().holds_until(300, Some(1_011)).releases(700)),
        0,
        "noise"
    );
    assert_eq!(
        done(held.clone().holds_until(300, Some(1_012)).releases(700)),
        1
    );
    let back_and_forth = held
        .holds_until(300, Some(900))
        .holds_until(310, Some(1_010));
    assert_eq!(done(back_and_forth.releases(700)), 0);
}

#[test]
fn a_deadline_that_the_worker_moved_is_no_renewal() {
    let held = |what| by(A).asks(0).gets(10).uses_hold(20, what).holds(300);
    assert_eq!(done(held(Doing::Extended).releases(700)), 0);
    assert_eq!(done(held(Doing::Reentered).releases(700)), 0);
    assert_eq!(done(held(Doing::Paused).releases(700)), 1);
    assert_eq!(done(held(Doing::Extended).holds(600).releases(700)), 1);
    assert_eq!(
        done(by(A).asks_for(0, 1_000).gets(10).holds(300).releases(700)),
        0
    );
}

fn without_deadlines() -> Rules {
    Rules {
        knows_deadlines: false,
        keeps_deadlines: false,
        ..rules()
    }
}

#[test]
fn renewals_by_the_driver_are_counted() {
    let held = by(A).asks(0).gets_until(10, None).holds_until(400, None);
    let fails = What::Did {
        what: Doing::Renewed,
        error: Some("unavailable".to_owned()),
    };
    let renewed = held.clone().uses_hold(410, Doing::Renewed).does(700, fails);
    let cell = renewed
        .holds_until(800, None)
        .releases(900)
        .cell_by(&without_deadlines());
    assert_eq!((cell.renewals.done, cell.renewals.failed), (1, 0));
    // Without deadlines and reports of the driver, renewals are not known.
    let cell = held
        .holds_until(900, None)
        .releases(1_500)
        .cell_by(&without_deadlines());
    assert_eq!((cell.renewals.done, cell.renewals.failed), (0, 0));
}

#[test]
fn a_renewal_by_the_driver_keeps_the_lock() {
    let held = by(A)
        .asks(600)
        .gets_until(610, None)
        .holds_until(1_090, None);
    let with_b = |sent: u64| {
        let held = held.clone().does(sent, What::Wrote { accepted: true });
        let held = held
            .uses_hold(1_110, Doing::Renewed)
            .holds_until(1_250, None)
            .releases(1_260);
        let restart = held.on(1_000, "restart").off(1_100, "restart");
        restart
            .by(B)
            .asks(1_200)
            .gets_until(1_200, None)
            .releases(1_210)
    };
    assert_eq!(
        with_b(1_100).cell_by(&without_deadlines()).overlaps.excused,
        1
    );
    assert_eq!(
        with_b(1_101).cell_by(&without_deadlines()).overlaps.valid,
        1
    );
}

#[test]
fn a_renewal_that_is_late_has_failed() {
    let looks = |at| by(A).asks(0).gets(10).holds_until(at, Some(1_010));
    let failed = |script: Script| script.on(0, "cut").cell().renewals.failed;
    assert_eq!(failed(looks(676).releases(690)), 0);
    assert_eq!(failed(looks(677).releases(690)), 1);
    assert_eq!(
        failed(
            looks(677)
                .holds_until(800, Some(1_010))
                .doubts(900)
                .releases(950)
        ),
        1
    );
    assert_eq!(
        failed(
            looks(677)
                .holds(800)
                .holds_until(1_500, Some(1_800))
                .releases(1_510)
        ),
        2
    );
    assert_eq!(failed(by(A).asks(0).gets(10).doubts(700).releases(710)), 1);
    let fixed = by(A)
        .asks_for(0, 1_000)
        .gets(10)
        .holds_until(900, Some(1_010));
    assert_eq!(failed(fixed.releases(950)), 0);
}

#[test]
fn a_larger_lease_is_renewed_after_a_third_of_it() {
    let held = || by(A).asks_renewed_for(0, 3_000).gets_until(10, Some(3_010));
    held()
        .holds_until(1_500, Some(4_500))
        .holds_until(2_900, Some(5_900))
        .releases(3_000)
        .finds_nothing();
    let cell = held()
        .holds_until(1_500, Some(4_500))
        .releases(2_000)
        .cell();
    assert_eq!((cell.renewals.done, cell.holds.fixed), (1, 0));
    let failed = |at| {
        held()
            .holds_until(at, Some(3_010))
            .releases(2_100)
            .cell()
            .renewals
            .failed
    };
    assert_eq!((failed(2_010), failed(2_011)), (0, 1));
    // The holder notices the loss by its deadline.
    held().loses(3_500).finds(&["lost the lock at 3010.000 ms"]);
}

#[test]
fn kinds_of_holds_are_counted() {
    let holds = |script: Script| script.cell().holds;
    let none = Holds::default();
    assert_eq!(holds(by(A).has(0, 10, 11)), none);
    assert_eq!(holds(by(A).has(0, 10, 10)), Holds { brief: 1, ..none });
    assert_eq!(holds(by(A).has(0, 10, 1_010)), none);
    assert_eq!(
        holds(by(A).has(0, 10, 1_011)),
        Holds {
            beyond_a_lease: 1,
            ..none
        }
    );
    let fixed = by(A)
        .asks_for(0, 500)
        .gets_until(10, Some(510))
        .releases(20);
    assert_eq!(holds(fixed), Holds { fixed: 1, ..none });
    let all = by(A).asks(0).gets(10).uses_hold(20, Doing::Extended);
    let all = all
        .uses_hold(30, Doing::Reentered)
        .uses_hold(40, Doing::Paused);
    let all = all.uses_hold(50, Doing::Paused).releases(60);
    assert_eq!(
        holds(all),
        Holds {
            extended: 1,
            reentered: 1,
            paused: 1,
            ..none
        }
    );
}
