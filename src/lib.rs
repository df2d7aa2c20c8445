//! Distributed locks on Redis and Valkey, wire-compatible with Java's Redisson.
#![allow(dead_code, reason = "the layers are being joined")]

mod config;
mod protocol;
mod transport;

pub use config::ConfigError;
