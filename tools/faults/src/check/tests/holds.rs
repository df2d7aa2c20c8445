//! When a hold is valid, and when it is stale.

use crate::history::Mode;
use crate::result::Overlaps;

use super::actors::{A, B, C, Script, by, rules};

fn overlaps(script: Script) -> (u64, u64) {
    let Overlaps { valid, invalid, .. } = script.cell().overlaps;
    (valid, invalid)
}

const VALID: (u64, u64) = (1, 0);
const INVALID: (u64, u64) = (0, 1);
const NONE: (u64, u64) = (0, 0);

/// The valid and invalid overlaps if B holds the lock for 10 ms from this time on.
fn overlaps_with_b(script: Script, granted: u64) -> (u64, u64) {
    overlaps(script.by(B).has(0, granted, granted + 10))
}

#[test]
fn a_frozen_holder_is_valid_until_its_deadline() {
    let frozen = by(A).asks(0).gets(10).loses(2_000);
    assert_eq!(overlaps_with_b(frozen.clone(), 1_009), VALID);
    assert_eq!(overlaps_with_b(frozen.clone(), 1_010), INVALID);
    assert_eq!(overlaps_with_b(frozen.clone(), 1_999), INVALID);
    assert_eq!(overlaps_with_b(frozen, 2_000), NONE);
}

#[test]
fn a_frozen_holder_is_valid_again_when_it_continues() {
    let frozen = by(A).asks(0).gets(10).holds(2_000).releases(2_100);
    assert_eq!(overlaps_with_b(frozen.clone(), 1_009), VALID);
    assert_eq!(overlaps_with_b(frozen.clone(), 1_500), INVALID);
    assert_eq!(
        overlaps_with_b(frozen.clone(), 1_995),
        VALID,
        "the holds overlap when A continues"
    );
    assert_eq!(overlaps_with_b(frozen, 2_100), NONE);
}

#[test]
fn a_renewal_moves_the_deadline() {
    let renewed = by(A).asks(0).gets(10).holds(500).loses(2_000);
    assert_eq!(overlaps_with_b(renewed.clone(), 1_499), VALID);
    assert_eq!(overlaps_with_b(renewed, 1_500), INVALID);
}

#[test]
fn a_doubt_before_the_deadline_ends_the_hold_at_the_last_confirmation() {
    let doubting = by(A).asks(0).gets(10).holds(50).doubts(80).releases(300);
    assert_eq!(overlaps_with_b(doubting.clone(), 50), VALID);
    assert_eq!(overlaps_with_b(doubting.clone(), 51), INVALID);
    assert_eq!(overlaps_with_b(doubting.clone(), 80), NONE);
    assert_eq!(overlaps_with_b(doubting, 200), NONE);
}

#[test]
fn a_doubt_after_the_deadline_changes_nothing() {
    let late = by(A).asks(0).gets(10).doubts(1_200).releases(1_300);
    assert_eq!(overlaps_with_b(late.clone(), 1_009), VALID);
    assert_eq!(overlaps_with_b(late, 1_010), INVALID);
}

#[test]
fn a_hold_that_is_confirmed_after_a_doubt_is_valid_again() {
    let again = by(A).asks(0).gets(10).doubts(50).holds(200).releases(300);
    assert_eq!(overlaps_with_b(again.clone(), 100), NONE);
    assert_eq!(overlaps_with_b(again.clone(), 195), VALID);
    assert_eq!(overlaps_with_b(again, 200), VALID);
}

#[test]
fn the_hold_of_a_killed_process_is_valid_until_its_last_event() {
    let killed = by(A).asks(0).gets(10).holds(50);
    assert_eq!(overlaps_with_b(killed.clone(), 50), VALID);
    assert_eq!(overlaps_with_b(killed, 51), NONE);
    let only_granted = by(A).asks(0).gets(10);
    assert_eq!(overlaps_with_b(only_granted.clone(), 5), VALID);
    assert_eq!(overlaps_with_b(only_granted, 11), NONE);
}

#[test]
fn a_restarted_process_does_not_continue_a_hold() {
    let killed = by(A)
        .asks(0)
        .gets(10)
        .holds(50)
        .starts(400)
        .has(500, 700, 800);
    assert_eq!(overlaps_with_b(killed.clone(), 51), NONE);
    assert_eq!(overlaps_with_b(killed.clone(), 705), VALID);
    killed.finds_nothing();
}

#[test]
fn a_hold_is_valid_until_its_release_begins() {
    let releasing = by(A).has(0, 10, 100);
    assert_eq!(overlaps_with_b(releasing.clone(), 99), VALID);
    assert_eq!(overlaps_with_b(releasing, 100), NONE);
}

#[test]
fn a_hold_is_stale_between_its_deadline_and_its_release() {
    let late = by(A).asks(0).gets(10).releases(1_500);
    assert_eq!(overlaps_with_b(late.clone(), 1_009), VALID);
    assert_eq!(overlaps_with_b(late, 1_010), INVALID);
}

#[test]
fn a_grant_that_arrives_after_its_deadline_is_never_valid() {
    let old = by(A).asks(0).gets_until(100, Some(100)).loses(300);
    assert_eq!(overlaps_with_b(old, 150), NONE);
    let fresh = by(A).asks(0).gets_until(100, Some(101)).loses(300);
    assert_eq!(overlaps_with_b(fresh, 100), VALID);
    let withdrawn = by(A).asks(0).gets(10).holds_until(100, Some(90)).loses(300);
    assert_eq!(overlaps_with_b(withdrawn.clone(), 99), VALID);
    assert_eq!(overlaps_with_b(withdrawn, 100), NONE);
}

#[test]
fn held_after_the_deadline_is_a_violation() {
    let late = |until| {
        by(A)
            .asks(0)
            .gets(10)
            .holds_until(500, Some(until))
            .releases(600)
            .on(20, "cut")
    };
    late(499)
        .finds(&["plain:0: worker 0 of process 1 says that the lock is held after its deadline"]);
    late(500).finds_nothing();
    let mut rules = rules();
    rules.keeps_deadlines = false;
    assert!(late(499).cell_by(&rules).passes());
}

#[test]
fn without_deadlines_a_hold_is_valid_until_a_loss_notice_or_the_release() {
    let overlaps = |script: Script| {
        let mut rules = rules();
        rules.knows_deadlines = false;
        let Overlaps { valid, invalid, .. } =
            script.by(B).has(0, 4_000, 4_010).cell_by(&rules).overlaps;
        (valid, invalid)
    };
    let believing = by(A).asks(0).gets_until(10, None);
    assert_eq!(
        overlaps(believing.clone().holds_until(5_000, None).loses(6_000)),
        VALID
    );
    assert_eq!(overlaps(believing.clone().releases(5_000)), VALID);
    assert_eq!(overlaps(believing.clone().loses(5_000)), INVALID);
    assert_eq!(overlaps(believing), NONE);
}

#[test]
fn a_stale_reader_does_not_overlap_a_reader() {
    let stale = by(A.with(Mode::Shared)).asks(0).gets(10).loses(2_000);
    assert_eq!(overlaps_with_b(stale.clone(), 1_500), INVALID);
    assert_eq!(
        overlaps(stale.by(B.with(Mode::Shared)).has(0, 1_500, 1_510)),
        NONE
    );
}

#[test]
fn a_stale_permit_overlaps_only_when_none_is_left() {
    let stale = by(A.with(Mode::Permit)).asks(0).gets(10).loses(2_000);
    let one_more = stale.by(B.with(Mode::Permit)).has(0, 1_500, 1_600);
    assert_eq!(overlaps(one_more.clone()), NONE);
    assert_eq!(
        overlaps(one_more.by(C.with(Mode::Permit)).has(0, 1_550, 1_600)),
        INVALID
    );
}
