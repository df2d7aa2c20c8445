//! What tests of independent servers share.

use std::time::Duration;

use leasehold::{Error, Lease};
use leasehold_testbed::Nodes;
pub(crate) use leasehold_testbed::{RED as NAME, Servers};

/// For tests in which no lease may end.
pub(crate) const LONG: Lease = Lease::Fixed(Duration::from_secs(60));

/// The servers know the scripts: a call whose reply is lost was executed.
pub(crate) async fn scripts_known(nodes: &Nodes) {
    let lock = nodes.quorum(|client| client.string_lock("known"));
    lock.lock().await.unwrap().unlock().await.unwrap();
    nodes.settled().await;
}

/// Others held it until the end of the wait. Where the machine stalls the last answers come too
/// late for it, and a server that was asked is counted as one that did not answer.
pub(crate) fn in_vain(refused: &Error) {
    assert!(
        refused.is_timeout() || matches!(refused, Error::Quorum { .. }),
        "{refused}"
    );
}
