//! A quorum of string locks, shared with redsync on three servers and with node-redlock on five.

use leasehold_testbed::{Servers, soon};

use crate::LONG;
use crate::both::{
    a_late_call_affects_nobody, both_on, each_excludes_the_other, each_is_freed_by_its_expiry,
    each_keeps_to_extensions_of_the_other, each_waits_for_the_other,
    in_a_crowd_nobody_meets_anybody,
};
use crate::process::Library;

with_each! {
    [
        each_excludes_the_other,
        each_waits_for_the_other,
        each_keeps_to_extensions_of_the_other,
        each_is_freed_by_its_expiry,
        a_late_call_affects_nobody,
        without_a_minority_each_excludes_the_other,
        in_a_crowd_nobody_meets_anybody,
    ]
    redsync_on_three(Library::Redsync, 3)
    node_redlock_on_five(Library::NodeRedlock, 5)
}

/// As many servers are down as a majority can spare.
async fn without_a_minority_each_excludes_the_other(library: Library, number: usize) {
    let mut servers = Servers::start(number);
    servers.kill(0..number / 2);
    let both = both_on(library, servers, LONG).await;
    assert!(both.peer.is("try it").await);
    both.assert_refused().await;
    assert!(both.peer.is("release it").await);
    let guard = soon("free", both.lock.lock()).await.unwrap();
    assert!(!both.peer.is("try it").await);
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(both.peer.tell("lock it").await, "locked");
}
