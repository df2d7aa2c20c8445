//! Clusters and sentinels whose masters change, and whose slots move.
//!
//! Here the test bed itself is tested, by commands that share no code with the library: what other tests
//! conclude from it is worth no more than it is.
#![expect(clippy::panic, reason = "a test fails by it, also in its helpers")]

mod cluster;
mod pool;
mod sentinel;
#[path = "../support/mod.rs"]
mod support;
