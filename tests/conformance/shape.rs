//! What the types promise to whoever stores, sends and shares them.

use std::fmt::Debug;
use std::time::Duration;

use leasehold::{
    Client, ClientBuilder, EmbeddedRedis, Error, HoldHandle, Lock, LockGuard, Owner, Stats,
};

fn may_go_anywhere<T: Send + Sync + Debug + 'static>() {}

fn may_be_sent<T: Send>(value: T) -> T {
    value
}

#[test]
fn every_type_may_be_sent_shared_and_printed() {
    may_go_anywhere::<Client>();
    may_go_anywhere::<ClientBuilder>();
    may_go_anywhere::<EmbeddedRedis>();
    may_go_anywhere::<Error>();
    may_go_anywhere::<HoldHandle>();
    may_go_anywhere::<Lock>();
    may_go_anywhere::<LockGuard>();
    may_go_anywhere::<Owner>();
    may_go_anywhere::<Stats>();
}

#[tokio::test(start_paused = true)]
async fn every_future_may_be_sent() {
    let client = EmbeddedRedis::new().client();
    let mut lock = client.lock("x");
    let guard = may_be_sent(lock.lock()).await.expect("free");
    drop(may_be_sent(guard.lost()));
    may_be_sent(guard.run(async {})).await.expect("held");
    may_be_sent(guard.extend(Duration::from_secs(1))).await.expect("held");
    may_be_sent(guard.unlock()).await.expect("held");
    let wait = Duration::from_secs(1);
    may_be_sent(lock.try_lock(wait, wait)).await.expect("free").forget();
    drop(may_be_sent(lock.is_locked()));
    drop(may_be_sent(lock.acquire().wait(wait).into_future()));
    may_be_sent(client.shutdown(wait)).await.expect("it settles");
}

#[tokio::test(start_paused = true)]
async fn a_wait_fits_where_it_is_stored() {
    let client = EmbeddedRedis::new().client();
    let mut lock = client.lock("x");
    // Ten thousand waiting tasks are forty megabytes: more would be felt.
    assert!(size_of_val(&lock.lock()) <= 4096, "{}", size_of_val(&lock.lock()));
}
