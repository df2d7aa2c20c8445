//! Distributed locks on Redis and Valkey, wire-compatible with Java's Redisson.
#![allow(dead_code, reason = "the layers are being joined")]

mod config;
mod protocol;
mod transport;

pub use config::ConfigError;
#[cfg(feature = "embedded")]
pub use transport::embedded::EmbeddedRedis;

/// Fault switches and inspection for this crate's own tests; no promise of stability.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod test_util {
    pub use crate::transport::embedded::testing::{
        Delay, Dumped, ErrorReply, Faults, LinkControl, Reply, Restart, scripts,
    };
}
