//! Leasehold and the real Redisson, in one JVM each, take turns on one Redis.
//!
//! Every test has a server and a JVM of its own. `tests/run` builds what the JVM runs.
#![expect(clippy::print_stderr, reason = "measured times are shown with --nocapture")]

mod contention;
mod inspection;
mod nesting;
mod observer;
mod redisson;
mod renewal;
#[path = "../support/mod.rs"]
mod support;
mod waking;
