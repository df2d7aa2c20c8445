//! What every kind of lock does, in the simplest form.

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, eventually, take_turn};

pub(crate) async fn a_lock_can_be_awaited(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").await.unwrap();
    bed.in_vain(async || client.lock("x").try_lock_now(Lease::Renewed).await)
        .await;
    guard.unlock().await.unwrap();

    let fenced = client.fenced_lock("f");
    let first = (&fenced).await.unwrap();
    let token = first.token();
    first.unlock().await.unwrap();
    assert!(fenced.await.unwrap().token() > token);

    let refused = client.lock("").await.unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused:?}");
}

pub(crate) async fn a_name_that_reads_like_another_kind_is_a_lock_of_its_own(bed: Bed) {
    let (client, elsewhere) = (bed.client_with_long_streaks().await, bed.client().await);
    let rival = elsewhere.read_write_lock("x").write().lock().await.unwrap();
    let mut guards = Vec::new();
    for kind in ["write lock", "read lock", "semaphore", "permit", "latch"] {
        guards.push(client.lock(format!("{kind} x")).lock().await.unwrap());
    }
    // Two waiters behind the rival, to which nothing of this client may be handed over.
    let lock = client.read_write_lock("x");
    let writing = tokio::spawn(async move { lock.write().lock().await });
    let lock = client.read_write_lock("x");
    let reading = tokio::spawn(async move { lock.read().lock().await });
    eventually("all queued", async || client.stats().waiting == 2).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    assert_eq!(client.stats().handed_over, 0);
    assert!(!writing.is_finished() && !reading.is_finished());
    rival.unlock().await.unwrap();
    for taking in [writing, reading] {
        take_turn("granted", taking).await;
    }
}
