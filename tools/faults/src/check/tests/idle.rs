//! Waits for a lock that is free.

use crate::history::{Doing, Mode};

use super::actors::{A, Actor, B, C, FORBIDDEN, Script, by};

/// A releases the lock at 100, and the reply comes at 101. B waits, and is granted the lock at this
/// time.
fn handed_over(granted: u64) -> Script {
    by(A).has(0, 10, 100).by(B).has(50, granted, granted + 10)
}

#[test]
fn a_long_wait_for_a_released_lock_is_a_violation() {
    handed_over(1_101).finds_nothing();
    let cell = handed_over(1_102).finds(&["plain:0: 1 waited from 101.000 ms for 1001.000 ms"]);
    assert_eq!(cell.idle_waits, 1);
}

#[test]
fn a_long_wait_for_an_unused_lock_is_a_violation() {
    by(A).has(0, 1_000, 1_010).finds_nothing();
    by(A).has(0, 1_001, 1_010).finds(&["plain:0: 1 waited"]);
}

#[test]
fn every_waiter_counts_however_its_wait_ends() {
    let given_up = by(A).has(0, 10, 100).by(B).asks(50);
    given_up.clone().times_out(1_101).finds_nothing();
    assert_eq!(given_up.times_out(1_102).finds(&[]).idle_waits, 1);
    let both = handed_over(1_200)
        .by(C)
        .has(60, 1_300, 1_310)
        .finds(&["2 waited"]);
    assert_eq!(both.idle_waits, 2);
}

#[test]
fn an_idle_wait_begins_when_a_worker_asks() {
    by(A)
        .has(0, 10, 100)
        .by(B)
        .has(5_000, 6_000, 6_010)
        .finds_nothing();
    by(A)
        .has(0, 10, 100)
        .by(B)
        .has(5_000, 6_001, 6_010)
        .finds(&["from 5000.000 ms"]);
}

#[test]
fn short_free_times_do_not_add_up() {
    by(A)
        .has(0, 10, 100)
        .has(900, 900, 950)
        .by(B)
        .has(50, 1_900, 1_910)
        .finds_nothing();
}

/// After this script of A, the lock is free from this time on, and not earlier.
fn free_from(millis: u64, left: &Script) {
    let handed_over = |granted| left.clone().by(B).has(50, granted, granted + 10);
    handed_over(millis + 1_000).finds_nothing();
    let expected = format!("waited from {millis}.000 ms for 1001.000 ms");
    handed_over(millis + 1_001).finds(&[&expected]);
}

#[test]
fn a_lock_that_may_still_be_held_is_not_free() {
    free_from(
        2_101,
        &by(A).asks(0).gets(10).release_fails(100, "unavailable"),
    );
    free_from(2_101, &by(A).asks(0).gets(10).holds(101));
    free_from(2_101, &by(A).asks(0).fails(101, "unavailable"));
    free_from(2_101, &by(A).asks(101));
}

/// A asks for a renewed lease of two seconds.
fn asks_for_two_seconds() -> Script {
    by(A).asks_renewed_for(0, 2_000)
}

fn has_two_seconds() -> Script {
    asks_for_two_seconds().gets_until(10, Some(2_010))
}

#[test]
fn a_living_process_releases_within_two_common_leases() {
    free_from(2_101, &has_two_seconds().release_fails(100, "unavailable"));
    free_from(2_101, &asks_for_two_seconds().fails(101, "unavailable"));
    // The hold is lost, and the fault that caused it ended long before the next request.
    let lost = by(A)
        .asks_renewed_for(0, 5_000)
        .gets_until(400, Some(5_400))
        .loses(3_500);
    free_from(
        5_501,
        &lost
            .asks(3_501)
            .times_out(3_502)
            .on(0, "cut")
            .off(100, "cut"),
    );
}

#[test]
fn a_dead_process_keeps_the_lock_for_two_of_its_own_leases() {
    free_from(4_101, &has_two_seconds().holds_until(101, Some(2_101)));
    free_from(4_101, &by(A).asks_renewed_for(101, 2_000));
    // Another process gets the number of the dead one later.
    free_from(
        4_101,
        &has_two_seconds()
            .holds_until(101, Some(2_101))
            .starts(3_000),
    );
}

#[test]
fn a_forbidden_call_keeps_the_lock_for_two_of_its_own_leases() {
    free_from(4_101, &has_two_seconds().release_fails(100, FORBIDDEN));
    free_from(4_101, &asks_for_two_seconds().fails(101, FORBIDDEN));
}

/// A and C abandon the two permits of a semaphore, and B waits for one until 9,000.
fn permits(name: &'static str, leave: fn(Script) -> Script) -> Script {
    let permit = |actor: Actor| actor.of(name).with(Mode::Permit);
    let left = leave(leave(by(permit(A))).by(permit(C)));
    left.by(permit(B)).asks(50).times_out(9_000)
}

#[test]
fn in_a_lasting_workload_dead_processes_keep_the_lock_forever() {
    let hold_and_die = |script: Script| script.asks(0).gets(10).holds(101);
    permits("lasting:0", hold_and_die).finds_nothing();
    permits("permits:0", hold_and_die).finds(&["waited from 2101.000 ms"]);
    let wait_and_die = |script: Script| script.asks(40);
    permits("lasting:0", wait_and_die).finds_nothing();
    permits("permits:0", wait_and_die).finds(&["waited from 2040.000 ms"]);
}

#[test]
fn in_a_lasting_workload_only_dead_processes_keep_the_lock_forever() {
    let expected = &["waited from 2101.000 ms"];
    let release_fails = |script: Script| script.asks(0).gets(10).release_fails(100, "unavailable");
    permits("lasting:0", release_fails).finds(expected);
    permits("lasting:0", |script| {
        script.asks(0).fails(101, "unavailable")
    })
    .finds(expected);
    permits("lasting:0", |script| {
        script.asks(0).gets(10).release_fails(100, FORBIDDEN)
    })
    .finds(expected);
    permits("lasting:0", |script| script.asks(0).fails(101, FORBIDDEN)).finds(expected);
}

#[test]
fn an_abandoned_fixed_lease_ends_at_its_deadline() {
    let fixed = |lease| by(A).asks_for(0, lease).gets_until(10, Some(10 + lease));
    free_from(1_510, &fixed(1_500).release_fails(100, "unavailable"));
    free_from(101, &fixed(40).loses(50).asks(101).times_out(102));
    let extended = fixed(1_500).uses_hold(20, Doing::Extended);
    free_from(2_101, &extended.release_fails(100, "unavailable"));
}

#[test]
fn the_time_of_a_stall_does_not_count() {
    // The stall lasts from 500 to 600.
    handed_over(1_600).stalled(600, 100).finds_nothing();
    handed_over(1_601)
        .stalled(600, 100)
        .finds(&["waited from 600.000 ms for 1001.000 ms"]);
    // The stall lasts 200 ms, and begins when the lock has been free for about a second.
    handed_over(2_000).stalled(1_301, 200).finds_nothing();
    handed_over(2_000)
        .stalled(1_302, 200)
        .finds(&["waited from 101.000 ms for 1001.000 ms"]);
    // Two stalls overlap, from 900 to 1,300.
    handed_over(2_300)
        .stalled(1_200, 300)
        .stalled(1_300, 200)
        .finds_nothing();
    // The stall began before the lock was free.
    handed_over(1_200).stalled(200, 190).finds_nothing();
}

#[test]
fn the_time_of_a_fault_and_its_aftermath_does_not_count() {
    let slow = |script: Script| script.on(500, "slow").off(600, "slow");
    slow(handed_over(3_600)).finds_nothing();
    let cell = slow(
        by(A)
            .has(0, 10, 100)
            .by(B)
            .asks(50)
            .times_out(599)
            .asks(610),
    )
    .times_out(4_601);
    cell.finds(&["waited from 3600.000 ms for 1001.000 ms"]);
    handed_over(1_500)
        .on(1_102, "slow")
        .off(1_103, "slow")
        .finds(&["for 1001.000 ms"]);
    handed_over(1_500)
        .on(1_101, "slow")
        .off(1_103, "slow")
        .finds_nothing();
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
fn a_lock_with_readers_is_not_free() {
    let reader = by(A.with(Mode::Shared)).has(0, 10, 2_000);
    reader.clone().by(B).has(50, 2_010, 2_020).finds_nothing();
    reader
        .by(B.with(Mode::Shared))
        .has(50, 1_500, 2_000)
        .finds_nothing();
}

#[test]
fn names_that_share_locks_are_free_together() {
    let waits = |name, granted| by(C.of(name)).has(50, granted, granted + 10);
    let with_first = |script: Script| script.by(A.of("multi:0+1")).has(0, 10, 2_000);
    // The waiter for 1+2 may already have 2.
    let last = |script: Script| script.by(B.of("multi:1+2")).has(0, 2_010, 2_100);
    last(with_first(waits("multi:2+3", 1_500))).finds_nothing();
    with_first(waits("multi:2+3", 1_500)).finds(&["multi:2+3: 1 waited"]);
    last(with_first(waits("multi:4", 1_500))).finds(&["multi:4: 1 waited"]);
}

#[test]
fn waiters_for_several_locks_may_wait_longer() {
    // The locks are free from 101 on.
    let waits = |name, granted| {
        by(A.of(name))
            .has(0, 10, 100)
            .by(B.of(name))
            .asks(50)
            .gets(granted)
    };
    let released = |name, granted| waits(name, granted).releases(granted + 10);
    released("multi:0+1", 1_301).finds_nothing();
    released("multi:0+1", 1_302).finds(&["multi:0+1: 1 waited from 101.000 ms for 1201.000 ms"]);
    released("multi:0", 1_301).finds(&["multi:0: 1 waited from 101.000 ms for 1200.000 ms"]);
}

#[test]
fn an_orphaned_hold_keeps_the_lock_until_its_long_lease_ends() {
    let fixed = by(A)
        .asks_for(0, 5_000)
        .gets_until(10, Some(5_010))
        .holds_until(90, Some(5_010));
    fixed.by(B).has(50, 9_000, 9_010).finds_nothing();
    by(A)
        .has(0, 10, 5_000)
        .by(B)
        .has(50, 5_010, 5_020)
        .finds_nothing();
    let extended = by(A).asks(0).gets(10).uses_hold(20, Doing::Extended);
    let left = extended.holds_until(90, Some(6_000)).by(B);
    left.clone().has(50, 8_000, 8_010).finds_nothing();
    left.has(50, 8_001, 8_010)
        .finds(&["waited from 7000.000 ms"]);
}
