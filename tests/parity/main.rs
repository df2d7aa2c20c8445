//! The embedded engine agrees with a real server.
//!
//! Both are driven with the same random sequences of commands and scripts, with plausible and with
//! hostile arguments; replies, leases and at the end the whole keyspace are compared. The number of
//! sequences is in `LEASEHOLD_CASES`; a failure prints the shortest sequence that proptest found,
//! and the seed that makes it again with `LEASEHOLD_SEED`.

mod compare;
mod fixed;
mod generate;
mod random;
mod scripts;
