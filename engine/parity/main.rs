//! The embedded engine agrees with a real server.
//!
//! Both run the same random sequences of commands and scripts, with plausible and hostile
//! arguments. Replies, leases and, at the end, the whole keyspace are compared. `LEASEHOLD_CASES`
//! is the number of sequences. A failure prints the shortest failing sequence and the seed, which
//! `LEASEHOLD_SEED` replays.

mod compare;
mod fixed;
mod generate;
mod random;
mod scripts;
