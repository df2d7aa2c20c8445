//! Which holder must notice an overlap, and by when. B is granted the lock at 5,000 while A holds
//! it, in a failover.

use crate::history::Doing;
use crate::result::Cell;

use super::actors::{A, B, Script, by, process, rules};

/// The overlap of B with this script of A.
fn overlapped(holder: Script) -> Script {
    let failover = holder.on(4_950, "failover").off(5_500, "failover");
    failover
        .by(B)
        .asks(4_990)
        .gets(5_000)
        .holds(5_400)
        .releases(5_700)
}

fn gets(at: u64) -> Script {
    by(A).asks(at).gets(at)
}

/// There is one overlap. It is excused, and a holder notices in time.
fn in_time(script: Script) -> Cell {
    let cell = script.cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!((cell.overlaps.excused, cell.explained.len()), (1, 1));
    cell
}

fn late(script: Script, says: &str) -> Cell {
    let cell = script.finds(&["after failover", says]);
    assert_eq!((cell.overlaps.excused, cell.explained.len()), (1, 0));
    cell
}

#[test]
fn a_holder_must_notice_at_its_next_renewal() {
    let noticed = |at| overlapped(gets(4_800).holds(5_050).doubts(at).releases(5_800));
    assert_eq!(in_time(noticed(5_200)).losses.longest_notice_ms, 200);
    let cell = late(
        noticed(5_201),
        "a holder noticed only after 201.000 ms, although one had to notice within 200.000 ms",
    );
    assert_eq!(cell.losses.longest_notice_ms, 201);
}

#[test]
fn a_holder_must_notice_when_a_due_renewal_is_answered() {
    let looks = || {
        gets(4_500)
            .holds_until(4_900, Some(5_500))
            .holds_until(5_010, Some(5_500))
    };
    let noticed = |at| overlapped(looks().doubts(at).releases(5_800));
    in_time(noticed(5_066));
    late(noticed(5_067), "noticed only after 67.000 ms");
}

#[test]
fn an_unseen_renewal_may_have_been_sent_before_the_overlap() {
    let looks = || gets(4_500).holds_until(5_010, Some(5_500));
    let noticed = |at| overlapped(looks().doubts(at).releases(5_800));
    in_time(noticed(5_400));
    late(noticed(5_401), "noticed only after 401.000 ms");
}

#[test]
fn a_holder_notices_by_its_deadline() {
    let cell = in_time(overlapped(
        by(A)
            .asks(4_700)
            .gets_until(4_800, Some(5_050))
            .loses(5_900),
    ));
    assert_eq!(cell.losses.longest_notice_ms, 50);
}

#[test]
fn a_holder_that_releases_has_not_noticed() {
    let left = |at| overlapped(gets(4_800).releases(at));
    let cell = in_time(left(5_200));
    assert_eq!(
        cell.losses.longest_notice_ms, 0,
        "the holder left before it had to notice"
    );
    assert!(
        cell.explained[0].contains("released it before"),
        "{:?}",
        cell.explained
    );
    let cell = late(
        left(5_201),
        "no holder noticed, although one had to notice within 200.000 ms",
    );
    assert_eq!(cell.losses.longest_notice_ms, 0);
}

#[test]
fn a_killed_holder_need_not_notice() {
    let cell = in_time(overlapped(gets(4_800).holds(5_000)));
    assert_eq!(cell.losses.longest_notice_ms, 0);
}

#[test]
fn one_holder_that_notices_is_enough() {
    let failover = gets(4_800).on(4_950, "failover").off(5_500, "failover");
    let both = failover.keeps(4_800, 5_900).releases(5_900);
    let cell = in_time(
        both.by(B)
            .asks(4_990)
            .gets(5_000)
            .doubts(5_100)
            .releases(5_800),
    );
    assert_eq!(
        (cell.losses.longest_notice_ms, cell.losses.reported_held),
        (100, 0)
    );
}

#[test]
fn only_the_release_of_a_forgotten_hold_replaces_the_notice() {
    let brief = |fault| {
        let both = gets(4_800).holds_until(5_300, Some(5_800)).releases(5_400);
        let both = both.by(B).asks(4_990).gets(5_000).releases(5_010);
        both.on(4_950, fault).off(4_960, fault)
    };
    in_time(brief("failover"));
    brief("restart").finds(&["after restart", "no holder noticed"]);
}

#[test]
fn a_library_without_the_promise_is_never_late() {
    let mut rules = rules();
    rules.tells_losses = false;
    let cell = overlapped(gets(4_800).releases(5_600)).cell_by(&rules);
    assert_eq!((cell.violations.len(), cell.overlaps.excused), (0, 1));
}

#[test]
fn the_holder_of_a_fixed_lease_notices_by_its_deadline() {
    let fixed = by(A)
        .asks_for(4_800, 1_000)
        .gets(4_800)
        .holds_until(5_500, Some(5_800));
    let cell = in_time(overlapped(fixed.loses(5_900)));
    // By then, B has released the lock.
    assert_eq!(cell.losses.longest_notice_ms, 800);
}

#[test]
fn the_time_for_the_reply_does_not_depend_on_the_lease() {
    // The renewal is due after one second. Its reply may take 66 ms.
    let held = || {
        by(A)
            .asks_renewed_for(4_800, 3_000)
            .gets_until(4_800, Some(7_800))
    };
    let looks = || held().holds_until(5_050, Some(7_800));
    let noticed = |at| overlapped(looks().doubts(at).releases(5_950));
    in_time(noticed(5_866));
    late(
        noticed(5_867),
        "noticed only after 867.000 ms, although one had to notice within 866.666 ms",
    );
}

#[test]
fn a_worker_that_pauses_must_notice_by_its_deadline() {
    let paused = || gets(4_800).uses_hold(4_900, Doing::Paused);
    in_time(overlapped(paused().loses(5_900)));
    in_time(overlapped(
        paused()
            .holds_until(5_100, Some(5_800))
            .doubts(5_799)
            .releases(5_800),
    ));
    let renewed = paused().holds_until(5_500, Some(6_500)).loses(6_600);
    late(
        overlapped(renewed),
        "noticed only after 1500.000 ms, although one had to notice within 800.000 ms",
    );
}

#[test]
fn a_stopped_process_must_notice_by_its_deadline() {
    let frozen = || overlapped(gets(4_800).loses(5_900));
    late(frozen(), "a holder noticed only after 800.000 ms");
    let stopped = |number| {
        frozen()
            .on_at(4_990, "stop", process(number))
            .off(5_850, "stop")
    };
    in_time(stopped(1));
    late(stopped(3), "a holder noticed only after 800.000 ms");
}

#[test]
fn holders_that_still_report_the_lock_as_held_are_counted() {
    let holder = gets(4_800)
        .holds_until(5_100, Some(5_800))
        .holds_until(5_400, Some(5_800));
    let cell = late(
        overlapped(holder.doubts(5_450).releases(5_460)),
        "a holder noticed only after 450",
    );
    assert_eq!(
        (
            cell.losses.reported_held,
            cell.losses.longest_reported_held_ms
        ),
        (1, 400)
    );
    let cell = in_time(overlapped(
        by(A)
            .asks(4_700)
            .gets_until(4_800, Some(5_050))
            .loses(5_900),
    ));
    assert_eq!(
        (
            cell.losses.reported_held,
            cell.losses.longest_reported_held_ms
        ),
        (0, 0)
    );
}
