//! The hard claims, on a real Redis that is stopped, killed, cut off and lied about.
//!
//! Each module is one claim. A test has a private server on a loopback port; most of them watch
//! Redis from outside through a connection that shares no code with the library. Nothing here waits
//! for a duration where a condition can be waited for.
//!
//! Sizes are small by default and come from the environment, so that the same test runs long by
//! hand: `LEASEHOLD_ACQUISITIONS`, `LEASEHOLD_HOLDS`, `LEASEHOLD_ROUNDS`, `LEASEHOLD_WAITERS`,
//! `LEASEHOLD_RESTART_WAITERS`, `LEASEHOLD_STEP_US`, `LEASEHOLD_CHAOS_SECONDS`. Tests with
//! randomness print their seed; `LEASEHOLD_SEED` replays it.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests spawn tasks, block workers and stop real time on purpose"
)]
#![expect(clippy::panic, reason = "a test fails by it, also in its helpers")]

mod bed;
mod cancel;
mod cost;
mod drops;
mod errors;
mod exclusion;
mod lost_replies;
mod rights;
#[path = "../support/mod.rs"]
mod support;
mod waiters;
mod watchdog;
