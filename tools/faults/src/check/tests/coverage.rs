//! Which holders, waiters and renewals a fault reaches. It is on from 1,000 to 1,100.

use crate::elections;
use crate::result::Met;

use super::actors::{A, B, Script, by, process, process_and_slot_of, rules, slot_of};

fn coverage(script: Script) -> Met {
    script.on(1_000, "cut").off(1_100, "cut").cell().met
}

/// Held during the fault, and renewed before and after it.
fn held() -> Script {
    by(A)
        .asks(0)
        .gets(10)
        .holds(600)
        .holds(1_300)
        .releases(1_400)
}

const NOTHING: Met = Met {
    injections: 1,
    holders: 0,
    waiters: 0,
    renewals: 0,
};

#[test]
fn a_fault_reaches_the_holders_of_its_time() {
    assert_eq!(
        coverage(held()),
        Met {
            holders: 1,
            ..NOTHING
        }
    );
    assert_eq!(coverage(by(A).has(0, 10, 1_000)), Met { ..NOTHING });
    assert_eq!(
        coverage(by(A).has(0, 10, 1_001)),
        Met {
            holders: 1,
            ..NOTHING
        }
    );
    assert_eq!(coverage(by(A).has(1_101, 1_102, 1_200)), NOTHING);
}

#[test]
fn a_fault_reaches_the_waiters_of_its_time() {
    assert_eq!(
        coverage(by(A).has(0, 10, 50).by(B).asks(900).times_out(1_000)).waiters,
        1
    );
    assert_eq!(
        coverage(by(A).has(0, 10, 50).by(B).asks(900).times_out(999)).waiters,
        0
    );
}

#[test]
fn a_fault_reaches_renewals_that_are_due() {
    let renewed = |at| coverage(by(A).asks(at).gets(at).releases(1_200)).renewals;
    // The renewal is due after a third of the lease.
    assert_eq!(renewed(666), 0);
    assert_eq!(renewed(667), 1);
    assert_eq!(renewed(766), 1);
    assert_eq!(renewed(767), 0);
    assert_eq!(
        coverage(by(A).asks(700).gets(700).releases(1_010)).renewals,
        0,
        "released before"
    );
    assert_eq!(
        coverage(by(A).asks_for(700, 1_000).gets(700).releases(1_200)).renewals,
        0
    );
}

#[test]
fn renewals_without_deadlines_are_due_each_third_of_a_lease() {
    let mut rules = rules();
    (rules.knows_deadlines, rules.keeps_deadlines) = (false, false);
    let renewals = |granted| {
        let held = by(A)
            .asks(granted)
            .gets_until(granted, None)
            .releases(1_500);
        held.on(1_000, "cut")
            .off(1_100, "cut")
            .cell_by(&rules)
            .met
            .renewals
    };
    assert_eq!((renewals(10), renewals(0), renewals(110)), (1, 0, 0));
}

#[test]
fn a_fault_reaches_only_its_scope() {
    let reached_in = |scope| {
        held()
            .on_at(1_000, "cut", scope)
            .off(1_100, "cut")
            .cell()
            .met
            .holders
    };
    assert_eq!((reached_in(process(1)), reached_in(process(2))), (1, 0));
    assert_eq!(
        (
            reached_in(slot_of("plain:0")),
            reached_in(slot_of("plain:1"))
        ),
        (1, 0)
    );
    // Either the process or the slot is enough.
    assert_eq!(reached_in(process_and_slot_of(1, "plain:1")), 1);
    assert_eq!(reached_in(process_and_slot_of(2, "plain:0")), 1);
    assert_eq!(reached_in(process_and_slot_of(2, "plain:1")), 0);
}

#[test]
fn a_killed_process_holds_and_waits_until_the_kill() {
    let killed = |script: Script, number| {
        let killed = script
            .on_at(1_000, "kill", process(number))
            .off(1_100, "kill");
        let reached = killed.cell().met;
        (reached.holders, reached.waiters)
    };
    let holder = || by(A).asks(0).gets(10).holds(900);
    assert_eq!(killed(holder(), 1), (1, 0));
    assert_eq!(killed(holder(), 2), (0, 0), "another process was killed");
    assert_eq!(killed(holder().releases(950), 1), (0, 0), "released before");
    assert_eq!(
        killed(holder().holds(1_200), 1),
        (1, 0),
        "it died later, and held the lock until then"
    );
    assert_eq!(
        killed(by(A).asks(1_200).gets(1_210).holds(1_300), 1),
        (0, 0),
        "granted later"
    );
    assert_eq!(killed(holder().by(B).asks(950), 2), (0, 1));
}

#[test]
fn a_fault_reaches_a_name_if_it_reaches_one_of_its_locks() {
    let held = by(A.of("multi:0+1")).has(0, 10, 1_500);
    let reached_in = |lock| {
        let fault = held
            .clone()
            .on_at(1_000, "cut", slot_of(lock))
            .off(1_100, "cut");
        fault.cell().met.holders
    };
    assert_eq!(
        (
            reached_in("multi:0"),
            reached_in("multi:1"),
            reached_in("multi:2")
        ),
        (1, 1, 0)
    );
}

#[test]
fn each_injection_counts_once() {
    let both = held()
        .by(B.of("plain:1"))
        .has(0, 10, 1_500)
        .on(1_200, "slow");
    assert_eq!(
        coverage(both),
        Met {
            injections: 2,
            holders: 2,
            waiters: 0,
            renewals: 1
        }
    );
}

#[test]
fn an_election_is_not_an_injection() {
    assert_eq!(held().on(1_000, elections::NAME).cell().met, Met::default());
}

#[test]
fn a_fault_that_stays_on_ends_with_the_history() {
    let reached = by(A).has(0, 10, 50).on(1_000, "cut").cell().met;
    assert_eq!(reached, NOTHING);
}
