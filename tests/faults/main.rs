//! The hard claims, on a real Redis that is stopped, killed, cut off and lied about.
//!
//! Each module tests one claim. A test has a private server on a loopback port. Most tests watch
//! Redis from outside, through a connection that shares no code with the library. Tests wait for
//! conditions, not for durations, wherever possible.
//!
//! Sizes are small by default and come from the environment, so that the same test can run long by
//! hand:
//!
//! | variable | default | what |
//! | --- | --- | --- |
//! | `LEASEHOLD_HOLDS`, `LEASEHOLD_LEASES` | 2000, 3 | holds under blocked workers, for so many leases |
//! | `LEASEHOLD_ROUNDS` | 10000 | quick rounds of lock, unlock and cancel |
//! | `LEASEHOLD_WAITERS` | 2000 | waiters of as many names, and of one |
//! | `LEASEHOLD_RESTART_WAITERS` | 200 | waiters while Redis restarts |
//! | `LEASEHOLD_NAMES` | 20000 | names that are locked and released under mild faults |
//! | `LEASEHOLD_SHUTDOWNS` | 40 | shutdowns beside ten guards that go, in each of five ways |
#![expect(
    clippy::disallowed_methods,
    reason = "the tests spawn tasks, block workers and stop real time on purpose"
)]
#![expect(clippy::panic, reason = "a test fails by it, also in its helpers")]

mod blocked;
mod cancel;
mod cost;
mod drops;
mod durability;
mod errors;
mod fair;
mod fork;
mod half_run;
mod handed_over;
mod lost_grants;
mod lost_releases;
mod lost_replies;
mod memory;
mod process_ends;
mod racing_ends;
mod refusals;
mod refused;
mod resolver;
mod restart;
mod testbed;
mod two_servers;
mod unpolled;
mod waiters;
mod watchdog;
