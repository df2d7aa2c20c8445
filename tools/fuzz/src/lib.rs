//! Fuzzing of leasehold. Whatever callers pass and servers send, each call must return a value or a
//! documented error.
//!
//! An input is a sequence of bytes. A [`Target`] derives choices from the bytes, acts on them, and
//! panics if leasehold breaks a promise. [`judge`] runs one input and returns how it ended.
//! [`Plan`] makes inputs from a seed.

mod choices;
mod engine;
mod junk;
mod server;
mod targets;
mod verdict;
mod world;

pub use engine::{Failure, Limit, Plan, Tally, Watch};
pub use targets::{TARGETS, Target, target};
pub use verdict::{Verdict, judge};
