use super::*;

const LEASE: Duration = Duration::from_secs(30);

fn texts(words: &[&str]) -> Value {
    Value::Array(
        words
            .iter()
            .map(|&word| Value::Text(word.to_owned()))
            .collect(),
    )
}

fn state(down_after: u64, others: u64, up: &str) -> SentinelState {
    let (down_after, others) = (down_after.to_string(), others.to_string());
    let master = [
        "down-after-milliseconds",
        &down_after,
        "failover-timeout",
        "5000",
    ];
    let votes = ["num-other-sentinels", &others, "quorum", "2"];
    let described = texts(&[&master[..], &votes].concat());
    SentinelState::of(&[described], &[Value::Text(up.to_owned())])
}

#[test]
fn the_largest_number_of_any_sentinel_counts() {
    let slow = texts(&[
        "down-after-milliseconds",
        "9000",
        "num-other-sentinels",
        "2",
    ]);
    let fast = texts(&["down-after-milliseconds", "1000", "quorum", "2"]);
    let up = [
        "NOQUORUM 1 usable Sentinels. Not enough",
        "OK 3 usable Sentinels. Quorum",
    ];
    let up = up.map(|text| Value::Text(text.to_owned()));
    let found = SentinelState::of(&[slow, fast], &up);
    assert_eq!(
        (found.known, found.usable, found.needed()),
        (Some(3), Some(3), Some(2))
    );
    assert_eq!(found.failover(), Some(Duration::from_secs(12)));
}

#[test]
fn what_a_sentinel_refuses_is_unknown_and_not_met() {
    let refusal = || {
        [Value::Text(
            "NOPERM this user has 0 usable rights".to_owned(),
        )]
    };
    let found = SentinelState::of(&refusal(), &refusal());
    assert_eq!(found, SentinelState::default());
    assert!(
        found
            .obstacle(LEASE)
            .is_some_and(|text| text.contains("unknown"))
    );
}

#[test]
fn a_number_of_sentinels_too_large_to_count_does_not_fail() {
    let found = state(1000, u64::MAX, "OK 3 usable Sentinels.");
    assert_eq!(found.known, Some(u64::MAX));
    assert!(
        found
            .obstacle(LEASE)
            .is_some_and(|text| text.contains("3 sentinels are up"))
    );
}

#[test]
fn a_failover_may_take_two_thirds_of_the_lease() {
    let up = "OK 3 usable Sentinels.";
    assert_eq!(state(17_000, 2, up).obstacle(LEASE), None);
    assert!(state(17_001, 2, up).obstacle(LEASE).is_some());
    let late = state(18_000, 2, up).obstacle(LEASE).expect("too late");
    assert_eq!(late, "takes about 21.0s, and a hold has 20.0s left");
    let cluster = |timeout| ClusterState {
        node_timeout: Some(Duration::from_millis(timeout)),
        ..ClusterState::default()
    };
    assert_eq!(cluster(12_000).failover(), Some(time_left(LEASE)));
    assert_eq!(ClusterState::default().failover(), None);
}

#[test]
fn a_quorum_or_a_majority_may_be_missing() {
    let obstacle = |others, up| state(1000, others, up).obstacle(LEASE).unwrap_or_default();
    assert_eq!(
        obstacle(0, "NOQUORUM 1 usable Sentinels."),
        "1 sentinels are up, and a failover needs 2"
    );
    assert_eq!(
        obstacle(4, "NOQUORUM 2 usable Sentinels."),
        "2 sentinels are up, and a failover needs 3"
    );
    assert_eq!(obstacle(4, "OK 3 usable Sentinels."), "");
}
