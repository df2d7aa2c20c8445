//! The older dialect: no nulls, no maps and no pushes of their own.

use super::raw::client;
use super::{Engine, Raw};

const WELCOME: &str = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
    $5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n\
    $4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

#[tokio::test(start_paused = true)]
async fn hello_changes_the_protocol_both_ways() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let mut raw = Raw::dial(&dialer).unwrap();
    raw.asks(&["HELLO", "2"], WELCOME).await;
    raw.asks(&["GET", "none"], "$-1\r\n").await;
    let nested = ["EVAL", "return {false, {false}}", "0"];
    raw.asks(&nested, "*2\r\n$-1\r\n*1\r\n$-1\r\n").await;
    // Without a number, the protocol stays.
    raw.asks(&["HELLO"], WELCOME).await;
    raw.send(&["HELLO", "3"]).await;
    raw.frame_end("modules\r\n*0\r\n").await;
    raw.asks(&["GET", "none"], "_\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn subscribed_connection_carries_no_other_calls() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let (mut raw, mut other) = (Raw::dial(&dialer).unwrap(), Raw::connect(&dialer).await);
    raw.asks(&["HELLO", "2"], WELCOME).await;
    raw.asks(&["PING"], "+PONG\r\n").await;
    raw.asks(
        &["SUBSCRIBE", "a"],
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
    )
    .await;
    for refused in ["get", "auth", "hello"] {
        let only = format!(
            "-ERR Can't execute '{refused}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT \
             / RESET are allowed in this context\r\n"
        );
        raw.asks(&[&refused.to_uppercase(), "k"], &only).await;
    }
    raw.asks(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n").await;
    raw.asks(&["PING", "hi"], "*2\r\n$4\r\npong\r\n$2\r\nhi\r\n")
        .await;
    other.asks(&["PUBLISH", "a", "hi"], ":1\r\n").await;
    raw.hears("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n")
        .await;
    raw.asks(
        &["UNSUBSCRIBE"],
        "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n",
    )
    .await;
    raw.asks(
        &["UNSUBSCRIBE"],
        "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n",
    )
    .await;
    raw.asks(&["GET", "none"], "$-1\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn sharded_channels_are_channels_of_their_own() {
    let redis = Engine::new();
    let (dialer, _) = client(&redis);
    let (mut raw, mut other) = (Raw::connect(&dialer).await, Raw::connect(&dialer).await);
    raw.asks(
        &["SSUBSCRIBE", "a"],
        ">3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n",
    )
    .await;
    raw.asks(
        &["SUBSCRIBE", "b"],
        ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n",
    )
    .await;
    other.asks(&["PUBLISH", "a", "x"], ":0\r\n").await;
    other.asks(&["SPUBLISH", "b", "x"], ":0\r\n").await;
    other
        .asks(
            &["PUBSUB", "SHARDNUMSUB", "a", "b"],
            "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:0\r\n",
        )
        .await;
    other.asks(&["SPUBLISH", "a", "hi"], ":1\r\n").await;
    raw.hears(">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$2\r\nhi\r\n")
        .await;
    raw.asks(
        &["SUNSUBSCRIBE"],
        ">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n",
    )
    .await;
    assert_eq!(redis.listeners(), [("b".to_owned(), 1)].into());
}
