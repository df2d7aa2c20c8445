//! Every lock, semaphore and latch has its blocking calls.

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use leasehold::blocking::{
    Acquire, Client, CountDownLatch, ExpirablePermit, FencedLock, Guard, Lock,
    PermitExpirableSemaphore, ReadWriteLock, Semaphore, SemaphorePermit,
};
use leasehold::{Error, FencedGuard, Lease, Owner};
use leasehold_testbed::{Bed, SOON, ms};

use crate::exclusion::KINDS;

use crate::harness::{in_vain, on_another_thread, until_waiting};

const NOW: Duration = Duration::ZERO;

fn may_go_anywhere<T: Send + Sync + Debug + 'static>() {}

#[test]
fn every_type_may_be_sent_shared_and_printed() {
    may_go_anywhere::<(Client, Lock, Guard, Acquire<'static>)>();
    may_go_anywhere::<(FencedLock, Guard<FencedGuard>)>();
    may_go_anywhere::<(ReadWriteLock, CountDownLatch)>();
    may_go_anywhere::<(Semaphore, SemaphorePermit)>();
    may_go_anywhere::<(PermitExpirableSemaphore, ExpirablePermit)>();
}

pub(crate) fn every_kind_of_lock_is_taken_again_with_its_guard(bed: &Bed) {
    let (client, other) = (bed.blocking_client(), bed.blocking_client());
    for (kind, lock) in KINDS {
        let guard = lock(&client).try_lock(SOON, Lease::Renewed).unwrap();
        match guard.reenter() {
            Ok(further) => further.unlock().unwrap(),
            Err(Error::AlreadyHeld { .. }) if kind == "non-reentrant" => {}
            Err(error) => panic!("{kind}: {error}"),
        }
        in_vain(|| lock(&other).try_lock_now(Lease::Renewed));
        assert!(lock(&other).is_locked().unwrap(), "{kind}");
        guard.unlock().unwrap();
        assert!(!lock(&other).is_locked().unwrap(), "{kind}");
    }
}

pub(crate) fn readers_share_and_a_writer_is_alone(bed: &Bed) {
    let (one, other) = (bed.blocking_client(), bed.blocking_client());
    let reads = [&one, &one, &other].map(|client| {
        let lock = client.read_write_lock("x");
        lock.read().try_lock(SOON, Lease::Renewed).unwrap()
    });
    let catalogue = other.read_write_lock("x");
    in_vain(|| catalogue.write().try_lock_now(Lease::Renewed));
    thread::scope(|scope| {
        let writing = scope.spawn(|| catalogue.write().try_lock(SOON, Lease::Renewed));
        until_waiting(&other, 1);
        for read in reads {
            read.unlock().unwrap();
        }
        let writing = writing.join().unwrap().unwrap();
        let read = one.read_write_lock("x").read().try_lock_now(Lease::Renewed);
        assert!(read.unwrap_err().is_timeout());
        writing.unlock().unwrap();
    });
}

pub(crate) fn a_writer_goes_on_reading(bed: &Bed) {
    let (client, other) = (bed.blocking_client(), bed.blocking_client());
    let catalogue = client.read_write_lock("x");
    let writing = catalogue.write().lock().unwrap();
    let reading = catalogue.read().acquire().within(&writing).lock().unwrap();
    writing.unlock().unwrap();
    let theirs = other
        .read_write_lock("x")
        .read()
        .try_lock(SOON, Lease::Renewed)
        .unwrap();
    reading.unlock().unwrap();
    theirs.unlock().unwrap();
}

pub(crate) fn tokens_grow(bed: &Bed) {
    let client = bed.blocking_client();
    let lock: FencedLock = client.fenced_lock("x");
    let first = lock.lock().unwrap();
    let earlier = first.token();
    assert_eq!(first.reenter().unwrap().token(), earlier);
    first.unlock().unwrap();
    let second = lock.lock().unwrap();
    assert!(second.token() > earlier);
    client.set_fenced("y", second.token(), "late").unwrap();
    let stale = client.set_fenced("y", earlier, "stale");
    assert!(matches!(stale, Err(Error::StaleToken { .. })), "{stale:?}");
    second.unlock().unwrap();
}

pub(crate) fn several_locks_are_one(bed: &Bed) {
    let (client, other) = (bed.blocking_client(), bed.blocking_client());
    let shop = client.as_async();
    let both = leasehold::Lock::multi([shop.lock("a"), shop.fair_lock("b")]);
    let guard = client.blocking_lock(both).lock().unwrap();
    let lock = |name| other.lock(name).try_lock_now(Lease::Renewed);
    for name in ["a", "b"] {
        in_vain(|| lock(name));
    }
    guard.unlock().unwrap();
    let guard = lock("b").unwrap();
    let both = leasehold::Lock::multi(["a", "b"].map(|name| shop.lock(name)));
    in_vain(|| {
        client
            .blocking_lock(both.clone())
            .try_lock_now(Lease::Renewed)
    });
    assert!(!bed.exists("a"), "all of them or none");
    guard.unlock().unwrap();
}

/// A lock of the majority of the clients' servers, with blocking calls.
fn quorum(one: &Client, others: &[Client]) -> Lock {
    let clients = others.iter().chain([one]);
    one.blocking_lock(leasehold::Lock::quorum(
        clients.map(|client| client.as_async().string_lock("q")),
    ))
}

pub(crate) fn a_quorum_is_one_lock(bed: &Bed) {
    let others = [bed.another(), bed.another()];
    let clients = || {
        let others: Vec<_> = others.iter().map(Bed::blocking_client).collect();
        (bed.blocking_client(), others)
    };
    let (one, ones) = clients();
    let (two, twos) = clients();
    let lock = quorum(&one, &ones);
    // The lock still works when the blocking clients are gone.
    drop((one, ones));
    let guard = lock.try_lock(SOON, Lease::Renewed).unwrap();
    let lock = quorum(&two, &twos);
    assert!(lock.try_lock(ms(50), Lease::Renewed).is_err());
    guard.unlock().unwrap();
    lock.try_lock(SOON, Lease::Renewed)
        .unwrap()
        .unlock()
        .unwrap();
}

pub(crate) fn an_owner_takes_its_lock_again(bed: &Bed) {
    let client = bed.blocking_client();
    let owner = Owner::new();
    let outer = client.lock("x").owned_by(&owner).lock().unwrap();
    let inner = on_another_thread(|| client.lock("x").owned_by(&owner).lock().unwrap());
    assert_eq!(inner.hold_count(), 2);
    outer.unlock().unwrap();
    assert!(bed.exists("x"));
    inner.unlock().unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) fn permits_are_counted(bed: &Bed) {
    let client = bed.blocking_client();
    let encoders = client.semaphore("s");
    assert!(encoders.try_set_permits(2).unwrap());
    assert!(!encoders.try_set_permits(3).unwrap());
    let first = encoders.acquire(1).unwrap();
    let second = encoders.try_acquire(1, NOW).unwrap();
    in_vain(|| encoders.try_acquire(1, ms(50)));
    assert_eq!(first.run(|| encoders.available()).unwrap().unwrap(), 0);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| encoders.try_acquire(2, SOON));
        until_waiting(&client, 1);
        first.release().unwrap();
        drop(second);
        let both = waiting.join().unwrap().unwrap();
        assert_eq!(both.permits(), 2);
        both.guard().unwrap().check().unwrap();
        both.release().unwrap();
    });
    assert_eq!(encoders.available().unwrap(), 2);
    encoders.acquire(0).unwrap().run(|| ()).unwrap();
}

pub(crate) fn permits_with_ids_are_given_back_by_id(bed: &Bed) {
    let client = bed.blocking_client();
    let seats = client.permit_expirable_semaphore("p");
    assert!(seats.try_set_permits(3).unwrap());
    let row = seats.try_acquire(2, SOON, Lease::Renewed).unwrap();
    assert_eq!(row.ids().count(), 2);
    let seat = seats.acquire(1, Lease::Fixed(SOON)).unwrap();
    in_vain(|| seats.try_acquire(1, ms(50), Lease::Renewed));
    let id = seat.id().to_owned();
    seat.extend(SOON * 10).unwrap();
    seat.run(|| ()).unwrap();
    seat.guard().check().unwrap();
    seat.forget();
    assert!(seats.remaining_lease(&id).unwrap().unwrap() > SOON * 9);
    seats.release(&id).unwrap();
    assert!(matches!(seats.release(&id), Err(Error::NotOwner { .. })));
    row.release().unwrap();
    assert_eq!(seats.available().unwrap(), 3);
}

pub(crate) fn a_latch_lets_all_threads_go(bed: &Bed) {
    let (client, other) = (bed.blocking_client(), bed.blocking_client());
    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(2).unwrap());
    in_vain(|| latch.wait(ms(50)));
    thread::scope(|scope| {
        let waits = [(); 3].map(|()| scope.spawn(|| other.count_down_latch("l").wait(SOON)));
        until_waiting(&other, 3);
        assert_eq!(latch.count_down().unwrap(), 1);
        assert_eq!(latch.count_down().unwrap(), 0);
        for wait in waits {
            wait.join().unwrap().unwrap();
        }
    });
}

pub(crate) fn held_locks_are_reported(bed: &Bed) {
    let client = bed.blocking_client();
    client.ping().unwrap();
    let lock = client.lock("x");
    assert_eq!(lock.holder().unwrap(), None);
    let guard = lock.lock().unwrap();
    assert_eq!(lock.holder().unwrap().unwrap().owner, guard.owner());
    assert!(lock.remaining_lease().unwrap().is_some());
    assert_eq!(client.locks("*").unwrap().len(), 1);
    let report = client.block_on(client.as_async().preflight()).unwrap();
    assert_eq!(report.servers().count(), 1);
    guard.unlock().unwrap();
}
