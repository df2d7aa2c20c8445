//! What is right, in models that are small enough to be explored whole, and whether what clients
//! did is allowed by them. `docs/dev/specification.md` says how to read them.

mod cases;
mod explore;
mod failover;
mod fair;
mod handed_over;
mod page;
mod plain;
mod quorum;
mod read_write;
pub mod trace;

pub use page::{filled, larger, path};
