//! Who holds a lock and what for, and who waits for it.

use leasehold::inspect::Holder;
use leasehold::{Client, ConfigError, Error, Lease, Lock};
use leasehold_testbed::{Bed, KINDS, eventually, ms, timed, waiting};
use tokio::task::JoinSet;

/// The kinds that are a single lock, with one holder to report.
fn single_kinds() -> impl Iterator<Item = &'static leasehold_testbed::Kind> {
    KINDS.iter().filter(|kind| kind.is_single())
}

async fn billing(bed: &Bed) -> Client {
    let builder = bed.builder().name("billing@pod-7").describe_holds();
    builder.connect().await.expect("a client")
}

async fn holder(lock: &Lock) -> Holder {
    lock.holder().await.unwrap().expect("held")
}

/// Waits until the lock has this purpose.
async fn purpose(lock: &Lock, expected: Option<&str>) {
    let told = async || {
        let holder = holder(lock).await;
        holder.held_for.is_some() && holder.purpose.as_deref() == expected
    };
    eventually("purpose shown", told).await;
}

fn key(name: &str) -> String {
    format!("leasehold_holders:{{{name}}}")
}

pub(crate) async fn a_holder_shows_its_name_and_purpose(bed: Bed) {
    let (teller, other) = (billing(&bed).await, bed.client().await);
    for kind in single_kinds() {
        let lock = kind.lock(&teller, kind.name);
        let guard = lock.acquire().purpose("nightly invoices").await.unwrap();
        let seen = kind.lock(&other, kind.name);
        purpose(&seen, Some("nightly invoices")).await;
        let told = holder(&seen).await;
        assert_eq!(
            (&*told.owner, told.holds),
            (guard.owner(), 1),
            "{}",
            kind.name
        );
        assert_eq!(told.name.as_deref(), Some("billing@pod-7"));
        assert_eq!(told.to_string(), "billing@pod-7 (nightly invoices)");
        assert!(told.held_for.is_some());
        // The description lasts no longer than the lock.
        let left = bed.left(&key(kind.name));
        assert!(left > 0 && left <= 30_000, "{}: {left}", kind.name);
        guard.unlock().await.unwrap();

        // The next holder does not inherit the description.
        let guard = kind.lock(&other, kind.name).lock().await.unwrap();
        let told = holder(&seen).await;
        assert_eq!(
            (told.name, told.purpose, told.held_for),
            (None, None, None),
            "{}",
            kind.name
        );
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn a_client_that_describes_its_holds_needs_no_purpose(bed: Bed) {
    let (teller, other) = (billing(&bed).await, bed.client().await);
    let guard = teller.lock("x").lock().await.unwrap();
    purpose(&other.lock("x"), None).await;
    assert_eq!(
        holder(&other.lock("x")).await.name.as_deref(),
        Some("billing@pod-7")
    );
    // A hold with a purpose does not need a client name.
    let named = other.lock("y").acquire().purpose("backup").await.unwrap();
    purpose(&teller.lock("y"), Some("backup")).await;
    assert_eq!(holder(&teller.lock("y")).await.name, None);
    named.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_description_lasts_as_long_as_the_renewals(bed: Bed) {
    let lease = bed.lease(300);
    let teller = bed.client_with_lease(lease).await;
    let lock = teller.lock("x");
    let guard = lock.acquire().purpose("long").await.unwrap();
    purpose(&lock, Some("long")).await;
    // Somebody deletes the description, and a renewal restores it.
    bed.command(&["DEL", &key("x")]);
    purpose(&lock, Some("long")).await;
    let renewed = teller.stats().renewed;
    eventually("three renewals", async || {
        teller.stats().renewed >= renewed + 3
    })
    .await;
    purpose(&lock, Some("long")).await;
    let told = holder(&lock).await.held_for.unwrap();
    assert!(
        told >= lease / 3,
        "since its grant, not since a renewal: {told:?}"
    );
    // Without its lock, a description means nothing.
    bed.command(&["DEL", "x"]);
    timed("lost", guard.ended()).await;
    bed.until_gone(&key("x")).await;
}

pub(crate) async fn a_permanent_lock_is_described(bed: Bed) {
    let teller = bed.client_with_lease(bed.lease(300)).await;
    let lock = teller.lock("x");
    let guard = lock.acquire().purpose("long").await.unwrap();
    purpose(&lock, Some("long")).await;
    bed.command(&["PERSIST", "x"]);
    bed.command(&["DEL", &key("x")]);
    purpose(&lock, Some("long")).await;
    assert!(bed.left(&key("x")) > 0, "it is forgotten some day");
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_hold_that_was_handed_over_has_its_own_purpose(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lock = client.lock("x");
    let first = lock.acquire().purpose("first").await.unwrap();
    purpose(&lock, Some("first")).await;
    let second = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().purpose("second").await }
    });
    waiting(&client, 1).await;
    let third = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    waiting(&client, 2).await;
    first.unlock().await.unwrap();
    let second = second.await.unwrap().unwrap();
    purpose(&lock, Some("second")).await;
    second.unlock().await.unwrap();
    let third = third.await.unwrap().unwrap();
    // The new hold has no purpose, and that of the former one is gone.
    purpose(&lock, None).await;
    third.unlock().await.unwrap();
    assert!(client.stats().handed_over >= 2);
}

pub(crate) async fn a_time_out_with_a_purpose_says_who_is_in_the_way(bed: Bed) {
    let (teller, other) = (billing(&bed).await, bed.client().await);
    for kind in single_kinds().filter(|kind| kind.exclusive) {
        let lock = kind.lock(&teller, kind.name);
        let guard = lock.acquire().purpose("nightly invoices").await.unwrap();
        let asking = kind.lock(&other, kind.name);
        purpose(&asking, Some("nightly invoices")).await;
        for wait in [ms(0), ms(60)] {
            let ask = async || asking.acquire().wait(wait).purpose("mine").await;
            let error = bed.in_vain_told(ask).await;
            let text = error.to_string();
            assert!(
                text.contains("holder=`billing@pod-7 (nightly invoices)`"),
                "{text}"
            );
            let Error::Timeout {
                in_the_way: Some(holder),
                ..
            } = error
            else {
                panic!("{text}")
            };
            assert!(!holder.is_this_client, "{text}");
            assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1));
            // Without a purpose, only a caller that has waited asks for the holder.
            let ask = async || asking.try_lock(wait, Lease::Renewed).await;
            let has_waited = !wait.is_zero();
            let error = if has_waited {
                bed.in_vain_told(ask).await
            } else {
                bed.in_vain(ask).await
            };
            let Error::Timeout { in_the_way, .. } = &error else {
                panic!("{error}")
            };
            let told = in_the_way
                .as_ref()
                .and_then(|holder| holder.purpose.as_deref());
            let expected = has_waited.then_some("nightly invoices");
            assert_eq!(told, expected, "{}: {error}", kind.name);
        }
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn a_client_without_descriptions_pays_nothing(bed: Bed) {
    let client = bed.client_without_polls().await;
    let lock = client.lock("x");
    // The first call may have to load the script.
    lock.lock().await.unwrap().unlock().await.unwrap();
    let (before, sent) = (bed.calls(), client.stats().calls);
    for _ in 0..10 {
        lock.lock().await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(
        (bed.calls() - before, client.stats().calls - sent),
        (20, 20)
    );
    assert!(!bed.exists(&key("x")));

    let sent = client.stats().calls;
    let guard = lock.acquire().purpose("one more").await.unwrap();
    purpose(&lock, Some("one more")).await;
    guard.unlock().await.unwrap();
    // The calls that checked the description come on top.
    assert!(client.stats().calls >= sent + 4);
}

pub(crate) async fn a_purpose_that_cannot_be_stored_is_refused(bed: Bed) {
    let client = bed.client().await;
    let sent = client.stats().calls;
    for bad in ["", "two\nlines", "a\0", &"x".repeat(257), "\u{7f}"] {
        let refused = client.lock("x").acquire().purpose(bad).await.unwrap_err();
        let Error::Config(ConfigError::OutOfRange {
            what: "purpose",
            given,
            ..
        }) = &refused
        else {
            panic!("{refused}")
        };
        assert!(given.len() <= 256 && !given.contains('\n'), "{given}");
    }
    // No extra key would be in its slot.
    let refused = client
        .string_lock("a{b")
        .acquire()
        .purpose("x")
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused}");
    // Neither is a lock with several members, whose members are not asked.
    let members = || {
        [
            client.string_lock("a"),
            client.string_lock("a{b"),
            client.string_lock("c"),
        ]
    };
    for several in [Lock::multi(members()), Lock::quorum(members())] {
        let refused = several
            .acquire()
            .wait(ms(0))
            .purpose("x")
            .await
            .unwrap_err();
        assert!(matches!(refused, Error::Config(_)), "{refused}");
    }
    assert_eq!(client.stats().calls, sent);
    let guard = client
        .lock("x")
        .acquire()
        .purpose("é".repeat(128))
        .await
        .unwrap();
    purpose(&client.lock("x"), Some(&*"é".repeat(128))).await;
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_key_of_another_kind_in_its_place_harms_nobody(bed: Bed) {
    let client = billing(&bed).await;
    bed.command(&["SET", &key("x"), "no hash"]);
    let guard = client.lock("x").lock().await.unwrap();
    let lock = client.lock("x");
    // The description of the second hold is written after that of the first.
    let second = client.lock("y").acquire().purpose("later").await.unwrap();
    purpose(&client.lock("y"), Some("later")).await;
    second.unlock().await.unwrap();
    let told = holder(&lock).await;
    assert_eq!((&*told.owner, told.name), (guard.owner(), None));
    guard.unlock().await.unwrap();
    assert_eq!(bed.command(&["GET", &key("x")]), "no hash");
}

/// Anybody may write to the key. Text that could harm a server, a connection, a terminal or a log
/// is not passed on.
pub(crate) async fn foreign_text_in_a_description_is_not_passed_on(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    let say = |text: &str| drop(bed.command(&["HSET", &key("x"), guard.owner(), text]));
    let told = async || {
        let held = holder(&lock).await;
        (held.name, held.purpose)
    };
    say("1\nbilling\nnightly");
    assert_eq!(
        told().await,
        (Some("billing".into()), Some("nightly".into()))
    );
    say("1\nbilling\x1b[2J\nnight\nly");
    assert_eq!(told().await, (None, None));
    say(&format!("1\nbilling\n{}", "x".repeat(257)));
    assert_eq!(told().await, (Some("billing".into()), None));
    say(&format!("1\nbilling\n{}", "x".repeat(5000)));
    assert_eq!(told().await, (None, None));
    say("1\nbilling\nnightly");
    for number in 0..64 {
        bed.command(&["HSET", &key("x"), &format!("other:{number}"), "1\na\nb"]);
    }
    assert_eq!(
        told().await,
        (None, None),
        "of more owners than are described"
    );
    // A foreign key stays as it is, and the lock is no longer described.
    let teller = client.lock("y").acquire().purpose("first").await.unwrap();
    purpose(&client.lock("y"), Some("first")).await;
    teller.unlock().await.unwrap();
    guard.unlock().await.unwrap();
    let guard = lock.acquire().purpose("mine").await.unwrap();
    let later = client.lock("y").acquire().purpose("later").await.unwrap();
    purpose(&client.lock("y"), Some("later")).await;
    assert_eq!(bed.number(&["HLEN", &key("x")]), 65);
    later.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

pub(crate) async fn waiters_are_listed(bed: Bed) {
    let (client, other, third) = (bed.client().await, bed.client().await, bed.client().await);
    let (plain, fair) = (client.lock("plain"), client.fair_lock("fair"));
    let guards = [plain.lock().await.unwrap(), fair.lock().await.unwrap()];
    let waiters = plain.waiters().await.unwrap();
    assert_eq!((waiters.queue.len(), waiters.listening), (0, Some(0)));
    let waiters = fair.waiters().await.unwrap();
    assert_eq!((waiters.queue.len(), waiters.listening), (0, None));

    let mut tasks = JoinSet::new();
    for waiter in [&other, &other, &third] {
        let lock = waiter.lock("plain");
        tasks.spawn(async move { lock.lock().await });
    }
    // Each client listens once, however many of its tasks wait.
    let listening = async || plain.waiters().await.unwrap().listening == Some(2);
    eventually("two clients listen", listening).await;

    for (at, waiter) in [&other, &third, &other].into_iter().enumerate() {
        let lock = waiter.fair_lock("fair");
        tasks.spawn(async move { lock.lock().await });
        let queued = async || fair.waiters().await.unwrap().queue.len() == at + 1;
        eventually("in the queue", queued).await;
    }
    let queue = fair.waiters().await.unwrap().queue;
    let of: Vec<_> = queue
        .iter()
        .map(|owner| owner.split(':').next().unwrap())
        .collect();
    let ids = [&other, &third, &other].map(Client::id);
    assert_eq!(of, ids.each_ref().map(ToString::to_string));

    for polling in [client.spin_lock("s"), client.string_lock("t")] {
        assert_eq!(polling.waiters().await.unwrap().listening, None);
    }
    let several = Lock::multi(["a", "b"].map(|name| client.lock(name)))
        .waiters()
        .await
        .unwrap_err();
    assert!(matches!(
        several,
        Error::Config(ConfigError::Several { call: "waiters" })
    ));
    tasks.shutdown().await;
    drop(guards);
}
