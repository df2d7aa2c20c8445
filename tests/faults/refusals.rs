//! Bad input is refused with its value and the limit, and nothing is sent.

use std::time::Duration;

use leasehold::{Client, ConfigError, Error};
use leasehold_testbed::{Proxy, Server, ms};

use crate::errors::LIMIT;
use crate::testbed::beside;

#[test]
fn bad_settings_and_urls_are_refused_without_a_connection() {
    beside(LIMIT, async {
        let server = Server::start();
        let proxy = Proxy::start(server.address());
        let builder = || Client::builder(&proxy.url());
        let refused = [
            (builder().lease(Duration::ZERO), "0ns", "100ms"),
            (
                builder().lease(Duration::MAX),
                "18446744073709551615",
                "31536000s",
            ),
            (builder().command_timeout(Duration::ZERO), "0ns", "10ms"),
            (
                builder().command_timeout(Duration::MAX),
                "18446744073709551615",
                "60s",
            ),
            (builder().connect_timeout(ms(9)), "9ms", "10ms"),
            (builder().safety_poll(Duration::from_secs(61)), "61s", "60s"),
            (builder().key_prefix("p".repeat(257)), "257", "256"),
        ];
        for (builder, given, limit) in refused {
            match builder.connect().await {
                Err(Error::Config(error)) => {
                    let text = error.to_string();
                    assert!(text.contains(given) && text.contains(limit), "{text}");
                }
                other => panic!("{given}: {other:?}"),
            }
        }
        for url in [
            "",
            "redis",
            "127.0.0.1:6379",
            "http://127.0.0.1",
            "redis://",
            "redis://127.0.0.1:0",
            "redis://127.0.0.1:65536",
            "redis://127.0.0.1/x",
            "redis://127.0.0.1/256",
            "redis://127.0.0.1/?db=1",
            "redis://:hunter2#x@127.0.0.1",
            "redis://:hunter%2@127.0.0.1",
            "redis-cluster://127.0.0.1/1",
            "redis-cluster://127.0.0.1,bücher.example",
        ] {
            match Client::connect(url).await {
                Err(Error::Config(error @ ConfigError::Url { .. })) => {
                    assert!(!error.to_string().contains("hunter"), "{error}");
                }
                other => panic!("{url}: {other:?}"),
            }
        }
        assert_eq!(proxy.accepted(), 0);
    });
}
