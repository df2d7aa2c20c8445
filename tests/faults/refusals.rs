//! Bad input is refused with its value and the limit, and nothing is sent.

use std::time::Duration;

use leasehold::{Client, ConfigError, Error, Lease};
use leasehold_testbed::{Outside, Proxy, Server, ms, release, within};

use crate::errors::{CALL, LIMIT};
use crate::testbed::{at_rest, beside, connect, hold};

#[test]
fn bad_names_are_refused_unsent_with_value_and_limit() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = connect(&server.url()).await;
        let before = client.stats().calls;
        let huge = "n".repeat(1_025);
        for (name, parts) in [
            ("", &["empty"][..]),
            (&*huge, &["1025", "1024"]),
            ("a{b", &["brace"]),
            ("a}b", &["brace"]),
            ("{}x", &["{}x", "empty pair"]),
        ] {
            let lock = client.lock(name);
            let outcomes = [
                lock.lock().await.map(drop),
                lock.try_lock_now(Lease::Fixed(ms(1_000))).await.map(drop),
                lock.acquire().wait(ms(10)).await.map(drop),
                lock.run(ms(10), Lease::Fixed(ms(1_000)), async |_guard| ())
                    .await,
                lock.is_locked().await.map(drop),
                lock.remaining_lease().await.map(drop),
                lock.holder().await.map(drop),
                lock.force_unlock("a test").await.map(drop),
            ];
            for outcome in outcomes {
                let Err(Error::Config(error @ ConfigError::Name { .. })) = outcome else {
                    panic!("`{name}`: {outcome:?}");
                };
                let text = error.to_string();
                assert!(parts.iter().all(|part| text.contains(part)), "{text}");
                assert!(text.len() < 300, "a huge name is cut: {text}");
            }
        }
        assert_eq!(client.stats().calls, before);
        // At the limit, and with every odd character that is allowed.
        for name in [
            &*"n".repeat(1_024),
            "a{b}c",
            "with space\n\"quotes\"\0",
            "ключ",
            "%s$1",
        ] {
            client
                .lock(name)
                .lock()
                .await
                .expect(name)
                .unlock()
                .await
                .expect(name);
        }
    });
}

#[test]
fn bad_leases_are_refused_unsent_and_endless_waits_are_not_bad() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = connect(&server.url()).await;
        let guard = hold(&client, "held").await;
        let before = client.stats().calls;
        for lease in [
            Duration::ZERO,
            ms(9),
            Duration::from_secs(31_622_400),
            Duration::MAX,
        ] {
            let lock = client.lock("n");
            let outcomes = [
                lock.try_lock_now(Lease::Fixed(lease)).await.map(drop),
                lock.acquire().lease(Lease::Fixed(lease)).await.map(drop),
                lock.acquire().max_hold(lease).await.map(drop),
                lock.run(Duration::ZERO, Lease::Fixed(lease), async |_guard| ())
                    .await,
                guard.extend(lease).await,
            ];
            for outcome in outcomes {
                let Err(Error::Config(ConfigError::OutOfRange { given, allowed, .. })) = outcome
                else {
                    panic!("{lease:?}: {outcome:?}");
                };
                assert_eq!(given, format!("{lease:?}"));
                assert!(
                    allowed.contains("10ms") && allowed.contains("31536000s"),
                    "{allowed}"
                );
            }
        }
        assert_eq!(client.stats().calls, before);
        // An endless wait is an ordinary wait. A fraction of a millisecond is cut off.
        for wait in [
            Duration::MAX,
            Duration::from_secs(u64::MAX),
            Duration::from_nanos(1),
        ] {
            let lock = client.lock("n");
            let guard = within(
                CALL,
                "free",
                lock.try_lock(wait, Lease::Fixed(Duration::from_micros(10_999))),
            );
            let left = guard.await.map(|guard| guard.deadline());
            // On a stalled machine, such a short lease may have ended when the grant arrives.
            let late = |error: &Error| error.is_retryable();
            assert!(left.as_ref().err().is_none_or(late), "{left:?}");
            let longest = Duration::from_secs(31_536_000);
            let guard = within(
                CALL,
                "free",
                client.lock("long").try_lock(wait, Lease::Fixed(longest)),
            )
            .await;
            if let Ok(guard) = guard {
                guard.unlock().await.expect("held");
            }
        }
        guard.unlock().await.expect("held");
        at_rest(&client, LIMIT).await;
    });
}

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

#[test]
fn a_prefix_with_a_brace_is_refused_at_the_first_call() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = Client::builder(&server.url())
            .key_prefix("a{")
            .connect()
            .await;
        let client = client.expect("connects");
        let before = client.stats().calls;
        let outcome = client.lock("n").lock().await;
        assert!(
            matches!(outcome, Err(Error::Config(ConfigError::Name { .. }))),
            "{outcome:?}"
        );
        assert_eq!(client.stats().calls, before);
    });
}

#[test]
fn corrupt_texts_are_refused_unsent() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = connect(&server.url()).await;
        let text = hold(&client, "n").await.hand_on().expect("held");
        let lock = client.lock("n");
        let before = client.stats().calls;
        let refused = async |text: &str| {
            let outcome = lock.restore(text).await;
            assert!(
                matches!(outcome, Err(Error::Config(ConfigError::HandOnText { .. }))),
                "{text}: {outcome:?}"
            );
        };
        for cut in 0..text.len() {
            refused(&text[..cut]).await;
        }
        let seed = crate::testbed::seed("corrupt_texts");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..1_000 {
            let mut bytes = text.as_bytes().to_vec();
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(1..128);
            let changed = String::from_utf8(bytes).expect("ascii");
            if *changed != *text {
                refused(&changed).await;
            }
        }
        assert_eq!(client.stats().calls, before);
        release(lock.restore(&text).await).await;
        // The hold has ended, so the text takes nothing.
        let again = lock.restore(&text).await;
        assert!(matches!(again, Err(Error::NotOwner { .. })), "{again:?}");
        assert_eq!(Outside::of(&server).keys(), 0);
        at_rest(&client, LIMIT).await;
    });
}
