//! A profile refuses what its server refuses, with the words of that server.

use std::time::Duration;

use tokio::time::advance;

use super::raw::client;
use super::{Engine, Raw};
use crate::{Hello, Profile, Refusal, Refused, Slots, Undeclared};

const OK: &str = "+OK\r\n";

/// A connection to such a server, and the server.
fn dial(profile: Profile) -> (std::sync::Arc<Engine>, crate::Dialer, Raw) {
    let redis = Engine::with_profile(profile);
    let (dialer, _) = client(&redis);
    let raw = Raw::dial(&dialer).expect("a connection");
    (redis, dialer, raw)
}

#[tokio::test(start_paused = true)]
async fn connection_speaks_resp2_before_hello() {
    let (_redis, _dialer, mut raw) = dial(Profile::REDIS);
    raw.asks(&["GET", "k"], "$-1\r\n").await;
    raw.send(&["HELLO", "3"]).await;
    raw.frame_end("modules\r\n*0\r\n").await;
    raw.asks(&["GET", "k"], "_\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn hello_3_is_refused_or_answered_in_resp2() {
    let no = "NOPROTO unsupported protocol version";
    let (redis, _dialer, mut raw) = dial(Profile {
        hello: Hello::Refused(no),
        ..Profile::REDIS
    });
    raw.asks(&["HELLO", "3"], &format!("-{no}\r\n")).await;
    raw.asks(&["GET", "k"], "$-1\r\n").await;
    raw.send(&["HELLO", "2"]).await;
    raw.frame_end("modules\r\n*0\r\n").await;
    assert_eq!(redis.refused(), [((1, "HELLO 3".to_owned()), 1)].into());

    let (_redis, _dialer, mut raw) = dial(Profile {
        hello: Hello::Resp2,
        ..Profile::REDIS
    });
    raw.send(&["HELLO", "3"]).await;
    let welcome = raw.frame_end("modules\r\n*0\r\n").await;
    assert!(welcome.starts_with("*14\r\n") && welcome.contains("proto\r\n:2\r\n"));
}

#[tokio::test(start_paused = true)]
async fn commands_are_refused_and_counted() {
    let (redis, dialer, mut raw) = dial(Profile {
        refused: &[
            Refused {
                commands: &["INFO", "CLIENT SETINFO"],
                with: Refusal::Unknown,
            },
            Refused {
                commands: &["ROLE", "CLIENT ID"],
                with: Refusal::Forbidden,
            },
            Refused {
                commands: &["TIME"],
                with: Refusal::Words("ERR no time"),
            },
            Refused {
                commands: &["KEYS"],
                with: Refusal::Closed,
            },
        ],
        ..Profile::REDIS
    });
    let unknown = "-ERR unknown command 'info', with args beginning with: 'server' \r\n";
    raw.asks(&["info", "server"], unknown).await;
    let unknown = "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n";
    for what in ["LIB-NAME", "LIB-VER", "LIB-VER"] {
        raw.asks(&["CLIENT", "SETINFO", what, "x"], unknown).await;
    }
    let forbidden =
        |name| format!("-NOPERM this user has no permissions to run the '{name}' command\r\n");
    raw.asks(&["ROLE"], &forbidden("role")).await;
    raw.asks(&["Client", "Id"], &forbidden("client|id")).await;
    raw.asks(&["TIME"], "-ERR no time\r\n").await;
    // Scripts may use what clients may not.
    raw.asks(&["EVAL", "return #redis.call('time')", "0"], ":2\r\n")
        .await;
    raw.send(&["KEYS", "*"]).await;
    assert_eq!(raw.rest().await, b"");
    let mut other = Raw::dial(&dialer).expect("a connection");
    other.asks(&["TIME"], "-ERR no time\r\n").await;
    let counted = redis.refused();
    let count = |connection, name: &str| counted.get(&(connection, name.to_owned())).copied();
    assert_eq!(count(1, "CLIENT SETINFO LIB-NAME"), Some(1));
    assert_eq!(count(1, "CLIENT SETINFO LIB-VER"), Some(2));
    assert_eq!((count(1, "TIME"), count(2, "TIME")), (Some(1), Some(1)));
    assert_eq!(count(2, "INFO"), None);
}

#[tokio::test(start_paused = true)]
async fn a_script_may_not_use_what_clients_may() {
    let (_redis, _dialer, mut raw) = dial(Profile {
        not_in_scripts: &["PUBLISH"],
        ..Profile::REDIS
    });
    raw.asks(&["PUBLISH", "x", ""], ":0\r\n").await;
    let publish = "redis.call('set', KEYS[1], 1) return redis.pcall('publish', 'x', '').err";
    let words = "ERR Unknown Redis command called from script";
    let answer = format!("${}\r\n{words}\r\n", words.len());
    raw.asks(&["EVAL", publish, "1", "a"], &answer).await;
    raw.asks(&["GET", "a"], "$1\r\n1\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_flag_in_the_script_allows_undeclared_keys() {
    let words = "ERR script tried accessing undeclared key";
    let (_redis, _dialer, mut raw) = dial(Profile {
        undeclared: Undeclared::RefusedUnlessFlagged(words),
        ..Profile::REDIS
    });
    let bare = "return redis.pcall('incr', ARGV[1])";
    let flagged = format!("{}{bare}", Undeclared::ALLOW_UNDECLARED);
    raw.asks(&["EVAL", bare, "0", "b"], &format!("-{words}\r\n"))
        .await;
    raw.asks(&["EVAL", &flagged, "0", "b"], ":1\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn undeclared_keys_are_refused_when_a_script_uses_them() {
    let words = "ERR script tried accessing undeclared key";
    let (redis, _dialer, mut raw) = dial(Profile {
        undeclared: Undeclared::Refused(words),
        ..Profile::REDIS
    });
    let set = "redis.call('set', KEYS[1], 1) return redis.call('incr', ARGV[1])";
    raw.send(&["EVAL", set, "1", "a", "b"]).await;
    let answer = raw.frame_end("\r\n").await;
    assert!(
        answer.starts_with(&format!("-{words} script: ")),
        "{answer}"
    );
    let key = |name: &str| redis.dump().contains_key(name.as_bytes());
    assert!(key("a") && !key("b"), "it ran up to the key");
    raw.asks(&["EVAL", set, "2", "a", "b", "b"], ":1\r\n").await;
    // As a table from pcall, so that a script goes on.
    let caught = "local all = redis.pcall('del', KEYS[1], ARGV[1]) return all.err";
    raw.asks(
        &["EVAL", caught, "1", "a", "c"],
        &format!("${}\r\n{words}\r\n", words.len()),
    )
    .await;
    assert!(key("a"));
    // Channels are no keys, and commands outside of scripts declare theirs.
    raw.asks(
        &["EVAL", "return redis.call('publish', 'x', '')", "0"],
        ":0\r\n",
    )
    .await;
    raw.asks(&["DEL", "a", "b"], ":2\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn script_is_refused_by_its_text() {
    let words = "ERR bad lua script for redis cluster";
    let (_redis, _dialer, mut raw) = dial(Profile {
        undeclared: Undeclared::RefusedByText(words),
        without_keys: Some("ERR no keys"),
        ..Profile::REDIS
    });
    let (bad, good) = (
        "local key = KEYS[1] return redis.call('incr', key)",
        "return redis.call('incr', KEYS[1])",
    );
    let refused = format!("-{words}\r\n");
    raw.asks(&["EVAL", bad, "1", "a"], &refused).await;
    raw.asks(&["SCRIPT", "LOAD", bad], &refused).await;
    raw.asks(&["EVAL", good, "1", "a"], ":1\r\n").await;
    raw.asks(&["EVAL", good, "0"], "-ERR no keys\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn keys_of_several_slots_are_refused() {
    let script = ["EVAL", "return 1", "2"];
    let crossing = |words: &str| format!("-{words}\r\n");
    let (_redis, _dialer, mut raw) = dial(Profile {
        slots: Slots::OneForScripts("ERR one slot"),
        ..Profile::REDIS
    });
    raw.asks(
        &[&script[..], &["a", "b"]].concat(),
        &crossing("ERR one slot"),
    )
    .await;
    raw.asks(&[&script[..], &["{x}a", "{x}b"]].concat(), ":1\r\n")
        .await;
    raw.asks(&["DEL", "a", "b"], ":0\r\n").await;

    let (_redis, _dialer, mut raw) = dial(Profile {
        slots: Slots::One,
        ..Profile::REDIS
    });
    for several in [&[&script[..], &["a", "b"]].concat()[..], &["DEL", "a", "b"]] {
        raw.asks(several, &crossing(Slots::CROSSSLOT)).await;
    }
    raw.asks(&["DEL", "{x}a", "{x}b"], ":0\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn cluster_of_one_node_describes_itself() {
    let (_redis, _dialer, mut raw) = dial(Profile {
        is_cluster: true,
        slots: Slots::One,
        ..Profile::REDIS
    });
    raw.send(&["HELLO", "3"]).await;
    let welcome = raw.frame_end("modules\r\n*0\r\n").await;
    assert!(welcome.contains("$4\r\nmode\r\n$7\r\ncluster\r\n"));
    raw.send(&["CLUSTER", "SLOTS"]).await;
    let begins = "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n_\r\n:6379\r\n$40\r\n";
    raw.hears(begins).await;
    raw.frame_end("\r\n").await;
    raw.send(&["CLUSTER", "INFO"]).await;
    let info = raw.frame_end("\r\n\r\n").await;
    assert!(info.contains("cluster_state:ok\r\n"), "{info}");

    let (_redis, _dialer, mut raw) = dial(Profile::REDIS);
    raw.asks(
        &["CLUSTER", "SLOTS"],
        "-ERR This instance has cluster support disabled\r\n",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn proxy_answers_ping_before_the_login() {
    for (pings_before_login, answer) in [
        (true, "+PONG\r\n"),
        (false, "-NOAUTH Authentication required.\r\n"),
    ] {
        let redis = Engine::with_profile(Profile {
            pings_before_login,
            ..Profile::REDIS
        });
        redis.require_password("secret");
        let (dialer, _) = client(&redis);
        let mut raw = Raw::dial(&dialer).expect("a connection");
        raw.asks(&["PING"], answer).await;
        raw.asks(&["GET", "k"], "-NOAUTH Authentication required.\r\n")
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn login_ends_the_connection_unless_it_is_renewed() {
    let lasts = Duration::from_secs(60);
    let redis = Engine::with_profile(Profile {
        login_lasts: Some(lasts),
        ..Profile::REDIS
    });
    redis.require_password("secret");
    let (dialer, _) = client(&redis);
    let mut raw = Raw::dial(&dialer).expect("a connection");
    raw.asks(&["AUTH", "secret"], OK).await;
    advance(lasts / 2).await;
    raw.asks(&["AUTH", "secret"], OK).await;
    advance(lasts * 3 / 4).await;
    raw.asks(&["PING"], "+PONG\r\n").await;
    advance(lasts / 4).await;
    assert_eq!(raw.rest().await, b"");
}

#[tokio::test(start_paused = true)]
async fn role_and_replication_are_those_of_a_primary() {
    let (redis, _dialer, mut raw) = dial(Profile::REDIS);
    raw.asks(&["ROLE"], "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
        .await;
    let id = redis.run_id();
    let told = format!("$84\r\n# Replication\r\nrole:master\r\nmaster_replid:{id}\r\n\r\n");
    raw.asks(&["INFO", "replication"], &told).await;
}
