//! Bad input for leasehold: whatever a caller or a server hands it, it answers with a value or a documented error.
//!
//! An input is a string of bytes. A [`Target`] reads choices out of it, does what they say, and panics if a promise
//! is broken. [`judge`] runs one input and says how that ended; [`Plan`] makes inputs from a seed.

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
