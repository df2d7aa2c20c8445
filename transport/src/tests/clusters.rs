//! Clusters in this process: their layouts, and how redirects end.

use futures::future::join_all;

use super::fakes::{Answer, Fakes, array, as_usual, bulk};
use super::*;

/// Keys in slot 3300 and in slot 15495.
const LOW: &str = "b";
const HIGH: &str = "a";

fn owner(first: u16, last: u16, host: &str, port: u16) -> String {
    let node = array(&[bulk(host), format!(":{port}\r\n"), bulk("id")]);
    array(&[format!(":{first}\r\n"), format!(":{last}\r\n"), node])
}

fn info(epoch: u64) -> String {
    bulk(&format!(
        "cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n"
    ))
}

/// A cluster of one node with all slots. `answers` is asked first for each command.
fn one_node(mut answers: impl FnMut(&[String]) -> Option<Answer> + Send + 'static) -> Fakes {
    Fakes::new(move |_, words| {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        if let Some(answer) = answers(words) {
            return answer;
        }
        match (word(0), word(1)) {
            ("CLUSTER", "SLOTS") => Answer::Reply(array(&[owner(0, 16_383, "n1", 1)])),
            ("CLUSTER", "INFO") => Answer::Reply(info(1)),
            _ => as_usual(words),
        }
    })
}

fn is_script(words: &[String]) -> bool {
    words.first().is_some_and(|word| word.starts_with("EVAL"))
}

/// The outcome of a call whose script is answered `first`, and then `later`.
async fn outcome_of(first: &'static str, later: &'static str) -> Result<Value, CallError> {
    let mut scripts = 0;
    let fakes = one_node(move |words| {
        scripts += usize::from(is_script(words));
        is_script(words).then(|| Answer::Reply(if scripts == 1 { first } else { later }.to_owned()))
    });
    let (redis, _) = fakes
        .open("redis-cluster://n1:1", IfUnreachable::Fail)
        .await
        .unwrap();
    redis.call(Lane::Caller, add(LOW)).await
}

const BEGUN: &str =
    "-ERR Script attempted to access a non local key in a cluster node script: f\r\n";

/// All seeds are asked at once, so a dead or silent one costs no time.
#[tokio::test(start_paused = true)]
async fn seeds_that_do_not_answer_delay_no_start() {
    let whole = one_node(|_| None);
    let fakes = Fakes::new(move |address, words| match address {
        "dead:1" => Answer::End,
        "silent:1" => Answer::Silence,
        _ => whole.answer(address, words),
    });
    let start = Instant::now();
    let url = "redis-cluster://dead:1,silent:1,silent:1,[::1]:7";
    let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    assert!(start.elapsed() < SECOND / 10, "{:?}", start.elapsed());
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, Ok(Value::Nil));
    assert_eq!(fakes.dialled("[::1]:7"), 1);
}

/// The attempts to reach it begin later than the limit of `connect`.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_silent_is_the_cause() {
    let mut dials = 0;
    let whole = one_node(|_| None);
    let fakes = Fakes::new(move |address, words| {
        dials += usize::from(words.is_empty());
        // The first connection asks for the layout.
        if dials > 1 {
            return Answer::Silence;
        }
        whole.answer(address, words)
    });
    let refused = fakes
        .open("redis-cluster://n1:1", IfUnreachable::Fail)
        .await;
    connecting::assert_not_applied(&refused.map(drop).unwrap_err(), "redis://n1:1: no answer");
}

/// The script may have written before it missed the key, whatever the last attempt answers.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_stopped_in_its_middle_is_never_called_not_applied() {
    let nowhere = [
        "-CLUSTERDOWN Hash slot not served\r\n",
        "-TRYAGAIN Multiple keys\r\n",
    ];
    for later in nowhere {
        let outcome = outcome_of(BEGUN, later).await;
        assert!(
            matches!(outcome, Err(CallError::Unknown(_))),
            "{later}: {outcome:?}"
        );
        let outcome = outcome_of("-TRYAGAIN Multiple keys\r\n", later).await;
        assert!(
            matches!(outcome, Err(CallError::NotApplied(_))),
            "{later}: {outcome:?}"
        );
    }
    let outcome = outcome_of(BEGUN, BEGUN).await;
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    let outcome = outcome_of(BEGUN, ":7\r\n").await;
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    assert_eq!(
        outcome_of("-TRYAGAIN Multiple keys\r\n", ":7\r\n").await,
        Ok(Value::Int(7))
    );
}

/// Other clients publish releases within the shard, where this client would miss them.
#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_decide_how_releases_are_published() {
    let (mut asked, mut is_owed) = (0, false);
    let fakes = one_node(move |words| match words.first().map(String::as_str) {
        Some("PUBSUB") => {
            asked += 1;
            is_owed = asked == 1;
            is_owed.then_some(Answer::Silence)
        }
        // The late answer, followed by the one to the next question.
        Some("CLUSTER") if std::mem::take(&mut is_owed) => {
            let slots = array(&[owner(0, 16_383, "n1", 1)]);
            Some(Answer::Reply(format!("*0\r\n{slots}")))
        }
        _ => None,
    });
    let (redis, _) = fakes
        .open("redis-cluster://n1:1", IfUnreachable::RetryLater)
        .await
        .unwrap();
    let deadline = Instant::now() + SECOND * 60;
    while let Err(error) = redis.call(Lane::Caller, add(LOW)).await {
        assert!(Instant::now() < deadline, "{error:?}");
        sleep(SECOND / 10).await;
    }
    assert_eq!(redis.publish_command(|| LOW, LOW), "SPUBLISH");
    let old = one_node(|words| {
        let is_question = words.first().is_some_and(|word| word == "PUBSUB");
        is_question.then(|| Answer::Reply("-ERR Unknown PUBSUB subcommand\r\n".to_owned()))
    });
    let (redis, _) = old
        .open("redis-cluster://n1:1", IfUnreachable::Fail)
        .await
        .unwrap();
    assert_eq!(redis.publish_command(|| LOW, LOW), "PUBLISH");
}

/// Two nodes. The first one is replaced by a third one, while nobody knows the address of the
/// second.
fn failing_over(has_failed_over: Arc<AtomicUsize>) -> Fakes {
    Fakes::new(move |address, words| {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let failed_over = has_failed_over.load(Ordering::SeqCst) > 0;
        match (address, word(0), word(1)) {
            ("n1:1", ..) if failed_over => Answer::End,
            (_, "CLUSTER", "SLOTS") if failed_over => Answer::Reply(array(&[
                owner(0, 8_191, "n3", 3),
                owner(8_192, 16_383, "", 0),
            ])),
            (_, "CLUSTER", "SLOTS") => Answer::Reply(array(&[
                owner(0, 8_191, "n1", 1),
                owner(8_192, 16_383, "n2", 2),
            ])),
            (_, "CLUSTER", "INFO") => Answer::Reply(info(1 + u64::from(failed_over))),
            (_, "EVALSHA", _) => Answer::Reply(bulk(address)),
            _ => as_usual(words),
        }
    })
}

/// No node knew the new owner for a long time. Once the election is over, a call must not wait in
/// vain.
#[tokio::test(start_paused = true)]
async fn a_failover_is_followed_before_a_call_gives_up() {
    for _ in 0..20 {
        let has_failed_over = Arc::new(AtomicUsize::new(0));
        let (is_down, failed_over) = (Arc::new(AtomicUsize::new(0)), has_failed_over.clone());
        let (down, before) = (is_down.clone(), failing_over(Arc::default()));
        let after = failing_over(Arc::new(AtomicUsize::new(1)));
        let fakes = Fakes::new(move |address, words| match address {
            _ if failed_over.load(Ordering::SeqCst) > 0 => after.answer(address, words),
            "n1:1" if down.load(Ordering::SeqCst) > 0 => Answer::End,
            _ => before.answer(address, words),
        });
        let url = "redis-cluster://n1:1,n2:2";
        let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
        is_down.store(1, Ordering::SeqCst);
        for _ in 0..1_000 {
            redis
                .call(Lane::Caller, add(LOW))
                .await
                .expect_err("the node is down");
            sleep(SECOND / 100).await;
        }
        has_failed_over.store(1, Ordering::SeqCst);
        let since = Instant::now();
        while redis.call(Lane::Caller, add(LOW)).await.is_err() {
            assert!(
                since.elapsed() < TIMING.command,
                "the failover was not followed"
            );
            sleep(SECOND / 100).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_address_does_not_hide_a_failover() {
    let has_failed_over = Arc::new(AtomicUsize::new(0));
    let fakes = failing_over(has_failed_over.clone());
    let url = "redis-cluster://n1:1,n2:2,n3:3";
    let (redis, events) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    let answer = |text: &str| Ok(Value::Text(text.to_owned()));
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, answer("n1:1"));
    has_failed_over.store(1, Ordering::SeqCst);
    let deadline = Instant::now() + SECOND * 60;
    while redis.call(Lane::Caller, add(LOW)).await != answer("n3:3") {
        assert!(Instant::now() < deadline, "the failover was not followed");
        sleep(SECOND / 10).await;
    }
    assert_eq!(events.switched.load(Ordering::SeqCst), 1);
    // The slots of the node without an address keep their owner.
    assert_eq!(redis.call(Lane::Caller, add(HIGH)).await, answer("n2:2"));
    // A new client knows at least the other half of the slots.
    let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, answer("n3:3"));
    let unserved = redis.call(Lane::Caller, add(HIGH)).await;
    assert!(
        matches!(unserved, Err(CallError::NotApplied(_))),
        "{unserved:?}"
    );
}

/// A known complaint: 150,000 requests for one lock in five seconds to a server that answers MOVED,
/// and "MOVED redirection loop detected" for calls long after that.
#[tokio::test(start_paused = true)]
async fn a_node_that_sends_everybody_to_itself_is_asked_with_pauses() {
    /// The first send of a call, and five after a redirect.
    const SENDS: usize = 6;
    /// The pauses of one call between its sends: 2, 4, 8, 16 and 32 ms.
    const PAUSES: Duration = Duration::from_millis(62);
    const CALLERS: usize = 7;

    let [is_wrong, scripts, layouts] = [(); 3].map(|()| Arc::<AtomicUsize>::default());
    let (wrong, sent, asked) = (is_wrong.clone(), scripts.clone(), layouts.clone());
    let fakes = one_node(move |words| {
        asked.fetch_add(
            words
                .starts_with(&["CLUSTER".into(), "SLOTS".into()])
                .into(),
            Ordering::SeqCst,
        );
        let is_misled = is_script(words) && wrong.load(Ordering::SeqCst) > 0;
        sent.fetch_add(is_misled.into(), Ordering::SeqCst);
        is_misled.then(|| Answer::Reply("-MOVED 3300 n1:1\r\n".to_owned()))
    });
    let url = "redis-cluster://n1:1";
    let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    is_wrong.store(1, Ordering::SeqCst);
    layouts.store(0, Ordering::SeqCst);
    let since = Instant::now();
    let callers = (0..CALLERS).map(async |_| {
        let mut calls = 0;
        while since.elapsed() < 2 * SECOND {
            let refused = redis.call(Lane::Caller, add(LOW)).await.unwrap_err();
            connecting::assert_not_applied(&refused, "last by redis://n1:1: MOVED");
            calls += 1;
            sleep(SECOND / 1_000).await;
        }
        calls
    });
    let calls: usize = join_all(callers).await.into_iter().sum();
    let times = |pause: Duration| {
        let times = since.elapsed().as_millis() / pause.as_millis() + 1;
        usize::try_from(times).unwrap()
    };
    assert_eq!(scripts.load(Ordering::SeqCst), calls * SENDS);
    assert!(calls <= CALLERS * times(PAUSES), "{calls} calls");
    let asked = layouts.load(Ordering::SeqCst);
    assert!(
        asked <= times(SECOND / 40),
        "{asked} questions for the layout"
    );

    is_wrong.store(0, Ordering::SeqCst);
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, Ok(Value::Nil));
}

/// Each address becomes a node whose connections are retried.
#[tokio::test(start_paused = true)]
async fn a_node_that_names_ever_new_addresses_costs_no_more_than_some() {
    const ADDRESSES: usize = 100;
    // How many nodes that no layout names are kept.
    const MOST: usize = 16;

    let named = Arc::<AtomicUsize>::default();
    let (next, whole) = (named.clone(), one_node(|_| None));
    let fakes = Fakes::new(move |address, words| {
        if address != "n1:1" {
            return Answer::Silence;
        }
        if is_script(words) && next.load(Ordering::SeqCst) < ADDRESSES {
            let other = next.fetch_add(1, Ordering::SeqCst);
            return Answer::Reply(format!("-MOVED 3300 silent{other}:1\r\n"));
        }
        whole.answer(address, words)
    });
    let url = "redis-cluster://n1:1";
    let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    let calls = (0..ADDRESSES).map(|_| redis.call(Lane::Caller, add(LOW)));
    for outcome in join_all(calls).await {
        outcome.expect_err("misled");
    }
    assert_eq!(named.load(Ordering::SeqCst), ADDRESSES);
    fakes.forget_dialled();
    sleep(SECOND * 10).await;
    let kept = fakes.all_dialled();
    assert!((1..=1 + MOST).contains(&kept.len()), "{kept:?}");
    let deadline = Instant::now() + SECOND * 10;
    while let Err(error) = redis.call(Lane::Caller, add(LOW)).await {
        assert!(Instant::now() < deadline, "{error:?}");
        sleep(SECOND / 100).await;
    }
}
