//! Which overlaps a fault excuses. A failover or a restart is on from 1,000 to 1,100. The failover
//! may lose writes between 500 and 1,500.

use crate::history::{Doing, Mode, Scope};

use super::actors::{A, Actor, B, C, Script, by, process_and_slot_of, rules, slot_of};

fn failover(script: Script) -> Script {
    script.on(1_000, "failover").off(1_100, "failover")
}

fn restart(script: Script) -> Script {
    script.on(1_000, "restart").off(1_100, "restart")
}

/// Whether the overlap is excused if B is granted the lock while A, which runs this script, still
/// holds it.
fn is_excused(script: Script, granted: u64) -> bool {
    let overlaps = script
        .by(B)
        .asks(granted)
        .gets(granted)
        .releases(granted + 10)
        .cell()
        .overlaps;
    assert_eq!(overlaps.valid + overlaps.excused, 1, "{overlaps:?}");
    overlaps.excused == 1
}

fn gets(at: u64) -> Script {
    by(A).asks(at).gets(at)
}

#[test]
fn a_failover_loses_writes_shortly_before_it() {
    let granted = |at| is_excused(failover(gets(at).loses(3_000)), 1_200);
    assert!(!granted(499));
    assert!(granted(500));
    assert!(granted(1_100));
}

#[test]
fn a_failover_loses_writes_until_all_clients_have_noticed() {
    let granted = |at| is_excused(failover(gets(at).loses(3_000)), 1_600);
    assert!(granted(1_500));
    assert!(!granted(1_501));
}

#[test]
fn a_replicated_lease_keeps_others_out_until_it_ends() {
    let renewed = |granted| is_excused(failover(gets(400).holds(700).loses(3_000)), granted);
    assert!(!renewed(1_400));
    assert!(renewed(1_401));
    // The replica knew one of the many renewals.
    let long = |granted| is_excused(failover(gets(10).keeps(10, 1_500).loses(3_000)), granted);
    assert!(!long(1_310));
    assert!(long(1_311));
}

#[test]
fn a_server_need_not_know_a_later_grant() {
    assert!(!is_excused(failover(gets(450).loses(3_000)), 1_300));
    // The replies may have come in the opposite order.
    let late = by(A).asks(400).gets_until(450, Some(1_450)).loses(3_000);
    let early = failover(late)
        .by(B)
        .asks(420)
        .gets_until(1_300, Some(1_430))
        .releases(1_310);
    assert_eq!(early.cell().overlaps.excused, 1);
}

#[test]
fn a_hold_that_is_renewed_after_a_failover_was_not_lost() {
    let renewed = |at: u64| failover(gets(600).holds(at).loses(3_000));
    assert!(is_excused(renewed(1_500), 1_200));
    // The renewal shows that the new server has the hold of A. The later grant of B was lost with
    // the replaced server.
    assert!(is_excused(renewed(1_501), 1_200));
    let both = renewed(1_501)
        .by(B)
        .asks(1_200)
        .gets(1_200)
        .holds(1_700)
        .releases(1_710);
    assert_eq!(both.cell().overlaps.valid, 1);
}

#[test]
fn nothing_is_lost_before_the_fault() {
    assert!(is_excused(failover(gets(600).loses(3_000)), 1_000));
    assert!(!is_excused(failover(gets(600).loses(3_000)), 999));
    assert!(is_excused(restart(gets(600).loses(3_000)), 1_000));
    assert!(!is_excused(restart(gets(600).loses(3_000)), 999));
}

#[test]
fn a_restart_loses_writes_before_its_end() {
    let granted = |at| is_excused(restart(gets(at).loses(3_000)), 1_200);
    assert!(granted(210));
    assert!(granted(1_100));
    assert!(!granted(1_101));
}

#[test]
fn a_hold_that_is_renewed_after_a_restart_was_not_lost() {
    let renewed = |at| is_excused(restart(gets(600).holds(at).loses(3_000)), 1_200);
    assert!(renewed(1_100));
    assert!(!renewed(1_101));
    // The hold was not lost later either.
    assert!(!renewed(1_300));
}

/// The update that set the later deadline may have been sent before the end of the restart.
#[test]
fn without_exact_deadlines_an_update_may_follow_the_previous_confirmation_at_once() {
    let seen = |seen: u64| {
        let held = restart(
            gets(600)
                .holds_until(seen, Some(1_600))
                .holds(1_120)
                .loses(3_000),
        );
        held.by(B).asks(1_200).gets(1_200).releases(1_210)
    };
    let mut rules = rules();
    rules.keeps_deadlines = false;
    assert_eq!(seen(1_100).cell_by(&rules).overlaps.excused, 1);
    assert_eq!(seen(1_101).cell_by(&rules).overlaps.valid, 1);
    assert_eq!(seen(1_100).cell().overlaps.valid, 1);
    let extended = gets(600)
        .holds_until(1_100, Some(1_600))
        .uses_hold(1_110, Doing::Extended);
    assert!(is_excused(
        restart(extended.holds(1_120).loses(3_000)),
        1_200
    ));
}

#[test]
fn a_fault_excuses_overlaps_only_in_its_slots() {
    let on = |scope: Scope| {
        let fault = gets(600).loses(3_000).on_at(1_000, "failover", scope);
        is_excused(fault.off(1_100, "failover"), 1_200)
    };
    assert!(on(slot_of("plain:0")));
    assert!(!on(slot_of("plain:1")));
    assert!(
        !on(process_and_slot_of(1, "plain:1")),
        "although the fault names the process"
    );
    let slots = |slots| Scope {
        processes: Vec::new(),
        slots,
    };
    assert!(on(slots(vec![(0, 0), (1, 16_383)])));
}

#[test]
fn the_hash_tag_of_a_name_decides_its_slot() {
    let on = |scope: Scope| {
        let tagged = by(A.of("{plain:1}:0")).asks(600).gets(600).loses(3_000);
        let fault = tagged
            .on_at(1_000, "failover", scope)
            .off(1_100, "failover");
        fault
            .by(B.of("{plain:1}:0"))
            .asks(1_200)
            .gets(1_200)
            .releases(1_210)
            .cell()
            .overlaps
    };
    assert_eq!(on(slot_of("plain:1")).excused, 1);
    assert_eq!(on(slot_of("{plain:1}:0")).excused, 1);
    assert_eq!(on(slot_of("plain:0")).valid, 1);
}

#[test]
fn a_failover_may_forget_one_of_several_permits() {
    let permit = |actor: Actor| actor.with(Mode::Permit);
    let crowd = |second| {
        let two = by(permit(A)).asks(400).gets(400).loses(3_000);
        let two = two.by(permit(B)).asks(second).gets(second).loses(3_000);
        failover(two)
            .by(permit(C))
            .asks(1_200)
            .gets(1_200)
            .releases(1_210)
            .cell()
            .overlaps
    };
    assert_eq!(crowd(600).excused, 1);
    assert_eq!(crowd(450).valid, 1);
}

#[test]
fn the_share_of_excusable_time_is_reported() {
    let permille = |script: Script| script.cell().excusable_permille;
    let held = |granted| gets(granted).releases(1_400);
    assert_eq!(permille(failover(held(600))), 500);
    assert_eq!(permille(failover(held(450))), 0);
    assert_eq!(
        permille(failover(gets(400).holds(700).releases(1_600))),
        167
    );
    assert_eq!(permille(restart(held(600))), 500);
    assert_eq!(
        permille(restart(gets(600).holds(1_200).releases(1_400))),
        250
    );
    assert_eq!(permille(restart(failover(held(600)))), 500, "not twice");
    assert_eq!(permille(held(600)), 0);
}
