//! Leasehold and the real Redisson, in one JVM each, take turns on one Redis.
//!
//! Every test has a server and a JVM of its own. `tests/run` builds what the JVM runs.
#![expect(
    clippy::print_stderr,
    reason = "measured times are shown with --nocapture"
)]
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]

mod contention;
mod crowd;
mod exclusive;
mod handed_over;
mod harness;
mod inspection;
mod latch;
mod multi;
mod observer;
mod permits;
mod queue;
mod read_write;
mod red_lock;
mod redisson;
mod semaphore;
