//! Each setting of a blocking value is passed on to the async value inside.

use std::time::Duration;

use leasehold::blocking::Lock;
use leasehold::{ConfigError, Error, Lease, Owner};
use leasehold_testbed::{Bed, SOON, ms, wait_until};

use crate::harness::on_another_thread;

/// Longer than the default of half a minute.
const LONG: Duration = Duration::from_secs(300);

fn is_out_of_range<T>(refused: Result<T, Error>, setting: &str) {
    let error = refused.map(drop).expect_err(setting);
    let told = matches!(&error, Error::Config(ConfigError::OutOfRange { .. }));
    assert!(told, "{setting}: {error}");
}

/// Passes a bad value: that it is refused shows that it arrived.
pub(crate) fn every_setting_arrives(bed: &Bed) {
    let client = bed.blocking_client();
    let (bad, now) = (ms(9), Duration::ZERO);
    let try_now = |lock: Lock| lock.try_lock_now(Lease::Renewed);
    is_out_of_range(try_now(client.lock("x").with_lease(bad)), "lease");
    is_out_of_range(
        try_now(client.lock("x").with_safety_poll(bad)),
        "safety poll",
    );
    is_out_of_range(
        try_now(client.string_lock("x").with_retry_pause(now, bad)),
        "pause",
    );
    let counted = try_now(client.lock("x").with_retry_count(1)).unwrap_err();
    assert!(
        matches!(counted, Error::Config(ConfigError::Setting { .. })),
        "{counted}"
    );
    let catalogue = || client.read_write_lock("x");
    is_out_of_range(
        try_now(catalogue().with_lease(bad).read()),
        "lease of readers",
    );
    is_out_of_range(
        try_now(catalogue().with_lease(bad).write()),
        "lease of a writer",
    );
    is_out_of_range(
        try_now(catalogue().with_safety_poll(bad).read()),
        "safety poll of readers",
    );
    is_out_of_range(
        client.semaphore("s").with_lease(bad).try_acquire(1, now),
        "permits' lease",
    );
    is_out_of_range(
        client
            .semaphore("s")
            .with_safety_poll(bad)
            .try_acquire(1, now),
        "poll",
    );
    let seats = || client.permit_expirable_semaphore("p");
    let seat = |seats: leasehold::blocking::PermitExpirableSemaphore| {
        seats.try_acquire(1, now, Lease::Renewed)
    };
    is_out_of_range(seat(seats().with_lease(bad)), "lease of ids");
    is_out_of_range(seat(seats().with_safety_poll(bad)), "safety poll of ids");
    is_out_of_range(
        client.count_down_latch("l").with_safety_poll(bad).wait(now),
        "latch",
    );
    assert_eq!(client.stats().calls, 0);
    let once = client.lock("x").non_reentrant();
    let inner = once.run(SOON, Lease::Renewed, |_| once.try_lock_now(Lease::Renewed));
    assert!(matches!(inner.unwrap(), Err(Error::AlreadyHeld { .. })));
}

pub(crate) fn every_setting_of_an_acquisition_arrives(bed: &Bed) {
    let client = bed.blocking_client();
    let lock = client.lock("x");
    let guard = lock
        .acquire()
        .lease(Lease::Fixed(LONG))
        .purpose("the report")
        .lock()
        .unwrap();
    assert!(guard.remaining() > LONG / 2);
    let purpose = || lock.holder().unwrap().expect("held").purpose;
    wait_until("purpose shown", SOON, || {
        purpose().as_deref() == Some("the report")
    });
    let waited = lock.acquire().wait(ms(50)).lock().unwrap_err();
    assert!(waited.is_timeout(), "{waited}");
    let within = lock.acquire().within(&guard).lock().unwrap();
    assert_eq!(within.hold_count(), 2);
    within.unlock().unwrap();
    guard.unlock().unwrap();
    is_out_of_range(lock.acquire().max_hold(ms(9)).lock(), "max_hold");
    let guard = lock.acquire().unlock_not_before(SOON).lock().unwrap();
    guard.unlock().unwrap();
    assert!(bed.exists("x"), "it stays locked for a while");
}

pub(crate) fn an_owner_takes_both_sides_again(bed: &Bed) {
    let client = bed.blocking_client();
    let catalogue = client.read_write_lock("x").owned_by(&Owner::new());
    let writing = catalogue.write().lock().unwrap();
    let again = on_another_thread(|| catalogue.write().try_lock_now(Lease::Renewed).unwrap());
    assert_eq!(again.hold_count(), 2);
    let reading = catalogue
        .read()
        .try_lock_now(Lease::Renewed)
        .expect("its owner writes");
    let other = client
        .read_write_lock("x")
        .read()
        .try_lock_now(Lease::Renewed);
    assert!(other.unwrap_err().is_timeout(), "nobody else reads");
    for guard in [writing, again, reading] {
        guard.unlock().unwrap();
    }
}

pub(crate) fn a_quorum_is_held_on_every_server(bed: &Bed) {
    let others = [bed.another(), bed.another()];
    let clients: Vec<_> = others.iter().map(Bed::blocking_client).collect();
    let client = bed.blocking_client();
    let members = clients.iter().chain([&client]);
    let lock = leasehold::Lock::quorum(members.map(|client| client.as_async().string_lock("q")));
    let lock = client.blocking_lock(lock);
    // A server that answers much later than the others is left out. On a busy machine that may be any server.
    wait_until("held on every server", SOON, || {
        let guard = lock.lock().unwrap();
        let is_everywhere = others.iter().chain([bed]).all(|server| server.exists("q"));
        guard.unlock().unwrap();
        is_everywhere
    });
}

/// A thread of the blocking values drives the connections.
pub(crate) fn connections_outlive_the_last_blocking_value(bed: &Bed) {
    let client = bed.blocking_client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let session = client.as_async().clone();
    let lock = client.as_async().lock("x");
    drop(client);
    // Connections are closed soon after their thread has ended.
    for _ in 0..300 {
        runtime
            .block_on(async { lock.lock().await.unwrap().unlock().await })
            .unwrap();
    }
    assert_eq!(session.stats().reconnects, 0);
}
