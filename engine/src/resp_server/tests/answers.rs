//! Without faults, the server replies like Redis 7.0.15, byte for byte.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::raw::{client, frame, newest};
use super::{ConnectionControl, Engine, Raw, settle};
use crate::{Reply, Restart};

#[tokio::test(start_paused = true)]
async fn handshake() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::dial(&dialer).unwrap();
    raw.asks(&["PING"], "+PONG\r\n").await;
    let welcome = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
        $5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n\
        $4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
    raw.asks(
        &["HELLO", "3", "AUTH", "default", "any", "SETNAME", "me"],
        welcome,
    )
    .await;
    raw.asks(&["client", "getname"], "$2\r\nme\r\n").await;
    raw.asks(&["CLIENT", "ID"], ":1\r\n").await;
    raw.asks(&["CLIENT", "SETNAME", "other"], "+OK\r\n").await;
    raw.asks(&["CLIENT", "SETINFO", "lib-name", "raw"], "+OK\r\n")
        .await;
    raw.asks(&["SELECT", "0"], "+OK\r\n").await;
    raw.asks(&["SELECT", "1"], "-ERR DB index is out of range\r\n")
        .await;
    raw.asks(&["GET", "none"], "_\r\n").await;
    raw.asks(&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n")
        .await;
    raw.asks(
        &["HELLO", "3", "FOO"],
        "-ERR Syntax error in HELLO option 'FOO'\r\n",
    )
    .await;
    assert_eq!(redis.commands_run()["hello"], 3);
    assert!(newest(&control).is_open());
    raw.asks(&["QUIT"], "+OK\r\n").await;
    assert_eq!(raw.rest().await, b"");
    settle().await;
    assert!(control.connections().is_empty() && control.is_alive());
    drop(dialer);
    assert!(!control.is_alive() && redis.links().is_empty());
}

#[tokio::test(start_paused = true)]
async fn password() {
    let redis = Engine::new();
    redis.require_password("secret");
    let (dialer, _) = client(&redis);
    let mut raw = Raw::dial(&dialer).unwrap();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for refused in [&["PING"][..], &["SUBSCRIBE", "ch"], &["CLIENT", "ID"]] {
        raw.asks(refused, "-NOAUTH Authentication required.\r\n")
            .await;
    }
    raw.send(&["HELLO", "3"]).await;
    assert!(
        raw.frame_end("\r\n")
            .await
            .starts_with("-NOAUTH HELLO must be called")
    );
    raw.asks(&["HELLO", "3", "AUTH", "default", "other"], wrong)
        .await;
    raw.asks(&["AUTH", "other", "secret"], wrong).await;
    raw.asks(&["AUTH", "secret"], "+OK\r\n").await;
    raw.asks(&["PING"], "+PONG\r\n").await;
    let mut second = Raw::dial(&dialer).unwrap();
    second
        .send(&["HELLO", "3", "AUTH", "default", "secret"])
        .await;
    second.frame_end("modules\r\n*0\r\n").await;
    second.asks(&["PING"], "+PONG\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn scripts_errors_and_nested_answers() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    let nested = "return {1, false, 'x', {2, redis.error_reply('MY err')}}";
    let answer = "*4\r\n:1\r\n_\r\n$1\r\nx\r\n*2\r\n:2\r\n-MY err\r\n";
    raw.asks(&["EVAL", nested, "0"], answer).await;
    raw.asks(
        &["NONE", "a"],
        "-ERR unknown command 'NONE', with args beginning with: 'a' \r\n",
    )
    .await;
    let text = "return redis.call('set', KEYS[1], ARGV[1], 'nx') or redis.call('strlen', KEYS[1])";
    let sha1 = crate::lua::sha1_hex(text.as_bytes());
    let none = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    raw.asks(&["EVALSHA", &sha1, "1", "k", "a"], none).await;
    raw.asks(&["EVAL", text, "1", "k", "a"], "+OK\r\n").await;
    raw.asks(&["EVALSHA", &sha1, "1", "k", "b"], ":1\r\n").await;
    assert_eq!(redis.scripts_run()[&sha1], 2);
    assert_eq!(
        (
            redis.commands_run()["evalsha"],
            redis.commands_run()["eval"]
        ),
        (2, 2)
    );
    assert_eq!(redis.dump().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_and_messages() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let (mut raw, mut other) = (Raw::connect(&dialer).await, Raw::connect(&dialer).await);
    let a = ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
    let b = ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
    let again = ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n";
    raw.asks(&["SUBSCRIBE", "a", "b", "a"], &[a, b, again].concat())
        .await;
    other.asks(&["SUBSCRIBE", "a"], a).await;
    assert_eq!(
        redis.listeners(),
        [("a".to_owned(), 2), ("b".to_owned(), 1)].into()
    );
    let listening = control.listening();
    assert_eq!(
        listening
            .iter()
            .map(ConnectionControl::subscriptions)
            .collect::<Vec<_>>(),
        [2, 1]
    );
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    // Before the reply to the publisher, as in Redis.
    other
        .asks(&["PUBLISH", "a", "hi"], &format!("{message}:2\r\n"))
        .await;
    raw.hears(message).await;
    raw.asks(&["PING"], "+PONG\r\n").await;
    let left = ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n";
    let never = ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n";
    raw.asks(&["UNSUBSCRIBE", "a", "c"], &[left, never].concat())
        .await;
    let last = ">3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
    raw.asks(&["UNSUBSCRIBE"], last).await;
    raw.asks(&["UNSUBSCRIBE"], ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n")
        .await;
    assert_eq!(redis.command(&["PUBLISH", "a", "1"]), Ok(Reply::Int(1)));
    drop(other);
    settle().await;
    assert!(redis.listeners().is_empty());
    assert_eq!(redis.commands_run()["subscribe"], 2);
}

#[tokio::test(start_paused = true)]
async fn many_commands_at_once_are_answered_in_their_order() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    for number in 0..50 {
        raw.send(&["ECHO", &format!("n{number:02}")]).await;
    }
    for number in 0..50 {
        raw.hears(&format!("$3\r\nn{number:02}\r\n")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_is_an_error_and_ends_the_connection() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let garbage = [
        "+PING\r\n",
        "*1\r\n:1\r\n",
        "*x\r\n",
        "*-1\r\n",
        "*1\r\n$9999999999\r\n",
        "*1\r\n$1\r\nabc",
    ];
    for garbage in garbage {
        let mut raw = Raw::dial(&dialer).unwrap();
        raw.send_bytes(garbage.as_bytes()).await;
        let answer = String::from_utf8(raw.rest().await).unwrap();
        assert!(
            answer.starts_with("-ERR Protocol error: "),
            "{garbage:?}: {answer:?}"
        );
    }
}

/// Bytes that are not UTF-8 come back unchanged.
#[tokio::test(start_paused = true)]
async fn words_may_be_any_bytes() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    raw.send_bytes(b"*2\r\n$4\r\nECHO\r\n$5\r\n\x00\xff\r\n\x80\r\n*1\r\n$4\r\nQUIT\r\n")
        .await;
    assert_eq!(raw.rest().await, b"$5\r\n\x00\xff\r\n\x80\r\n+OK\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_client_may_bring_its_own_stream() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let (mut ours, theirs) = duplex(16);
    let client = async {
        ours.write_all(&[frame(&["SET", "k", "v"]), frame(&["QUIT"])].concat())
            .await
            .unwrap();
        let mut heard = String::new();
        ours.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "+OK\r\n+OK\r\n");
        drop(ours);
    };
    let ((), served) = tokio::join!(client, dialer.serve(theirs));
    served.unwrap();
    settle().await;
    assert_eq!(redis.dump().len(), 1);
    assert!(control.connections().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_engine_runs_pending_commands() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    redis.pause();
    raw.send(&["SET", "k", "v"]).await;
    let mut late = Raw::dial(&dialer).unwrap();
    late.send(&["PING"]).await;
    assert_eq!((raw.soon().await, late.soon().await), (vec![], vec![]));
    assert!(redis.dump().is_empty());
    redis.resume();
    raw.hears("+OK\r\n").await;
    late.hears("+PONG\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_drops_connections_and_their_pending_commands() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    raw.asks(
        &["SUBSCRIBE", "a"],
        ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
    )
    .await;
    raw.send(&["SET", "k", "v"]).await;
    redis.restart(Restart::WithData);
    assert_eq!(raw.rest().await, b"");
    settle().await;
    assert!(redis.dump().is_empty() && redis.listeners().is_empty());
    assert!(control.connections().is_empty());
    Raw::connect(&dialer)
        .await
        .asks(&["GET", "k"], "_\r\n")
        .await;
}

#[tokio::test(start_paused = true)]
async fn no_client_connects_while_the_engine_is_cut() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    redis.cut();
    assert_eq!(raw.rest().await, b"");
    let refused = Raw::dial(&dialer).err().expect("no connection");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    redis.heal();
    Raw::connect(&dialer).await;
}

#[tokio::test(start_paused = true)]
async fn connection_ends_with_its_engine() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    drop((redis, dialer));
    assert_eq!(raw.rest().await, b"");
    assert!(control.connections().is_empty());
}

#[test]
fn connection_ends_with_the_runtime_of_the_server() {
    let redis = Engine::new();
    let theirs = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let dialer = redis.dialer(theirs.handle());
    let mut raw = Raw::dial(&dialer).unwrap();
    drop(theirs);
    let ours = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(ours.block_on(raw.rest()), b"");
}
