//! What is shared on one server only; what is shared on several as well is in `both`.

use leasehold::{Error, Lease};
use leasehold_testbed::{eventually, ms};
use tokio::time::Instant;

use crate::both::{
    Both, a_late_call_affects_nobody, both, each_excludes_the_other, each_is_freed_by_its_expiry,
    each_keeps_to_extensions_of_the_other, each_waits_for_the_other,
    in_a_crowd_nobody_meets_anybody,
};
use crate::process::Library;
use crate::{KEY, LONG, ONCE};

with_each! {
    [
        each_excludes_the_other,
        each_waits_for_the_other,
        each_sees_what_the_other_stores,
        each_keeps_to_extensions_of_the_other,
        each_waits_for_a_renewed_hold,
        each_is_freed_by_its_expiry,
        a_late_call_affects_nobody,
        each_takes_over_what_the_other_took,
        in_a_crowd_nobody_meets_anybody,
    ]
    redis_py(Library::RedisPy, 1)
    redsync(Library::Redsync, 1)
    redislock(Library::Redislock, 1)
    node_redlock(Library::NodeRedlock, 1)
}

impl Both {
    fn left(&self) -> i64 {
        self.server().command(&["PTTL", KEY]).int()
    }

    fn value(&self) -> String {
        self.server().command(&["GET", KEY]).text()
    }
}

async fn each_sees_what_the_other_stores(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    let form = match library {
        // 16 random bytes in base64.
        Library::Redsync => owner.len() == 24 && owner.ends_with("=="),
        // The same without padding, followed by the program's own text.
        Library::Redislock => owner.len() == 22 + 7 && owner.ends_with("/job-17"),
        // In hex; redis-py's are a uuid1.
        _ => owner.len() == 32 && owner.bytes().all(|byte| byte.is_ascii_hexdigit()),
    };
    assert!(form, "{owner}");
    assert_eq!(both.value(), owner);
    let holder = both.lock.holder().await.unwrap().unwrap();
    assert_eq!((holder.owner, holder.holds), (owner, 1));
    let (whole, left) = (ms(LONG.into()), holder.lease.unwrap());
    assert!(left <= whole && left > whole / 2, "{left:?}");
    assert!(both.peer.is("release it").await);
    assert_eq!(both.lock.holder().await.unwrap(), None);

    let guard = both.lock.try_lock(ONCE, Lease::Fixed(whole)).await.unwrap();
    assert_eq!(both.value(), guard.owner());
    assert!((30_000..=60_000).contains(&both.left()), "{}", both.left());
    guard.unlock().await.unwrap();
    assert_eq!(both.left(), -2);
}

async fn each_waits_for_a_renewed_hold(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    let renewed = both.lock.acquire().lease(Lease::RenewedFor(ms(4000)));
    let guard = renewed.await.unwrap();
    let deadline = guard.deadline();
    let waits = both.peer.tell("lock it");
    let ended = async || Instant::now() > deadline;
    eventually("the first lease has ended", ended).await;
    guard.check().unwrap();
    assert_eq!(both.value(), guard.owner());
    guard.unlock().await.unwrap();
    assert_eq!(waits.await, "locked");
}

async fn each_takes_over_what_the_other_took(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    let stranger = both.lock.restore(&"0123456789abcdef".repeat(2)).await;
    let stranger = stranger.unwrap_err();
    assert!(matches!(stranger, Error::NotOwner { .. }), "{stranger}");
    let guard = both.lock.restore(&owner).await.unwrap();
    assert_eq!((guard.owner(), both.value()), (&*owner, owner.clone()));
    assert!(both.peer.is("extend it 50000").await, "it is the same hold");
    guard.unlock().await.unwrap();
    assert!(!both.peer.is("release it").await);

    let guard = both.lock.lock().await.unwrap();
    let owner = guard.owner().to_owned();
    guard.forget();
    // A foreign hold is neither taken over nor released: redislock refuses the former, the others
    // the latter.
    if both.peer.ask("adopt it stranger").await.is_ok() {
        assert!(!both.peer.is("release it").await);
    }
    assert_eq!(both.value(), *owner);
    both.peer.tell(&format!("adopt it {owner}")).await;
    assert!(both.peer.is("extend it 50000").await);
    assert!(both.left() > 30_000);
    both.assert_refused().await;
    assert!(both.peer.is("release it").await);
    assert!(!both.lock.is_locked().await.unwrap());
}

/// One acquisition of node-redlock for several keys: all or none.
#[tokio::test]
async fn several_keys_of_node_redlock_are_as_many_locks() {
    let both = both(Library::NodeRedlock, 1, LONG).await;
    both.peer.make("a,b", LONG).await;
    let [one, other] = ["a", "b"].map(|name| both.client().string_lock(name));
    let guard = one.lock().await.unwrap();
    assert!(!both.peer.is("try it").await, "both or none");
    assert!(!other.is_locked().await.unwrap());
    guard.unlock().await.unwrap();
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    for lock in [&one, &other] {
        let refused = lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
        assert!(refused.is_timeout(), "{refused}");
        assert_eq!(lock.holder().await.unwrap().unwrap().owner, owner);
    }
    // Release one of them for it, so that it can release only the other.
    one.restore(&owner).await.unwrap().unlock().await.unwrap();
    assert!(!both.peer.is("extend it 50000").await);
    assert!(!both.peer.is("release it").await, "not as many as it took");
    assert!(!other.is_locked().await.unwrap());
}

#[tokio::test]
async fn python_distinguishes_its_own_lock_from_ours() {
    let both = both(Library::RedisPy, 1, LONG).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("owned it").await);
    assert!(both.peer.is("release it").await);
    assert!(!both.peer.is("locked it").await);
    let guard = both.lock.lock().await.unwrap();
    assert!(!both.peer.is("try_for it 100").await);
    assert!(both.peer.is("locked it").await && !both.peer.is("owned it").await);
    guard.unlock().await.unwrap();
}
