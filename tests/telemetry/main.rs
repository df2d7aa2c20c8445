//! What exporters and tracers receive, compared with what was done.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod foreign;
mod metrics_of_a_run;
mod names;
mod oldest;
mod recorded;
mod renewals;
mod rules;
mod spans;
mod troubleshooting;
