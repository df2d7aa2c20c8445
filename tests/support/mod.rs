//! What tests on a real server need: a private server, a client that depends on nothing, a proxy
//! that misbehaves on request. Only `std`; only loopback addresses.
//!
//! A test binary includes it with `#[path = "…/tests/support/mod.rs"] mod support;`.
#![allow(dead_code, reason = "no test binary uses all of it")]
#![allow(
    unreachable_pub,
    reason = "the same files serve unit tests and test binaries"
)]
#![allow(
    clippy::allow_attributes,
    reason = "whether something is unused depends on the binary"
)]
#![allow(clippy::panic, reason = "a test ends where its server cannot be used")]
#![allow(
    clippy::fn_params_excessive_bools,
    reason = "a fault of the proxy is switched on and off by name"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "starting a process and waiting for it takes real time, outside any runtime"
)]

pub mod cluster;
pub mod deployment;
pub mod keeper;
pub mod migration;
pub mod preload;
pub mod proxy;
pub mod resp;
pub mod routes;
pub mod sentinel;
pub mod server;
pub mod slots;

use std::time::{Duration, Instant};

/// Polls a condition; panics with `what` if it does not hold within `limit`. Blocks the thread.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "still not after {limit:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
