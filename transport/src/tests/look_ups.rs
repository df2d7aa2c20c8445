//! Names that the system is slow to resolve.

use std::net::SocketAddr;
use std::sync::mpsc;

use super::stream::look_up;
use super::*;

const ADDRESS: &str = "192.0.2.1:0";

fn address() -> SocketAddr {
    ADDRESS.parse().unwrap()
}

#[tokio::test]
async fn abandoned_attempts_share_one_look_up() {
    let (host, own) = ("slow.look-up.test", Handle::current());
    let asked = Arc::new(AtomicUsize::new(0));
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let ask = || {
        let (asked, released) = (asked.clone(), released.clone());
        look_up(host, &own, move |_: &str| {
            asked.fetch_add(1, Ordering::SeqCst);
            let _ = released.lock().recv();
            Ok(vec![address()])
        })
    };
    for _ in 0..100 {
        let given_up = timeout(Duration::from_millis(1), ask()).await;
        assert!(given_up.is_err(), "nobody has answered");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let waiting = futures::future::join_all([ask(), ask()]);
    // `release` is polled last, so all attempts wait for the same answer.
    let (answers, ()) = tokio::join!(waiting, async { release.send(()).unwrap() });
    for answer in answers {
        assert_eq!(answer.unwrap(), [address()]);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Answers are not cached, because the name may have another address by now.
    release.send(()).unwrap();
    ask().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_look_up_that_fails_or_ends_with_its_client_is_made_again() {
    let (host, here) = ("failing.look-up.test", Handle::current());
    let failed = look_up(host, &here, |_: &str| Err(std::io::Error::other("down")));
    assert_eq!(failed.await.unwrap_err().to_string(), "down");
    let own = OwnRuntime::new();
    let gone = own.handle().clone();
    drop(own);
    let ended = look_up(host, &gone, |_: &str| Ok(vec![address()]));
    assert!(ended.await.is_err());
    let answer = look_up(host, &here, |_: &str| Ok(vec![address()]));
    assert_eq!(answer.await.unwrap(), [address()]);
}
