//! Which holds exclude each other, and which faults excuse an overlap.

use crate::history::{Mode, Scope, What};
use crate::result::{Cell, Overlaps};

use super::actors::{A, Actor, B, C, Script, by};

#[test]
fn two_valid_holds_are_an_overlap() {
    let cell = by(A).has(0, 10, 100).by(B).has(5, 50, 200).finds(&[
        "plain:0 was held by worker 0 of process 1 (plain:0 granted at 10.000 ms)",
        "and worker 0 of process 2 (plain:0 granted at 50.000 ms) from 50.000 ms to 99.999 ms",
    ]);
    let expected = Overlaps {
        valid: 1,
        ..Overlaps::default()
    };
    assert_eq!(cell.overlaps, expected);
}

#[test]
fn a_grant_at_the_instant_of_the_release_is_no_overlap() {
    by(A).has(0, 10, 100).by(B).has(5, 100, 200).finds_nothing();
}

#[test]
fn holds_of_different_locks_do_not_overlap() {
    by(A)
        .has(0, 10, 100)
        .by(B.of("plain:1"))
        .has(5, 50, 200)
        .finds_nothing();
    let cells = by(A)
        .has(0, 10, 100)
        .by(B.of("spin:0"))
        .has(5, 50, 200)
        .cells(&super::actors::rules());
    let workloads: Vec<_> = cells.iter().map(|cell| cell.workload.as_str()).collect();
    assert_eq!(workloads, ["plain", "spin"]);
    assert!(cells.iter().all(Cell::passes));
}

#[test]
fn each_pair_is_an_overlap() {
    let cell = by(A)
        .has(0, 10, 100)
        .by(B)
        .has(5, 50, 200)
        .by(C)
        .has(6, 60, 90)
        .cell();
    assert_eq!(cell.overlaps.valid, 3);
    assert_eq!(cell.violations.len(), 3);
}

#[test]
fn each_time_that_a_pair_overlaps_counts() {
    let twice = by(A)
        .asks(0)
        .gets(10)
        .holds(60)
        .doubts(70)
        .holds(80)
        .releases(100);
    let cell = twice.by(B).has(5, 50, 200).cell();
    assert_eq!(cell.overlaps.valid, 2);
    assert!(
        cell.violations[0].ends_with("from 50.000 ms to 60.000 ms"),
        "{:?}",
        cell.violations
    );
    assert!(
        cell.violations[1].ends_with("from 80.000 ms to 99.999 ms"),
        "{:?}",
        cell.violations
    );
}

#[test]
fn readers_share_and_writers_do_not() {
    let reader = |actor: Actor| actor.with(Mode::Shared);
    by(reader(A))
        .has(0, 10, 100)
        .by(reader(B))
        .has(5, 50, 200)
        .finds_nothing();
    by(reader(A))
        .has(0, 10, 100)
        .by(B)
        .has(5, 50, 200)
        .finds(&["process 1 (shared, plain:0"]);
    by(A)
        .has(0, 10, 100)
        .by(reader(B))
        .has(5, 50, 200)
        .finds(&["process 2 (shared, plain:0"]);
}

/// Three holders take the two permits. The third one is granted its permit at this time.
fn permits(third: u64) -> Script {
    let permit = |actor: Actor| actor.with(Mode::Permit);
    by(permit(A))
        .has(0, 10, 100)
        .by(permit(B))
        .has(0, 20, 150)
        .by(permit(C))
        .has(0, third, 300)
}

#[test]
fn one_permit_too_many_is_an_overlap() {
    permits(100).finds_nothing();
    let cell = permits(99).finds(&[
        "process 1 (a permit",
        "process 2 (a permit",
        "process 3 (a permit",
    ]);
    assert_eq!(cell.overlaps.valid, 1);
}

#[test]
fn a_name_of_several_locks_is_a_hold_of_each() {
    by(A.of("multi:0+1"))
        .has(0, 10, 100)
        .by(B.of("multi:2"))
        .has(5, 50, 200)
        .finds_nothing();
    by(A.of("multi:0+1"))
        .has(0, 10, 100)
        .by(B.of("multi:1"))
        .has(5, 50, 200)
        .finds(&["multi:1 was held"]);
    let cell = by(A.of("multi:0+1"))
        .has(0, 10, 100)
        .by(B.of("multi:1+0"))
        .has(5, 50, 200)
        .finds(&[]);
    assert_eq!(cell.overlaps.valid, 1);
}

/// B is granted the lock at 5 s, and A notices 100 ms later.
fn overlap_at_5_s() -> Script {
    by(A)
        .asks(4_000)
        .gets(4_800)
        .holds(5_050)
        .loses(5_100)
        .by(B)
        .has(4_900, 5_000, 5_300)
}

fn excused(script: Script) {
    let cell = script.cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!((cell.overlaps.valid, cell.overlaps.excused), (0, 1));
    assert_eq!(cell.losses.longest_notice_ms, 100);
    assert_eq!(cell.explained.len(), 1);
    assert!(
        cell.explained[0].contains("after failover (of a server)"),
        "{:?}",
        cell.explained
    );
    assert!(
        cell.explained[0].contains("noticed after 100.000 ms"),
        "{:?}",
        cell.explained
    );
}

fn not_excused(script: Script) {
    let cell = script.cell();
    assert!(
        cell.violations[0].starts_with("plain:0 was held by"),
        "{:?}",
        cell.violations
    );
    assert_eq!((cell.overlaps.valid, cell.overlaps.excused), (1, 0));
}

#[test]
fn a_fault_that_loses_grants_excuses_an_overlap() {
    excused(
        overlap_at_5_s()
            .on(4_950, "failover")
            .off(5_500, "failover"),
    );
    excused(overlap_at_5_s().on(5_000, "failover"));
}

#[test]
fn only_an_earlier_fault_that_loses_grants_excuses_an_overlap() {
    not_excused(overlap_at_5_s());
    not_excused(overlap_at_5_s().on(4_950, "cut").off(5_500, "cut"));
    not_excused(
        overlap_at_5_s()
            .on(5_001, "failover")
            .off(5_500, "failover"),
    );
}

#[test]
fn an_end_belongs_to_the_oldest_fault_of_its_name() {
    let twice = overlap_at_5_s()
        .on(3_000, "failover")
        .on(3_100, "failover")
        .off(3_200, "failover");
    excused(twice.clone());
    not_excused(twice.off(3_300, "failover"));
}

#[test]
fn an_end_belongs_to_the_fault_with_its_detail() {
    let fault = |on, of: &str| {
        let (fault, scope) = ("failover".to_owned(), Scope::default());
        What::Fault {
            fault,
            on,
            detail: of.to_owned(),
            scope,
        }
    };
    let first = overlap_at_5_s()
        .fault(3_000, fault(true, "of x"))
        .fault(3_100, fault(true, "of y"));
    let explained = first.fault(3_200, fault(false, "of y")).cell().explained;
    assert!(
        explained[0].contains("failover (of x) from 3000.000 ms to the end"),
        "{explained:?}"
    );
}
