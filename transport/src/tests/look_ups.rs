//! Names that the system is slow to resolve.

use std::net::SocketAddr;
use std::sync::mpsc;

use super::stream::{SHARED, look_up};
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
        look_up(host, &own, Duration::ZERO, move |_: &str| {
            asked.fetch_add(1, Ordering::SeqCst);
            let _ = released.lock().recv();
            Ok(vec![address()])
        })
    };
    for _ in 0..100 {
        let given_up = timeout(Duration::from_millis(1), ask()).await;
        assert!(given_up.is_err(), "nobody has answered");
    }
    until("the system is asked", || asked.load(Ordering::SeqCst) == 1).await;
    let waiting = futures::future::join_all([ask(), ask()]);
    // `release` is polled last, so all attempts wait for the same answer.
    let (answers, ()) = tokio::join!(waiting, async { release.send(()).unwrap() });
    for answer in answers {
        assert_eq!(answer.unwrap(), [address()]);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // An answer that was read is not used again, because the name may have another address by now.
    release.send(()).unwrap();
    ask().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// Otherwise a client whose attempts end before the system answers would never get an address.
#[tokio::test]
async fn an_answer_is_kept_for_the_next_attempt() {
    let (host, here) = ("kept.look-up.test", Handle::current());
    let asked = Arc::new(AtomicUsize::new(0));
    let ask = |age_max| {
        let asked = asked.clone();
        look_up(host, &here, age_max, move |_: &str| {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(vec![address()])
        })
    };
    let (release, released) = mpsc::channel::<()>();
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let slow = look_up(host, own.handle(), Duration::ZERO, move |_: &str| {
        let _ = released.recv();
        Ok(vec![address()])
    });
    let given_up = timeout(Duration::from_millis(1), slow).await;
    assert!(given_up.is_err(), "nobody has answered");
    release.send(()).unwrap();
    let answered = tokio::task::spawn_blocking(|| own.shutdown_timeout(SECOND * 60));
    answered.await.unwrap();
    tokio::time::pause();
    tokio::time::advance(SECOND * 50).await;
    let times = || asked.load(Ordering::SeqCst);
    assert_eq!(ask(Duration::ZERO).await.unwrap(), [address()]);
    assert_eq!(times(), 0, "it was answered already");
    // The other connections of a node need the answer soon after the first one.
    assert_eq!(ask(SHARED).await.unwrap(), [address()]);
    assert_eq!(times(), 0, "it was read by another connection");
    assert_eq!(ask(Duration::ZERO).await.unwrap(), [address()]);
    assert_eq!(times(), 1, "it may have another address by now");
    tokio::time::advance(SHARED).await;
    assert_eq!(ask(SHARED).await.unwrap(), [address()]);
    assert_eq!(times(), 2, "it may have another address by now");
}

/// A look-up of the name that ends when the test says so. The system knows the name as well,
/// because an attempt that fails after the answer asks again.
struct SlowName {
    host: &'static str,
    release: mpsc::Sender<()>,
}

impl SlowName {
    async fn new(host: &'static str, own: &OwnRuntime) -> Self {
        let (release, released) = mpsc::channel();
        let asked = look_up(host, own.handle(), Duration::ZERO, move |_: &str| {
            let _ = released.recv();
            Ok(vec![([127, 0, 0, 1], 0).into()])
        });
        let given_up = timeout(Duration::from_millis(1), asked).await;
        assert!(given_up.is_err(), "nobody has answered");
        SlowName { host, release }
    }

    fn url(&self, scheme: &str, port: u16, path: &str) -> String {
        format!("{scheme}://{}:{port}{path}", self.host)
    }
}

const BRISK: Timing = Timing {
    connect: Duration::from_millis(200),
    ..TIMING
};

async fn open(
    url: &str,
    own: &OwnRuntime,
    if_unreachable: IfUnreachable,
) -> Result<Transport, CallError> {
    let setup = setup(BRISK, Arc::<Recorder>::default(), own.handle());
    Transport::connect(Deployment::parse(url).unwrap(), setup, if_unreachable).await
}

#[tokio::test]
async fn a_slow_look_up_is_no_silent_server() {
    needs_a_server!();
    let (server, own) = (Server::start(), OwnRuntime::new());
    let name = SlowName::new("127.1", &own).await;
    let url = name.url("redis", server.port(), "");
    let connecting = open(&url, &own, IfUnreachable::Fail);
    let answered = async {
        sleep(BRISK.connect * 3).await;
        name.release.send(()).unwrap();
    };
    let (redis, ()) = tokio::join!(connecting, answered);
    assert!(redis.unwrap().is_connected());
}

/// The names of sentinels and of the nodes of a cluster. Here the server at the address is neither,
/// and says so.
#[tokio::test]
async fn a_slow_look_up_is_no_silent_sentinel_or_node() {
    needs_a_server!();
    let (server, own) = (Server::start(), OwnRuntime::new());
    for (host, scheme, path, says) in [
        ("127.0.1", "redis-sentinel", "/locks", "unknown command"),
        ("0x7f.1", "redis-cluster", "", "cluster support disabled"),
    ] {
        let name = SlowName::new(host, &own).await;
        let url = name.url(scheme, server.port(), path);
        let connecting = open(&url, &own, IfUnreachable::Fail);
        let answered = async {
            sleep(BRISK.connect * 3).await;
            name.release.send(()).unwrap();
        };
        let (outcome, ()) = tokio::join!(connecting, answered);
        let error = format!("{:?}", outcome.map(drop).unwrap_err());
        assert!(error.contains(says), "{url}: {error}");
    }
}

/// The program starts although the name is not resolved, and the client is connected soon after the
/// answer, however long that took.
#[tokio::test]
async fn a_client_that_connects_later_waits_for_the_look_up() {
    needs_a_server!();
    let (server, own) = (Server::start(), OwnRuntime::new());
    let name = SlowName::new("0177.1", &own).await;
    let url = name.url("redis", server.port(), "");
    let redis = open(&url, &own, IfUnreachable::RetryLater).await.unwrap();
    let outcome = redis.call(Lane::Caller, add("n")).await;
    assert!(
        matches!(&outcome, Err(CallError::NotApplied(fault)) if fault.0.contains("no answer yet")),
        "{outcome:?}"
    );
    // As many attempts would have been given up, each after a longer pause.
    sleep(BRISK.connect * 10).await;
    name.release.send(()).unwrap();
    let answered = Instant::now();
    until("it is connected", || redis.is_connected()).await;
    assert!(answered.elapsed() < SECOND, "{:?}", answered.elapsed());
}

#[tokio::test]
async fn a_look_up_that_fails_or_ends_with_its_client_is_made_again() {
    let (host, here) = ("failing.look-up.test", Handle::current());
    let failed = look_up(host, &here, Duration::ZERO, |_: &str| {
        Err(std::io::Error::other("down"))
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "down");
    let own = OwnRuntime::new();
    let gone = own.handle().clone();
    drop(own);
    let ended = look_up(host, &gone, Duration::ZERO, |_: &str| Ok(vec![address()]));
    assert!(ended.await.is_err());
    let answer = look_up(host, &here, Duration::ZERO, |_: &str| Ok(vec![address()]));
    assert_eq!(answer.await.unwrap(), [address()]);
}
