//! The quorum lock over independent servers: what it survives, what it reports, and what no such
//! lock can guarantee.
//!
//! Real servers are killed, frozen, restarted empty, and their clocks are set. Where exact times
//! matter, five embedded engines under paused time are used instead.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clocks;
mod failures;
mod members;
mod testbed;
#[cfg(target_os = "linux")]
mod wall_clock;
