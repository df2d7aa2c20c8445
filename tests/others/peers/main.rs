//! String locks shared with programs of other languages: the real locks of Python's redis-py, of
//! Go's redsync and redislock and of node-redlock, and the format of Laravel by the commands that
//! it sends.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

/// The tests, and the values that each of them runs with.
macro_rules! with_each {
    (@ $module:ident $arguments:tt [$($test:ident,)*]) => {
        mod $module {
            use crate::process::Library;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test $arguments.await;
            })*
        }
    };
    ($tests:tt $($module:ident $arguments:tt)*) => {
        $(with_each! { @ $module $arguments $tests })*
    };
}

mod both;
mod laravel;
mod one_server;
mod process;
mod quorum;

use std::time::Duration;

const ONCE: Duration = Duration::ZERO;
const KEY: &str = "my-global-mutex";
/// For leases and waits that must not end within the test.
const LONG: u32 = 60_000;
