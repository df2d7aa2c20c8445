//! One lock shared with redis-py's `Lock`, in both directions.

use leasehold::{Client, Ended, Error, Lease, Lock, LossReason};
use leasehold_testbed::{Server, eventually, ms, soon};

use crate::crowd;
use crate::process::{Library, Process};
use crate::{ONCE, asked, builder};

struct Both {
    server: Server,
    python: Process,
    client: Client,
    lock: Lock,
}

/// One key, an alias `py` for it in Python, and a lock of ours.
async fn both(timeout: &str) -> Both {
    let server = Server::start();
    let python = Process::start(Library::RedisPy, &[server.url()]);
    python.tell(&format!("make py shared {timeout}")).await;
    let client = builder(&server.url()).connect().await.unwrap();
    let lock = client.string_lock("shared");
    Both {
        server,
        python,
        client,
        lock,
    }
}

impl Both {
    fn left(&self) -> i64 {
        self.server.command(&["PTTL", "shared"]).int()
    }

    fn value(&self) -> String {
        self.server.command(&["GET", "shared"]).text()
    }
}

#[tokio::test]
async fn each_excludes_the_other() {
    let both = both("60000").await;
    assert!(both.python.is("acquire py 0").await);
    let refused = both.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Timeout {
                no_expiry: false,
                ..
            }
        ),
        "{refused}"
    );
    assert!(both.lock.is_locked().await.unwrap() && !both.lock.is_held().await.unwrap());
    assert!(both.python.is("owned py").await);
    both.python.tell("release py").await;
    assert!(!both.python.is("locked py").await);

    let guard = both.lock.try_lock(ONCE, Lease::Renewed).await.unwrap();
    assert_eq!(both.value(), guard.owner());
    assert!(!both.python.is("acquire py 0").await);
    assert!(!both.python.is("acquire py 100").await);
    assert!(both.python.is("locked py").await && !both.python.is("owned py").await);
    guard.unlock().await.unwrap();
    assert!(both.python.is("acquire py 0").await);
}

#[tokio::test]
async fn each_waits_for_the_other() {
    let both = both("60000").await;
    let guard = both.lock.lock().await.unwrap();
    let before = asked(&both.server);
    let waits = both.python.ask("acquire py none");
    eventually("asked again", async || asked(&both.server) > before + 1).await;
    guard.unlock().await.unwrap();
    assert_eq!(waits.await.unwrap(), "True");

    let lock = both.client.string_lock("shared");
    let waits = tokio::spawn(async move { lock.lock().await });
    eventually("queued", async || both.client.stats().waiting == 1).await;
    both.python.tell("release py").await;
    soon("granted", waits)
        .await
        .unwrap()
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test]
async fn each_is_freed_by_its_expiry() {
    let both = both("400").await;
    assert!(both.python.is("acquire py 0").await);
    let guard = soon("Python's lease ends", both.lock.lock()).await.unwrap();
    let raised = both.python.ask("release py").await.unwrap_err();
    assert!(raised.is("LockNotOwnedError"), "{raised:?}");
    assert_eq!(
        both.value(),
        guard.owner(),
        "what came late touched nothing"
    );
    guard.unlock().await.unwrap();

    let guard = both
        .lock
        .try_lock(ONCE, Lease::fixed(ms(400)))
        .await
        .unwrap();
    // A long lease, so that Python still holds the lock at the end, however slow the machine is.
    both.python.tell("make py shared 60000").await;
    let waits = both.python.ask("acquire py none");
    assert_eq!(waits.await.unwrap(), "True");
    assert!(matches!(
        guard.check(),
        Err(Error::Lost {
            reason: LossReason::Expired,
            ..
        })
    ));
    assert!(guard.unlock().await.is_err());
    // Only our own acquisitions are undone in the background.
    let settled = || both.client.stats().releases_pending == 0;
    eventually("settled", async || settled()).await;
    assert!(both.python.is("owned py").await);
}

#[tokio::test]
async fn a_release_that_comes_late_touches_nobody() {
    let both = both("60000").await;
    let guard = both.lock.lock().await.unwrap();
    // An operator deletes the key, and this client does not know yet.
    both.server.command(&["DEL", "shared"]);
    assert!(both.python.is("acquire py 0").await);
    let lost = guard.unlock().await.unwrap_err();
    assert!(
        matches!(
            lost,
            Error::Lost {
                reason: LossReason::Gone,
                ..
            }
        ),
        "{lost}"
    );
    assert!(both.python.is("owned py").await);
}

#[tokio::test]
async fn pythons_extensions_are_kept_to() {
    let both = both("5000").await;
    assert!(both.python.is("acquire py 0").await);
    assert!(both.python.is("extend py 20000").await);
    assert!(both.left() > 20_000);
    assert!(both.lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    assert!(both.python.is("replace py 9000").await);
    assert!((5000..=9000).contains(&both.left()), "{}", both.left());
    assert!(both.python.is("reacquire py").await);
    assert!(both.left() <= 5000);
    assert!(
        both.lock
            .try_lock(ONCE, Lease::Renewed)
            .await
            .unwrap_err()
            .is_timeout()
    );
    assert!(both.lock.force_unlock().await.unwrap());
    for command in ["extend py 1000", "reacquire py", "release py"] {
        let raised = both.python.ask(command).await.unwrap_err();
        assert!(raised.is("LockNotOwnedError"), "{command}: {raised:?}");
    }
    both.lock
        .try_lock(ONCE, Lease::Renewed)
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_lock_of_python_is_restored_here() {
    let both = both("5000").await;
    assert!(both.python.is("acquire py 0").await);
    // uuid1 in hex, which Python keeps as bytes.
    let token = both.python.tell("token py").await;
    assert!(
        token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{token}"
    );
    let stranger = both
        .lock
        .restore("0123456789abcdef0123456789abcdef")
        .await
        .unwrap_err();
    assert!(matches!(stranger, Error::NotOwner { .. }), "{stranger}");
    let guard = both.lock.restore(&token).await.unwrap();
    assert_eq!((guard.owner(), both.value()), (&*token, token.clone()));
    assert!(both.left() > 20_000, "our lease now");
    assert!(both.python.is("owned py").await);
    guard.unlock().await.unwrap();
    let raised = both.python.ask("release py").await.unwrap_err();
    assert!(raised.is("LockNotOwnedError"), "{raised:?}");
}

#[tokio::test]
async fn a_lock_of_ours_is_taken_over_by_python() {
    let both = both("5000").await;
    let guard = both.lock.lock().await.unwrap();
    let owner = guard.hand_on().unwrap();
    both.python.tell(&format!("take_token py {owner}")).await;
    assert!(both.python.is("owned py").await);
    assert!(both.python.is("reacquire py").await);
    assert!(both.left() <= 5000);
    both.python.tell("release py").await;
    // And a token that a program chose for both.
    assert!(both.python.is("acquire_with_token py job-17").await);
    both.lock
        .restore("job-17")
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    assert!(!both.python.is("locked py").await);
}

#[tokio::test]
async fn a_lock_taken_away_by_python_is_reported_lost() {
    let server = Server::start();
    let python = Process::start(Library::RedisPy, &[server.url()]);
    let client = builder(&server.url())
        .lease(ms(6000))
        .connect()
        .await
        .unwrap();
    let guard = client.string_lock("shared").lock().await.unwrap();
    python.tell("make py shared 60000").await;
    python
        .tell(&format!("take_token py {}", guard.owner()))
        .await;
    python.tell("release py").await;
    assert_eq!(
        soon("lost", guard.ended()).await,
        Ended::Lost(LossReason::Gone)
    );
    assert!(python.is("acquire py 0").await);
    assert!(guard.unlock().await.is_err());
    assert!(python.is("owned py").await, "our release touched nothing");
}

#[tokio::test]
async fn a_lock_without_expiry_is_reported() {
    let both = both("none").await;
    assert!(both.python.is("acquire py 0").await);
    assert_eq!(both.left(), -1);
    let refused = both.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Timeout {
                no_expiry: true,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(both.left(), -1, "it is left alone");
    both.python.tell("release py").await;
    soon("free", both.lock.lock())
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_crowd_of_both_nobody_meets_anybody() {
    let both = both("60000").await;
    let theirs = both.python.ask("contend 3 20 shared 60000");
    let locks = (0..4).map(|_| both.client.string_lock("shared"));
    crowd::enter_all(locks, &both.server, 20).await;
    assert_eq!(theirs.await.unwrap(), "0", "Python met somebody");
    assert_eq!(crowd::entered(&both.server), 3 * 20 + 4 * 20);
    assert_eq!(both.server.command(&["EXISTS", "shared"]).int(), 0);
}
