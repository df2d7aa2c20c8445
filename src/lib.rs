//! Distributed locks on Redis and Valkey, wire-compatible with Java's Redisson.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod config;
mod error;
mod lease;
mod lock;
mod mutant;
mod owner;
mod protocol;
mod session;
mod stats;
mod transport;

pub use client::Client;
pub use config::{ClientBuilder, ConfigError, LocalHandover};
pub use error::{Cause, Error};
pub use lease::{HoldState, Lease, LossReason};
pub use lock::{Acquire, HoldHandle, Holder, Lock, LockGuard};
pub use owner::Owner;
pub use stats::Stats;

#[cfg(feature = "embedded")]
pub use transport::embedded::EmbeddedRedis;

#[cfg(feature = "test-util")]
#[doc(hidden)]
pub use mutant::Mutant;

/// Fault switches and inspection for this crate's own tests; no promise of stability.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod test_util {
    pub use crate::session::gate::Gate;
    pub use crate::transport::embedded::testing::{
        Delay, Dumped, ErrorReply, Faults, LinkControl, Reply, Restart, scripts,
    };
}
