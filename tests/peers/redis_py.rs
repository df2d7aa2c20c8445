//! What only redis-py's `Lock` has; what all libraries share is in `one_server`.

use leasehold::{Ended, Lease, LossReason};
use leasehold_testbed::{Server, assert_free, forget, ms, no_expiry, soon, take_and_release};

use crate::one_server::{Both, both};
use crate::process::{Library, Process};
use crate::{KEY, builder};

async fn with_python(lease_ms: u32) -> Both {
    both(Library::RedisPy, lease_ms).await
}

#[tokio::test]
async fn python_distinguishes_its_own_lock_from_ours() {
    let both = with_python(60_000).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("owned it").await);
    assert!(both.peer.is("release it").await);
    assert!(!both.peer.is("locked it").await);
    let guard = both.lock.lock().await.unwrap();
    assert!(!both.peer.is("try_for it 100").await);
    assert!(both.peer.is("locked it").await && !both.peer.is("owned it").await);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn pythons_extensions_are_respected() {
    let both = with_python(5000).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("add it 20000").await);
    assert!(both.left() > 20_000);
    assert!(both.lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    assert!(both.peer.is("extend it 9000").await);
    assert!((5000..=9000).contains(&both.left()), "{}", both.left());
    assert!(both.peer.is("reacquire it").await);
    assert!(both.left() <= 5000);
    both.refused().await;
    assert!(both.lock.force_unlock("a test").await.unwrap());
    for command in ["add it 1000", "reacquire it", "give_back it"] {
        let raised = both.peer.ask(command).await.unwrap_err();
        assert!(raised.is("LockNotOwnedError"), "{command}: {raised:?}");
    }
    assert_free(&both.lock).await;
}

#[tokio::test]
async fn a_lock_of_ours_is_taken_over_by_python() {
    let both = with_python(5000).await;
    let owner = forget(both.lock.lock().await.unwrap());
    both.peer.tell(&format!("adopt it {owner}")).await;
    assert!(both.peer.is("owned it").await);
    assert!(both.peer.is("reacquire it").await);
    assert!(both.left() <= 5000);
    assert!(both.peer.is("release it").await);
    // And a token that a program chose for both.
    assert!(both.peer.is("try_with_token it job-17").await);
    let guard = both.lock.restore("job-17").await.unwrap();
    guard.unlock().await.unwrap();
    assert!(!both.peer.is("locked it").await);
}

#[tokio::test]
async fn a_lock_taken_away_by_python_is_reported_lost() {
    let server = Server::start();
    let python = Process::start(Library::RedisPy, &[server.url()]);
    let builder = builder(&server.url()).lease(ms(6000));
    let client = builder.connect().await.unwrap();
    let guard = client.string_lock(KEY).lock().await.unwrap();
    python.make(KEY, 60_000).await;
    python.tell(&format!("adopt it {}", guard.owner())).await;
    assert!(python.is("release it").await);
    assert_eq!(
        soon("the loss is reported", guard.ended()).await,
        Ended::Lost(LossReason::Gone)
    );
    assert!(python.is("try it").await);
    assert!(guard.unlock().await.is_err());
    assert!(python.is("owned it").await, "our release touched nothing");
}

#[tokio::test]
async fn a_lock_without_expiry_is_reported() {
    let both = with_python(60_000).await;
    let forever = format!("make redis-py it {KEY} none");
    both.peer.tell(&forever).await;
    assert!(both.peer.is("try it").await);
    assert_eq!(both.left(), -1);
    let refused = both.lock.try_lock_now(Lease::Renewed).await.unwrap_err();
    assert_eq!(no_expiry(&refused), Some(true));
    assert_eq!(both.left(), -1, "it is left alone");
    assert!(both.peer.is("release it").await);
    take_and_release(&both.lock).await;
}
