//! Who waits while the lock is free.

use crate::history::Mode;

use super::actors::{A, Actor, B, C, Script, by};

/// A releases at 100, which is answered at 101; then B, who waits, is granted.
fn handed_over(granted: u64) -> Script {
    by(A).has(0, 10, 100).by(B).has(50, granted, granted + 10)
}

#[test]
fn nobody_waits_for_a_free_lock() {
    handed_over(1_101).finds_nothing();
    let cell = handed_over(1_102).finds(&["plain:0: 1 waited from 101.000 ms for 1001.000 ms"]);
    assert_eq!(cell.idle_waits, 1);
}

#[test]
fn nor_for_one_that_nobody_had() {
    by(A).has(0, 1_000, 1_010).finds_nothing();
    by(A).has(0, 1_001, 1_010).finds(&["plain:0: 1 waited"]);
}

#[test]
fn who_gives_up_or_is_not_granted_first_has_waited_as_well() {
    let given_up = by(A).has(0, 10, 100).by(B).asks(50);
    given_up.clone().times_out(1_101).finds_nothing();
    assert_eq!(given_up.times_out(1_102).finds(&[]).idle_waits, 1);
    let both = handed_over(1_200).by(C).has(60, 1_300, 1_310).finds(&["2 waited"]);
    assert_eq!(both.idle_waits, 2);
}

#[test]
fn a_wait_begins_when_somebody_asks() {
    by(A).has(0, 10, 100).by(B).has(5_000, 6_000, 6_010).finds_nothing();
    by(A).has(0, 10, 100).by(B).has(5_000, 6_001, 6_010).finds(&["from 5000.000 ms"]);
}

#[test]
fn short_gaps_do_not_add_up() {
    by(A).has(0, 10, 100).has(900, 900, 950).by(B).has(50, 1_900, 1_910).finds_nothing();
}

/// What A leaves behind keeps the lock for two leases after 101.
fn unsettled(left: &Script) {
    let handed_over = |granted| left.clone().by(B).has(50, granted, granted + 10);
    handed_over(3_101).finds_nothing();
    handed_over(3_102).finds(&["waited from 2101.000 ms"]);
}

#[test]
fn what_may_still_be_held_is_not_free() {
    unsettled(&by(A).asks(0).gets(10).release_fails(100, "unavailable"));
    unsettled(&by(A).asks(0).gets(10).holds(101));
    unsettled(&by(A).asks(0).gets(10).loses(50).asks(101).times_out(102));
    unsettled(&by(A).asks(0).fails(101, "unavailable"));
    unsettled(&by(A).asks(101));
}

#[test]
fn faults_and_what_follows_them_are_no_idle_waits() {
    let slow = |script: Script| script.on(500, "slow").off(600, "slow");
    slow(handed_over(3_600)).finds_nothing();
    let cell = slow(by(A).has(0, 10, 100).by(B).asks(50).times_out(599).asks(610)).times_out(4_601);
    cell.finds(&["waited from 3600.000 ms for 1001.000 ms"]);
    handed_over(1_500).on(1_102, "slow").off(1_103, "slow").finds(&["for 1001.000 ms"]);
    handed_over(1_500).on(1_101, "slow").off(1_103, "slow").finds_nothing();
}

#[test]
fn a_semaphore_is_free_while_it_has_permits() {
    let permit = |actor: Actor| actor.with(Mode::Permit);
    let one = by(permit(A)).has(0, 10, 2_000);
    let waits = |script: Script| script.by(permit(C)).has(50, 1_500, 2_000);
    waits(one.clone()).finds(&["waited from 50.000 ms for 1450.000 ms"]);
    waits(one.by(permit(B)).has(0, 20, 1_400)).finds_nothing();
}

#[test]
fn readers_are_in_the_way_of_others() {
    let reader = by(A.with(Mode::Shared)).has(0, 10, 2_000);
    reader.clone().by(B).has(50, 2_010, 2_020).finds_nothing();
    reader.by(B.with(Mode::Shared)).has(50, 1_500, 2_000).finds_nothing();
}

#[test]
fn names_that_share_locks_are_free_together() {
    let waits = |name, granted| by(C.of(name)).has(50, granted, granted + 10);
    let with_first = |script: Script| script.by(A.of("multi:0+1")).has(0, 10, 2_000);
    // Of 1+2, the one that waits may have 2 already.
    let last = |script: Script| script.by(B.of("multi:1+2")).has(0, 2_010, 2_100);
    last(with_first(waits("multi:2+3", 1_500))).finds_nothing();
    with_first(waits("multi:2+3", 1_500)).finds(&["multi:2+3: 1 waited"]);
    last(with_first(waits("multi:4", 1_500))).finds(&["multi:4: 1 waited"]);
}
