//! Runtimes on which a client cannot be made, and those on which it can.

use leasehold::{Error, Lease};
use leasehold_testbed::ms;
use tokio::runtime::Builder;

/// Nobody listens at the port, so a client that asks for more than its runtime has says something
/// else.
#[test]
fn a_runtime_that_lacks_something_is_refused() {
    type Enable = fn(&mut Builder) -> &mut Builder;
    let table: [(Enable, &str); 3] = [
        (Builder::enable_io, "timers"),
        (Builder::enable_time, "I/O"),
        (|builder| builder, "timers"),
    ];
    for (enable, lacks) in table {
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = enable(&mut builder).build().unwrap();
            let settings = || leasehold::Client::builder("redis://127.0.0.1:1");
            for refused in [
                runtime.block_on(settings().connect()),
                runtime.block_on(settings().connect_in_background()),
            ] {
                let error = refused.expect_err("it lacks something");
                assert!(matches!(error, Error::Config(_)), "{error}");
                let text = error.to_string();
                assert!(
                    text.contains(lacks) && text.contains("enable_all"),
                    "{text}"
                );
            }
        }
    }
}

/// It needs no I/O, and gets a thread where there are no timers.
#[test]
fn a_client_of_an_engine_works_on_any_runtime() {
    let without_anything = Builder::new_current_thread().build();
    let with_timers = Builder::new_current_thread().enable_time().build();
    for runtime in [without_anything, with_timers] {
        runtime.unwrap().block_on(async {
            let client = leasehold::Client::embedded();
            let guard = client.lock("x").lock().await.unwrap();
            let refused = client.lock("x").try_lock(ms(20), Lease::Renewed).await;
            assert!(refused.is_err_and(|error| error.is_timeout()));
            guard.unlock().await.unwrap();
        });
    }
}
