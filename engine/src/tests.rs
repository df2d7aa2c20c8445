//! Commands of the engine that cannot be compared with a real server or need no connection.

use std::collections::BTreeSet;

use super::{Engine, Reply};

#[tokio::test(start_paused = true)]
async fn values_are_bytes() {
    let redis = Engine::new();
    let id: &[u8] = &[0, 255, 13, 10, 128];
    let add: [&[u8]; 4] = [b"zadd", b"z", b"1", id];
    assert_eq!(redis.command(&add), Ok(Reply::Int(1)));
    let text: &[u8] = b"return redis.call('zscore', KEYS[1], ARGV[1])";
    let read: [&[u8]; 5] = [b"eval", text, b"1", b"z", id];
    assert_eq!(redis.command(&read), Ok(Reply::Bulk(b"1".to_vec())));
    assert_eq!(redis.dump()[&b"z"[..]].content[0], id);
}

#[tokio::test(start_paused = true)]
async fn random_fields_are_distinct_and_each_field_is_drawn() {
    let redis = Engine::new();
    for number in 0..20 {
        redis
            .command(&["HSET", "h", &format!("f{number}"), "v"])
            .unwrap();
    }
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let Ok(Reply::Array(fields)) = redis.command(&["HRANDFIELD", "h", "8"]) else {
            panic!("no list");
        };
        let drawn: BTreeSet<_> = fields.iter().map(|field| format!("{field:?}")).collect();
        assert_eq!(drawn.len(), 8);
        seen.extend(drawn);
    }
    assert_eq!(seen.len(), 20);
}
