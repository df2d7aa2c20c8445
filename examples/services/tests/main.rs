//! The services of `docs/services.md` as real processes, on servers that the tests start.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(clippy::print_stdout, reason = "what was measured")]
#![expect(
    clippy::disallowed_methods,
    reason = "processes take real time, outside any runtime"
)]

mod cron;
mod exporting;
mod fenced_redis;
mod graceful;
mod http;
mod inventory;
mod leader;
mod mixed;
mod orders_grpc;
mod orders_http;
mod postgres;
mod process;
mod resource;
mod slots;
mod webhooks;

use std::time::Duration;

/// How long anything may take that is expected to happen.
const LIMIT: Duration = Duration::from_secs(60);
