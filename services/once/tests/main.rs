//! Ticks on the embedded engine under paused time, on schedulers, and on a real server that fails.
#![expect(
    clippy::print_stdout,
    reason = "how much a run under faults has done is worth a line"
)]

mod at_least;
mod at_most;
mod faults;
mod schedulers;

use std::time::{Duration, SystemTime};

use leasehold::Client;
use leasehold_once::Once;
use leasehold_testbed::ms;

const LEASE: Duration = ms(600);

fn once(client: &Client) -> Once {
    Once::new(client, "job").with_lease(LEASE)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a schedule is one of the wall clock"
)]
fn now() -> SystemTime {
    SystemTime::now()
}
