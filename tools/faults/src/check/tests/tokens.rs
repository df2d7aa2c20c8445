//! Tokens of grants, and writes that the resource refuses.

use super::actors::{A, Actor, B, C, Script, by, slot_of};

/// A hold of 100 ms with this token.
fn fenced(script: Script, actor: Actor, granted: u64, token: i64) -> Script {
    script
        .by(actor)
        .asks(granted - 50)
        .gets_token(granted, token)
        .releases(granted + 100)
}

fn tokens(first: i64, second: i64) -> Script {
    fenced(fenced(by(A), A, 100, first), B, 300, second)
}

#[test]
fn tokens_rise() {
    tokens(7, 8).finds_nothing();
    tokens(7, 7).finds(&[
        "process 2 was granted token 7 at 300.000 ms, although",
        "token 7 at 100.000 ms",
    ]);
    tokens(7, 6).finds(&["granted token 6"]);
}

#[test]
fn each_lock_has_a_counter() {
    let other = B.of("plain:1");
    fenced(fenced(by(A), A, 100, 7), other, 300, 3).finds_nothing();
}

#[test]
fn an_expired_grant_may_have_an_old_token() {
    let late = by(A)
        .asks(0)
        .gets_token(100, 8)
        .releases(200)
        .by(B)
        .on(0, "cut")
        .asks(0);
    let granted = |until| {
        late.clone().does(
            300,
            crate::history::What::Granted {
                until,
                token: Some(7),
                field: None,
            },
        )
    };
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
        let before = fenced(by(A), A, at, 8)
            .on(10, "failover")
            .off(60, "failover");
        fenced(before, B, at + 200, 7)
    };
    let cell = granted(460).cell();
    assert_eq!((cell.violations.len(), cell.explained.len()), (0, 1));
    granted(461).finds(&["token 7"]);
}

#[test]
fn other_faults_lose_no_counter() {
    tokens(7, 6)
        .on(250, "cut")
        .off(260, "cut")
        .finds(&["token 6"]);
    tokens(7, 6)
        .on(301, "failover")
        .off(360, "failover")
        .finds(&["token 6"]);
}

#[test]
fn a_write_of_a_valid_hold_is_accepted() {
    let write = |write: fn(Script, u64) -> Script| {
        write(by(A).asks(0).gets_token(10, 1).holds(50), 51)
            .holds(100)
            .releases(120)
    };
    write(Script::write_accepted).finds_nothing();
    let refused = write(Script::write_refused);
    let cell = refused
        .clone()
        .finds(&["a write of worker 0 of process 1 with token 1 was refused at 51.000 ms"]);
    assert_eq!(cell.refused_writes, 1);

    // No other hold had a higher token, so a lost counter does not explain it.
    refused
        .on(20, "failover")
        .off(30, "failover")
        .finds(&["was refused"]);
}

#[test]
fn only_a_lost_counter_explains_a_refused_write() {
    let refused = |on: u64, name| {
        let before = fenced(by(A), A, 100, 8);
        let after = before
            .by(B)
            .asks(900)
            .gets_token(950, 7)
            .write_refused(960)
            .releases(970);
        after.on(on, name).off(on + 10, name).cell()
    };
    for name in ["failover", "restart"] {
        let cell = refused(250, name);
        assert_eq!(
            (cell.violations.len(), cell.explained.len()),
            (0, 2),
            "{:?}",
            cell.violations
        );
        assert!(
            cell.explained[1].contains("the counter may have been lost by"),
            "{:?}",
            cell.explained
        );
        assert_eq!(refused(951, name).violations.len(), 2);
    }
    assert_eq!(
        refused(601, "failover").violations.len(),
        2,
        "it had been replicated by then"
    );
    assert_eq!(refused(601, "restart").violations.len(), 0);
}

#[test]
fn a_higher_token_of_a_second_holder_explains_a_refused_write() {
    let refused = by(A)
        .asks(0)
        .gets_token(10, 1)
        .holds(300)
        .write_refused(310)
        .holds(320);
    let both = refused
        .doubts(330)
        .releases(340)
        .by(B)
        .asks(200)
        .gets_token(290, 2)
        .releases(400);
    let cell = both.clone().on(250, "failover").off(260, "failover").cell();
    assert_eq!(
        (cell.violations.len(), cell.explained.len()),
        (0, 2),
        "{:?}",
        cell.violations
    );
    assert!(
        cell.explained[1].contains("the hold may have been lost by"),
        "{:?}",
        cell.explained
    );
    let cell = both.on(250, "cut").off(260, "cut").cell();
    assert_eq!((cell.violations.len(), cell.explained.len()), (2, 0));
}

#[test]
fn a_counter_is_lost_only_in_the_slots_of_the_fault() {
    let violations_in = |lock: &str| {
        let fault = tokens(7, 6)
            .on_at(250, "failover", slot_of(lock))
            .off(260, "failover");
        fault.cell().violations.len()
    };
    assert_eq!((violations_in("plain:0"), violations_in("plain:1")), (0, 1));
}

#[test]
fn a_write_of_a_stale_hold_may_be_refused() {
    let stale = by(A)
        .asks(0)
        .gets_token(10, 1)
        .write_refused(1_200)
        .loses(1_300)
        .on(100, "cut")
        .cell();
    assert_eq!((stale.violations.len(), stale.refused_writes), (0, 1));
    let lost = by(A)
        .asks(0)
        .gets_token(10, 1)
        .write_refused(200)
        .loses(300)
        .on(150, "cut")
        .cell();
    assert_eq!((lost.violations.len(), lost.refused_writes), (0, 1));
}

#[test]
fn writes_without_a_token_are_not_checked() {
    by(A)
        .asks(0)
        .gets(10)
        .write_refused(20)
        .releases(30)
        .finds_nothing();
}
