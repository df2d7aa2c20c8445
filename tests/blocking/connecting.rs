//! What connecting refuses, and what it does not wait for.

use std::net::{Ipv4Addr, TcpListener};

use leasehold::blocking::Client;
use leasehold::{ConfigError, Error, Lease};
use leasehold_testbed::ms;

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
