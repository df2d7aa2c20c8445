//! What a server refuses is named, in words that say what helps. The servers differ in theirs.

use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock, Refused};
use leasehold_testbed::Server;

use crate::testbed::beside;

const LIMIT: Duration = Duration::from_secs(20);
const ONCE: Duration = Duration::ZERO;

/// The reason, and the message. No refusal is worth a retry.
fn read(error: &Error) -> (Refused, String) {
    let Error::Protocol { refused, .. } = error else {
        panic!("{error:?}");
    };
    assert!(!error.is_retryable(), "{error}");
    (*refused, error.to_string())
}

async fn taken(lock: &Lock) -> (Refused, String) {
    let refused = lock.try_lock(ONCE, Lease::Renewed).await;
    read(&refused.expect_err("refused"))
}

fn user(server: &Server, user: &str, rules: &[&str]) -> String {
    let words = ["ACL", "SETUSER", user, "on", ">secret"];
    server.command(&[&words, rules].concat());
    format!("redis://{user}:secret@127.0.0.1:{}", server.port())
}

#[test]
fn a_refusal_names_the_right_that_is_missing() {
    beside(LIMIT, async {
        let server = Server::start();
        for (rules, expected) in [
            (
                &["+@all", "-evalsha", "~*", "&*"][..],
                "the command `+evalsha`",
            ),
            (&["+@all", "-pexpire", "~*", "&*"], "the command `+pexpire`"),
            (&["+@all", "~other", "&*"], "the key (`~…`)"),
        ] {
            let url = user(
                &server,
                "ann",
                &[&["reset", "on", ">secret"], rules].concat(),
            );
            let client = Client::connect(&url).await.expect("connects");
            let (refused, text) = taken(&client.lock("x")).await;
            assert_eq!(refused, Refused::MissingRight, "{text}");
            let expected = format!("this user has no right to {expected}: grant it");
            assert!(
                text.starts_with(&expected) && text.contains("name=`x`"),
                "{text}"
            );
        }
        // A waiter subscribes to the channel of the lock.
        let url = user(
            &server,
            "ben",
            &["+@all", "~*", "resetchannels", "&leasehold_client:*"],
        );
        let [holder, waiter] =
            [server.url(), url].map(|url| async move { Client::connect(&url).await });
        let (holder, waiter) = (
            holder.await.expect("connects"),
            waiter.await.expect("connects"),
        );
        let _guard = holder.lock("y").lock().await.expect("free");
        let (refused, text) = read(&waiter.lock("y").lock().await.unwrap_err());
        assert_eq!(refused, Refused::MissingRight, "{text}");
        assert!(text.contains("no right to the channel (`&…`)"), "{text}");
    });
}

#[test]
fn a_key_with_other_data_is_named() {
    beside(LIMIT, async {
        let server = Server::start();
        server.command(&["RPUSH", "list", "a"]);
        server.command(&["SET", "text", "hello"]);
        server.command(&["HSET", "hash", "a", "b"]);
        let client = Client::connect(&server.url()).await.expect("connects");
        let (sides, semaphore) = (client.read_write_lock("list"), client.semaphore("text"));
        let mut told = vec![
            taken(&client.lock("list")).await,
            taken(&client.lock("text")).await,
            taken(&client.fair_lock("text")).await,
            taken(&Lock::from(client.fenced_lock("list"))).await,
            taken(&client.string_lock("hash")).await,
            taken(sides.read()).await,
            taken(sides.write()).await,
        ];
        let permits = semaphore.with_limit(2);
        told.push(read(&permits.try_acquire(1, ONCE).await.unwrap_err()));
        let permits = client.permit_expirable_semaphore("hash").with_limit(2);
        let taken = permits.try_acquire(1, ONCE, Lease::Renewed).await;
        told.push(read(&taken.unwrap_err()));
        told.push(read(&client.lock("list").holder().await.unwrap_err()));
        for (refused, text) in told {
            assert_eq!(refused, Refused::OtherData, "{text}");
            let what = "is a lock of another kind, or other data: use another name, detail=`";
            assert!(text.contains(what), "{text}");
        }
    });
}

#[test]
fn a_refused_login_says_where_the_password_goes() {
    beside(LIMIT, async {
        let server = Server::start_with(&["--requirepass", "right"]);
        let address = server.address();
        for (url, expected, what) in [
            (
                format!("redis://{address}"),
                Refused::NoPassword,
                "the server wants a password: put it into the URL",
            ),
            (
                format!("redis://:wrong@{address}"),
                Refused::Login,
                "the server does not accept this user and password",
            ),
            (
                format!("redis://ann:wrong@{address}"),
                Refused::Login,
                "the server does not accept this user and password",
            ),
        ] {
            let (refused, text) = read(&Client::connect(&url).await.unwrap_err());
            assert_eq!(refused, expected, "{text}");
            assert!(text.starts_with(what) && !text.contains("wrong"), "{text}");
            assert_eq!(text.matches(&address.to_string()).count(), 1, "{text}");
        }
    });
}
