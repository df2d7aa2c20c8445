//! Tokens at the grant and at the resource.

use super::actors::{A, Actor, B, C, Script, by};

/// Held without interruption for 100 ms, with that token.
fn fenced(script: Script, actor: Actor, granted: u64, token: i64) -> Script {
    script.by(actor).asks(granted - 50).gets_token(granted, token).releases(granted + 100)
}

fn tokens(first: i64, second: i64) -> Script {
    fenced(fenced(by(A), A, 100, first), B, 300, second)
}

#[test]
fn tokens_rise() {
    tokens(7, 8).finds_nothing();
    tokens(7, 7)
        .finds(&["process 2 was granted token 7 at 300.000 ms, and", "token 7 at 100.000 ms"]);
    tokens(7, 6).finds(&["granted token 6"]);
}

#[test]
fn each_lock_has_a_counter() {
    let other = B.of("plain:1");
    fenced(fenced(by(A), A, 100, 7), other, 300, 3).finds_nothing();
}

#[test]
fn a_grant_that_came_too_late_has_an_old_token() {
    let late = by(A).asks(0).gets_token(100, 8).releases(200).by(B).asks(0);
    let granted =
        |until| late.clone().does(300, crate::history::What::Granted { until, token: Some(7) });
    granted(Some(299_000_000)).loses(310).finds_nothing();
    granted(Some(301_000_000)).loses(310).finds(&["token 7"]);
}

#[test]
fn a_failover_loses_the_counter_once() {
    let lost = tokens(7, 6).on(250, "failover").off(260, "failover");
    let cell = lost.clone().cell();
    assert_eq!(cell.violations, [""; 0]);
    assert_eq!(cell.explained.len(), 1);
    assert!(
        cell.explained[0].contains("failover (of a server) from 250.000 ms"),
        "{:?}",
        cell.explained
    );

    let rising = fenced(lost, C, 2_000, 7);
    let cell = rising.clone().cell();
    assert_eq!((cell.violations.len(), cell.explained.len()), (0, 1));
    let cell = fenced(rising, A, 2_300, 6).finds(&["token 6 at 2300.000 ms"]);
    assert_eq!(cell.explained.len(), 1);
}

#[test]
fn a_counter_is_not_lost_after_the_failover() {
    let granted = |at| {
        let before = fenced(by(A), A, at, 8).on(10, "failover").off(60, "failover");
        fenced(before, B, at + 200, 7)
    };
    let cell = granted(460).cell();
    assert_eq!((cell.violations.len(), cell.explained.len()), (0, 1));
    granted(461).finds(&["token 7"]);
}

#[test]
fn other_faults_lose_no_counter() {
    tokens(7, 6).on(250, "cut").off(260, "cut").finds(&["token 6"]);
    tokens(7, 6).on(301, "failover").off(360, "failover").finds(&["token 6"]);
}

#[test]
fn a_write_of_a_valid_hold_is_accepted() {
    let write = |write: fn(Script, u64) -> Script| {
        write(by(A).asks(0).gets_token(10, 1).holds(50), 51).holds(100).releases(120)
    };
    write(Script::write_accepted).finds_nothing();
    let refused = write(Script::write_refused);
    let cell = refused
        .clone()
        .finds(&["a write of worker 0 of process 1 with token 1 was refused at 51.000 ms"]);
    assert_eq!(cell.refused_writes, 1);

    let after_failover = refused.clone().on(20, "failover").off(30, "failover").cell();
    assert_eq!((after_failover.violations.len(), after_failover.explained.len()), (0, 1));
    refused.on(52, "failover").off(60, "failover").finds(&["was refused"]);
}

#[test]
fn a_write_of_a_stale_hold_may_be_refused() {
    let stale = by(A).asks(0).gets_token(10, 1).write_refused(1_200).loses(1_300).cell();
    assert_eq!((stale.violations.len(), stale.refused_writes), (0, 1));
    let lost = by(A).asks(0).gets_token(10, 1).write_refused(200).loses(300).cell();
    assert_eq!((lost.violations.len(), lost.refused_writes), (0, 1));
}

#[test]
fn without_tokens_nothing_is_known_of_writes() {
    by(A).asks(0).gets(10).write_refused(20).releases(30).finds_nothing();
}

/// A sends a write at 1,400 or before, with an older token than B's.
fn old_write(observed: u64, write: fn(Script, u64) -> Script) -> Script {
    let old = write(by(A).asks(0).gets_token(10, 1).holds(observed), 1_400).loses(1_500);
    old.by(B).asks(0).gets_token(1_200, 2).write_accepted(1_250).releases(1_260)
}

#[test]
fn the_resource_accepts_no_older_token() {
    let accepted = old_write(1_300, Script::write_accepted)
        .finds(&["accepted a write of worker 0 of process 1 with token 1"]);
    assert_eq!(accepted.overlaps.valid, 0, "only the resource is wrong");
    let refused = old_write(1_300, Script::write_refused).cell();
    assert_eq!((refused.violations.len(), refused.refused_writes), (0, 1));
}

#[test]
fn a_write_that_may_have_been_there_first_may_be_accepted() {
    old_write(1_100, Script::write_accepted).finds_nothing();
}

#[test]
fn the_resource_knows_its_order() {
    let write = |first, second| {
        let old = by(A).asks(0).gets_token(10, 1).holds(500).writes_as(1_600, first).loses(1_700);
        old.by(B).asks(0).gets_token(1_510, 2).writes_as(1_550, second).releases(1_560)
    };
    write(1, 2).finds_nothing();
    write(2, 1).finds(&["accepted a write of worker 0 of process 1 with token 1 at 1600.000 ms"]);
}
