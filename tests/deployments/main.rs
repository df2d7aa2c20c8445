//! Clusters and sentinels with changing masters and moving slots, and what operations cost there.
//!
//! `cluster`, `sentinel` and `pool` test the test bed itself with commands that share no code with
//! the library, because the conclusions of the other tests depend on it.
#![expect(clippy::disallowed_methods, reason = "real servers take real time")]

mod addresses;
mod certificates;
mod cluster;
mod contenders;
mod copies;
mod costs;
mod forced;
mod ipv6;
mod logins;
mod mapped;
mod moves;
mod names;
mod outages;
mod pool;
mod secured;
mod shards;
mod silence;
mod subscriptions;
mod switch;
mod told;
