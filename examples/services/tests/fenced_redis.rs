//! A value in Redis refuses whoever was paused beyond its lease, and nobody else.

use leasehold::FencingToken;
use leasehold_examples::{FencedError, FencedValue};
use leasehold_testbed::Server;

use crate::process::Process;

const KEY: &str = "example:report:latest";

#[test]
fn a_paused_holder_does_not_overwrite_what_the_next_one_wrote() {
    let server = Server::start();
    let mut program = Process::start(env!("CARGO_BIN_EXE_fenced_redis"), &server, &[]);
    assert!(program.ended().success(), "{:#?}", program.lines());
    let written = server.command(&["HGET", KEY, "value"]);
    assert_eq!(written.text(), "the quick one, mended");
    assert_eq!(server.command(&["HGET", KEY, "token"]).int(), 2);
    assert_eq!(program.count_with("is stale"), 1);
}

#[tokio::test]
async fn equal_and_later_tokens_pass_and_earlier_ones_do_not() {
    let server = Server::start();
    let value = FencedValue::open(&server.url(), KEY).await.unwrap();
    let token = FencingToken::from_value;
    let is_stale = |refused: FencedError| matches!(refused, FencedError::Stale(_));
    assert_eq!(value.get(token(2)).await.unwrap(), "");
    // Whoever has read is not overtaken by an earlier one.
    assert!(is_stale(value.set(token(1), "early").await.unwrap_err()));
    for (number, text) in [(2, "a"), (2, "b"), (10, "c"), ((1 << 53) - 1, "d")] {
        value.set(token(number), text).await.unwrap();
        assert_eq!(value.get(token(number)).await.unwrap(), text);
        assert!(is_stale(
            value.set(token(number - 1), "late").await.unwrap_err()
        ));
        assert!(is_stale(value.get(token(number - 1)).await.unwrap_err()));
        assert_eq!(server.command(&["HGET", KEY, "value"]).text(), text);
    }
}
