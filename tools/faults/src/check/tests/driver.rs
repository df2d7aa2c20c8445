//! Histories with events in an impossible order.

use crate::history::{Doing, What};

use super::actors::{A, B, Script, by, rules};

fn is_reported(script: Script) {
    script.finds(&["driver: ", "process 1"]);
}

#[test]
fn events_in_an_impossible_order_are_reported() {
    is_reported(by(A).gets(10));
    is_reported(by(A).holds(10));
    is_reported(by(A).asks(0).asks(5).gets(10).releases(20));
    is_reported(by(A).asks(0).holds(5).gets(10).releases(20));
    is_reported(by(A).asks(0).gets(10).gets(15).releases(20));
    is_reported(by(A).asks(0).gets(10).asks(15).releases(20));
    is_reported(
        by(A)
            .asks(0)
            .gets(10)
            .does(15, What::Released { error: None }),
    );
    is_reported(by(A).asks(0).gets(10).does(15, What::Releasing).holds(16));
    is_reported(
        by(A)
            .asks(0)
            .gets(10)
            .does(15, What::Releasing)
            .write_accepted(16),
    );
    is_reported(by(A).asks(0).times_out(10).times_out(11));
    is_reported(by(A).has(0, 10, 100).doubts(150));
    let renewed = What::Did {
        what: Doing::Renewed,
        error: None,
    };
    is_reported(by(A).asks(0).does(5, renewed.clone()).gets(10).releases(20));
    is_reported(
        by(A)
            .asks(0)
            .gets(10)
            .does(15, What::Releasing)
            .does(16, renewed),
    );
}

#[test]
fn a_worker_may_use_its_hold() {
    for what in [
        Doing::Renewed,
        Doing::Extended,
        Doing::Reentered,
        Doing::Paused,
    ] {
        let fails = What::Did {
            what,
            error: Some("unavailable".to_owned()),
        };
        let held = by(A).asks(0).gets(10).uses_hold(20, what);
        held.does(30, fails).holds(40).releases(50).finds_nothing();
    }
}

#[test]
fn a_loss_may_be_reported_late() {
    by(A).has(0, 10, 100).loses(150).finds_nothing();
    by(A)
        .asks(0)
        .gets(10)
        .does(15, What::Releasing)
        .loses(16)
        .finds_nothing();
}

#[test]
fn after_a_loss_or_a_doubt_a_worker_may_ask_again() {
    by(A)
        .on(0, "cut")
        .asks(0)
        .gets(10)
        .loses(50)
        .has(60, 90, 100)
        .finds_nothing();
    by(A)
        .on(0, "cut")
        .asks(0)
        .gets(10)
        .doubts(50)
        .has(60, 90, 100)
        .finds_nothing();
    let doubting = by(A).on(0, "cut").asks(0).gets(10).loses(50).doubts(51);
    doubting.releases(55).has(60, 90, 100).finds_nothing();
}

#[test]
fn a_lost_hold_stays_lost() {
    let lost = by(A).on(0, "cut").asks(0).gets(10).loses(50).holds(51);
    lost.clone().finds_nothing();
    lost.holds(60)
        .finds(&["plain:0: worker 0 of process 1 says that the lock is held after it was lost"]);
}

#[test]
fn a_worker_has_one_name_at_a_time() {
    let other = A.of("plain:1");
    is_reported(
        by(A)
            .asks(0)
            .gets(10)
            .by(other)
            .holds(20)
            .by(A)
            .releases(30),
    );
    by(A)
        .has(0, 10, 20)
        .by(other)
        .has(30, 40, 50)
        .finds_nothing();
    let elsewhere = A.of("spin:0");
    let cells = by(A)
        .asks(0)
        .by(elsewhere)
        .asks(5)
        .by(A)
        .gets(10)
        .releases(20)
        .cells(&rules());
    let found: Vec<_> = cells
        .iter()
        .map(|cell| (cell.operations, cell.violations.len()))
        .collect();
    assert_eq!(found, [(1, 0), (0, 1)], "{cells:?}");
}

#[test]
fn no_worker_holds_a_lock_when_its_process_ends() {
    is_reported(by(A).asks(0).gets(10).ends(20));
    by(A).has(0, 10, 15).ends(20).finds_nothing();
    by(A).asks(0).gets(10).by(B).ends(20).finds_nothing();
}

#[test]
fn a_grant_has_a_deadline_if_the_library_knows_it() {
    let without = by(A).asks(0).gets_until(10, None).releases(20);
    is_reported(without.clone());
    is_reported(by(A).asks(0).gets(10).holds_until(15, None).releases(20));
    let mut rules = rules();
    rules.knows_deadlines = false;
    assert!(without.cell_by(&rules).passes());
}

#[test]
fn the_end_of_a_fault_needs_a_beginning() {
    by(A)
        .has(0, 10, 20)
        .off(30, "cut")
        .finds(&["driver: fault cut ended at 30.000 ms"]);
    by(A)
        .has(0, 10, 20)
        .on(25, "cut")
        .off(30, "cut")
        .finds_nothing();
}
