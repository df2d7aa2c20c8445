//! Shared by the tests on servers: limits, and clients that wait for a stalled machine.

use std::future::Future;
use std::time::Duration;

use leasehold::{Client, ClientBuilder};
use leasehold_admin::Admin;
use leasehold_testbed::{connected, ms};

/// The delay that a stalled machine may add, several times over.
pub(crate) const LATE: Duration = ms(5_000);

/// Runs a test on threads. It fails if it takes longer than `limit`.
pub(crate) fn beside(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let test = Box::pin(test);
    let done = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    runtime.shutdown_timeout(ms(200));
    assert!(done.is_ok(), "the test hangs: not done within {limit:?}");
}

/// A client that does not take a late reply for a lost one.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    Client::builder(url)
        .connect_timeout(LATE * 4)
        .command_timeout(LATE)
}

/// An admin that keeps such a client.
pub(crate) async fn admin_of(url: &str) -> Admin {
    Admin::new(&connected(builder(url)).await)
}
