//! The sentinels that the tests use: failovers by order and by death, and what is announced.

use std::time::Instant;

use leasehold_testbed::{Reply, Sentinels};

#[test]
#[expect(
    clippy::print_stderr,
    reason = "measured times are shown with --nocapture"
)]
fn a_failover_by_order_loses_nothing() {
    let start = Instant::now();
    let sentinels = Sentinels::start();
    eprintln!("three servers and three sentinels: {:?}", start.elapsed());
    assert_eq!(sentinels.current_master(), 0);
    assert_eq!(
        sentinels.command(&["SET", "n", "kept"]),
        Reply::Status("OK".into())
    );
    sentinels.until_in_step();
    let mut announcements = sentinels.listen(1);
    let master = sentinels.failover();
    assert_ne!(master, 0);
    let ports = [0, master].map(|server| sentinels.server(server).port());
    assert_eq!(announcements.next_switch(), ports.into());
    assert_eq!(sentinels.current_master(), master);
    assert_eq!(sentinels.command(&["GET", "n"]).text(), "kept");
    assert_eq!(sentinels.command(&["INCR", "m"]), Reply::Int(1));
}

#[test]
fn a_replica_follows_a_master_that_is_gone() {
    let mut sentinels = Sentinels::start();
    assert_eq!(
        sentinels.command(&["SET", "n", "kept"]),
        Reply::Status("OK".into())
    );
    sentinels.until_in_step();
    let mut announcements = sentinels.listen(0);
    sentinels.kill(0);
    sentinels.until_replaced(0);
    announcements.next_switch();
    assert_eq!(sentinels.command(&["GET", "n"]).text(), "kept");
    sentinels.until_in_step();
    assert_ne!(sentinels.replica(), 0);

    // The sentinels reconfigure it as a replica.
    sentinels.restart(0);
    sentinels.until_in_step();
    assert!(!sentinels.is_master(0));
    assert_eq!(sentinels.server(0).command(&["GET", "n"]).text(), "kept");
    assert_ne!(sentinels.current_master(), 0);
}

#[test]
fn a_master_that_stands_still_is_replaced_and_serves_on() {
    let sentinels = Sentinels::start();
    sentinels.until_in_step();
    sentinels.pause(0);
    let master = sentinels.until_replaced(0);
    sentinels.resume(0);
    assert!(
        sentinels.is_master(0) && sentinels.is_master(master),
        "both, for some seconds"
    );
    sentinels.until_in_step();
    assert!(!sentinels.is_master(0));
}

#[test]
fn a_sentinel_may_be_gone() {
    let mut sentinels = Sentinels::start();
    sentinels.kill_sentinel(0);
    assert_ne!(sentinels.failover(), 0);
    sentinels.restart_sentinel(0);
    assert_eq!(
        sentinels.command(&["SET", "n", "1"]),
        Reply::Status("OK".into())
    );
}
