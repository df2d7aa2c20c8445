//! What connecting refuses, and what it does not wait for.

use std::net::{Ipv4Addr, TcpListener};

use leasehold::blocking::Client;
use leasehold::{ConfigError, Error, Lease};
use leasehold_testbed::ms;
use tokio::runtime::Builder;

/// A port on which connections are never accepted, as long as the listener is kept.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    (listener, url)
}

#[test]
fn a_bad_setting_is_refused() {
    let refused = Client::connect("http://127.0.0.1");
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::Url { .. }))),
        "{refused:?}"
    );
    let settings = leasehold::Client::builder("redis://127.0.0.1:1").lease(ms(1));
    let refused = Client::connect_with(settings);
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::OutOfRange { .. }))),
        "{refused:?}"
    );
}

#[test]
fn a_server_that_does_not_answer_is_an_error() {
    let (_listener, url) = silent();
    let settings = || leasehold::Client::builder(&url).connect_timeout(ms(100));
    let refused = Client::connect_with(settings());
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );

    let client = Client::connect_in_background(settings()).unwrap();
    let refused = client.lock("x").try_lock_now(Lease::Renewed);
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
}

/// Nobody listens at the port, so a client that asks for more than its runtime has says something else.
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
