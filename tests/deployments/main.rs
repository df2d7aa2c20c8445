//! Clusters and sentinels whose masters change, and whose slots move; what operations cost there.
//!
//! In `cluster`, `sentinel` and `pool` the test bed itself is tested, by commands that share no code with the
//! library: what the other tests conclude from it is worth no more than it is.
#![expect(clippy::disallowed_methods, reason = "real servers take real time")]

mod addresses;
mod cluster;
mod contenders;
mod copies;
mod costs;
mod failovers;
mod forced;
mod moves;
mod names;
mod outages;
mod pool;
mod preflight;
mod redirects;
mod replies;
mod secured;
mod sentinel;
mod shards;
mod silence;
mod subscriptions;
mod switch;
