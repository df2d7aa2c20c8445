//! One key shared with redis-py, Go's redsync and redislock, and node-redlock, in both directions.

use leasehold::{Client, Error, Lease, Lock, LossReason};
use leasehold_testbed::{
    Server, assert_lost, connected, crowd, eventually, forget, ms, no_expiry, soon, take_turn,
};
use tokio::time::Instant;

use crate::process::{Library, Process};
use crate::{KEY, LONG, ONCE, asked, builder, take};

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
    redis_py(Library::RedisPy)
    redsync(Library::Redsync)
    redislock(Library::Redislock)
    node_redlock(Library::NodeRedlock)
}

pub(crate) struct Both {
    pub(crate) server: Server,
    pub(crate) peer: Process,
    pub(crate) client: Client,
    pub(crate) lock: Lock,
}

/// One key, a lock of the peer at it, called `it`, and a lock of ours.
pub(crate) async fn both(library: Library, lease_ms: u32) -> Both {
    let server = Server::start();
    let peer = Process::start(library, &[server.url()]);
    peer.make(KEY, lease_ms).await;
    let client = builder(&server.url()).connect().await.unwrap();
    let lock = client.string_lock(KEY);
    Both {
        server,
        peer,
        client,
        lock,
    }
}

impl Both {
    pub(crate) fn left(&self) -> i64 {
        self.server.command(&["PTTL", KEY]).int()
    }

    fn value(&self) -> String {
        self.server.command(&["GET", KEY]).text()
    }

    pub(crate) async fn refused(&self) {
        let refused = self.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
        assert_eq!(no_expiry(&refused), Some(false));
    }
}

async fn each_excludes_the_other(library: Library) {
    let both = both(library, LONG).await;
    assert!(both.peer.is("try it").await);
    both.refused().await;
    assert!(both.lock.is_locked().await.unwrap());
    assert!(both.peer.is("release it").await);

    let guard = both.lock.try_lock(ONCE, Lease::Renewed).await.unwrap();
    assert!(!both.peer.is("try it").await);
    assert_eq!(both.value(), guard.owner());
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    assert!(both.peer.is("try it").await);
}

async fn each_waits_for_the_other(library: Library) {
    let both = both(library, LONG).await;
    let guard = both.lock.lock().await.unwrap();
    let before = asked(&both.server);
    let waits = both.peer.ask("lock it");
    eventually("asked again", async || asked(&both.server) > before + 1).await;
    guard.unlock().await.unwrap();
    assert_eq!(waits.await.unwrap(), "locked");

    let lock = both.client.string_lock(KEY);
    let waits = tokio::spawn(async move { lock.lock().await });
    eventually("queued", async || both.client.stats().waiting == 1).await;
    assert!(both.peer.is("release it").await);
    take_turn("granted", waits).await;
}

async fn each_sees_what_the_other_stores(library: Library) {
    let both = both(library, LONG).await;
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
    let whole = ms(LONG.into());
    assert!(
        holder
            .lease
            .is_some_and(|left| left <= whole && left > whole / 2)
    );
    assert!(both.peer.is("release it").await);
    assert_eq!(both.lock.holder().await.unwrap(), None);

    let guard = both.lock.try_lock(ONCE, Lease::Fixed(whole)).await.unwrap();
    assert_eq!(both.value(), guard.owner());
    assert!((30_000..=60_000).contains(&both.left()), "{}", both.left());
    guard.unlock().await.unwrap();
    assert_eq!(both.left(), -2);
}

async fn each_keeps_to_extensions_of_the_other(library: Library) {
    let both = both(library, 20_000).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("extend it 60000").await);
    assert!(both.left() > 20_000);
    assert!(both.lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    // The peer's lease may also become shorter.
    assert!(both.peer.is("extend it 10000").await);
    assert!(both.lock.remaining_lease().await.unwrap() <= Some(ms(10_000)));
    both.refused().await;
    assert!(both.peer.is("release it").await);

    let guard = both
        .lock
        .try_lock(ONCE, Lease::Fixed(ms(20_000)))
        .await
        .unwrap();
    guard.extend(ms(60_000)).await.unwrap();
    assert!(both.left() > 20_000);
    assert!(!both.peer.is("try it").await);
    assert!(both.left() > 20_000);
    guard.unlock().await.unwrap();
}

async fn each_waits_for_a_renewed_hold(library: Library) {
    let server = Server::start();
    let peer = Process::start(library, &[server.url()]);
    peer.make(KEY, LONG).await;
    let client = connected(builder(&server.url()).lease(ms(4000))).await;
    let lock = client.string_lock(KEY);
    let guard = lock.lock().await.unwrap();
    let deadline = guard.deadline();
    let waits = peer.ask("lock it");
    eventually("the first lease has ended", async || {
        Instant::now() > deadline
    })
    .await;
    guard.check().unwrap();
    assert_eq!(server.command(&["GET", KEY]).text(), guard.owner());
    guard.unlock().await.unwrap();
    assert_eq!(waits.await.unwrap(), "locked");
}

async fn each_is_freed_by_its_expiry(library: Library) {
    let both = both(library, 400).await;
    assert!(both.peer.is("try it").await);
    let guard = soon("the peer's lease ends", both.lock.lock())
        .await
        .unwrap();
    assert!(!both.peer.is("release it").await);
    assert!(!both.peer.is("extend it 60000").await);
    assert_eq!(
        both.value(),
        guard.owner(),
        "what came late touched nothing"
    );
    guard.unlock().await.unwrap();

    let guard = both
        .lock
        .try_lock(ONCE, Lease::Fixed(ms(400)))
        .await
        .unwrap();
    both.peer.make(KEY, LONG).await;
    assert_eq!(both.peer.tell("lock it").await, "locked");
    assert_lost(&guard.check().unwrap_err(), LossReason::Expired);
    assert!(guard.unlock().await.is_err());
    eventually("settled", async || {
        both.client.stats().releases_pending == 0
    })
    .await;
    assert_eq!(both.value(), both.peer.tell("owner it").await);
}

async fn a_late_call_affects_nobody(library: Library) {
    let both = both(library, LONG).await;
    assert!(both.peer.is("try it").await);
    assert!(both.lock.force_unlock("a test").await.unwrap());
    let guard = both.lock.try_lock(ONCE, Lease::Renewed).await.unwrap();
    assert!(!both.peer.is("extend it 1").await);
    assert!(!both.peer.is("release it").await);
    guard.check().unwrap();
    assert_eq!(both.value(), guard.owner());

    // An operator deletes the key, and this client does not know yet.
    both.server.command(&["DEL", KEY]);
    assert!(both.peer.is("try it").await);
    let gone = guard.extend(ms(60_000)).await.unwrap_err();
    assert_lost(&gone, LossReason::Gone);
    let gone = guard.unlock().await.unwrap_err();
    assert_lost(&gone, LossReason::Gone);
    assert_eq!(both.value(), both.peer.tell("owner it").await);
    assert!(both.peer.is("release it").await);
}

async fn each_takes_over_what_the_other_took(library: Library) {
    let both = both(library, LONG).await;
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    let stranger = both
        .lock
        .restore("0123456789abcdef0123456789abcdef")
        .await
        .unwrap_err();
    assert!(matches!(stranger, Error::NotOwner { .. }), "{stranger}");
    let guard = both.lock.restore(&owner).await.unwrap();
    assert_eq!((guard.owner(), both.value()), (&*owner, owner.clone()));
    assert!(both.peer.is("extend it 50000").await, "it is the same hold");
    guard.unlock().await.unwrap();
    assert!(!both.peer.is("release it").await);

    let owner = forget(both.lock.lock().await.unwrap());
    // A foreign hold is neither taken over nor released: redislock refuses the former, the others
    // the latter.
    if both.peer.ask("adopt it stranger").await.is_ok() {
        assert!(!both.peer.is("release it").await);
    }
    assert_eq!(both.value(), *owner);
    both.peer.tell(&format!("adopt it {owner}")).await;
    assert!(both.peer.is("extend it 50000").await);
    assert!(both.left() > 30_000);
    both.refused().await;
    assert!(both.peer.is("release it").await);
    assert!(!both.lock.is_locked().await.unwrap());
}

async fn in_a_crowd_nobody_meets_anybody(library: Library) {
    let both = both(library, LONG).await;
    let theirs = both.peer.contend(3, 15, KEY);
    let locks = (0..3).map(|_| both.client.string_lock(KEY));
    crowd::enter_all(locks, &both.server, 15, take).await;
    assert_eq!(theirs.await.unwrap(), "0", "the peer met somebody");
    assert_eq!(crowd::entered(&both.server), 3 * 15 + 3 * 15);
    assert_eq!(both.left(), -2);
}

/// One acquisition of node-redlock for several keys: all or none.
#[tokio::test]
async fn several_keys_of_node_redlock_are_as_many_locks() {
    let both = both(Library::NodeRedlock, LONG).await;
    both.peer.make("a,b", LONG).await;
    let (one, other) = (both.client.string_lock("a"), both.client.string_lock("b"));
    let guard = one.lock().await.unwrap();
    assert!(!both.peer.is("try it").await, "both or none");
    assert!(!other.is_locked().await.unwrap());
    guard.unlock().await.unwrap();
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    for lock in [&one, &other] {
        assert!(
            lock.try_lock(ONCE, Lease::Renewed)
                .await
                .unwrap_err()
                .is_timeout()
        );
        assert!(
            lock.holder()
                .await
                .unwrap()
                .is_some_and(|holder| holder.owner == owner)
        );
    }
    // Release one of them for it, so that it can release only the other.
    one.restore(&owner).await.unwrap().unlock().await.unwrap();
    assert!(!both.peer.is("extend it 50000").await);
    assert!(!both.peer.is("release it").await, "not as many as it took");
    assert!(!other.is_locked().await.unwrap());
}
