//! Elections on the embedded engine under paused time, and on a real server that fails.
#![expect(
    clippy::print_stdout,
    reason = "the times of a takeover are in the README"
)]

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, Error, FencingToken};
use leasehold_leader::{Leader, Status, Term};
use leasehold_testbed::{Proxy, Server, eventually_within, is_missing, ms, timed};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const OFFICE: &str = "office";
const LEASE: Duration = ms(1000);
const LIMIT: Duration = Duration::from_secs(60);

fn candidate(client: &Client) -> Leader {
    Leader::new(client, OFFICE).with_lease(LEASE)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_done_is_followed_at_once() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (candidate(&redis.client()), candidate(&redis.client()));
    let (mut status, mut next) = (one.status(), other.status());
    let (done, told) = oneshot::channel::<()>();
    let mut told = Some(told);
    let first = one.lead(pending(), |term| {
        let told = told.take().expect("it leads once");
        async move {
            told.await.expect("told");
            term.number()
        }
    });
    let second = async {
        status
            .wait_for(|status| matches!(status, Status::Leading(_)))
            .await
            .expect("watched");
        let waiting = other.lead(pending(), |term| ready(term.number()));
        let end = async {
            sleep(ms(5000)).await;
            assert_eq!(*next.borrow_and_update(), Status::Following);
            done.send(()).expect("it leads");
        };
        tokio::join!(waiting, end).0
    };
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (
        first.expect("led").expect("done"),
        second.expect("led").expect("done"),
    );
    assert!(second > first, "{first} {second}");
    assert_eq!(*one.status().borrow(), Status::Following);
    assert_eq!(one.current().await.expect("asked"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_stops_and_campaigns_again() {
    let redis = EmbeddedRedis::new();
    let leader = candidate(&redis.client());
    let terms = Mutex::new(Vec::<Term>::new());
    let led = leader.lead(pending(), |term| {
        let number = {
            let mut terms = terms.lock().expect("no panic");
            terms.push(term);
            terms.len()
        };
        async move {
            if number == 1 {
                pending::<()>().await;
            }
            number
        }
    });
    let lose = async {
        let mut status = leader.status();
        status
            .wait_for(|status| *status != Status::Following)
            .await
            .expect("watched");
        let term = terms.lock().expect("no panic")[0].clone();
        term.check().expect("it leads");
        assert!(redis.lose(OFFICE));
        term.over().await;
        assert!(matches!(
            term.check(),
            Err(Error::Lost { .. } | Error::NotOwner { .. })
        ));
    };
    let (led, ()) = tokio::join!(led, lose);
    assert_eq!(led.expect("led"), Some(2));
    let terms = terms.into_inner().expect("no panic");
    assert!(terms[1].number() > terms[0].number());
    assert!(terms.iter().all(|term| term.check().is_err()));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_campaign_and_a_term() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (candidate(&redis.client()), candidate(&redis.client()));
    let leading = async {
        let led = one.lead(sleep(ms(3000)), |_term| pending::<()>()).await;
        assert_eq!(led.expect("stopped"), None);
        assert_eq!(one.current().await.expect("asked"), None, "it was released");
    };
    let waiting = async {
        sleep(ms(10)).await;
        let led = other.lead(sleep(ms(1000)), |_term| ready(())).await;
        assert_eq!(led.expect("stopped"), None, "it never led");
    };
    tokio::join!(leading, waiting);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_leader_is_followed() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (candidate(&redis.client()), candidate(&redis.client()));
    let dropped = tokio::time::timeout(ms(100), one.lead(pending(), |_term| pending::<()>()));
    assert!(dropped.await.is_err());
    assert_eq!(*one.status().borrow(), Status::Following);
    let (led, took) = timed("led", other.lead(pending(), |_term| ready(7))).await;
    assert_eq!(led.expect("led"), Some(7));
    assert!(took < ms(100), "the drop released the office: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_office_that_cannot_be_is_refused() {
    let client = Client::embedded();
    let led = Leader::new(&client, "")
        .lead(pending(), |_term| ready(()))
        .await;
    assert!(matches!(led, Err(Error::Config(_))), "{led:?}");
}

/// The steps of all leaders. A leader takes them without a check: its work is dropped when its term
/// is over.
type Steps = Arc<Mutex<Vec<(Instant, FencingToken)>>>;

async fn steps_for_ever(term: Term, steps: Steps) {
    loop {
        let step = (Instant::now(), term.number());
        steps.lock().expect("no panic").push(step);
        sleep(ms(1)).await;
    }
}

/// Several processes would have several clocks; here one clock orders the steps of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_never_lead_at_once_while_connections_break_and_the_server_freezes() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let (steps, mut candidates) = (Steps::default(), JoinSet::new());
    let mut parties = Vec::new();
    for _ in 0..3 {
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&proxy.url()).await.expect("connects");
        let (leader, steps) = (candidate(&client), steps.clone());
        parties.push((proxy, leader.status()));
        candidates.spawn(async move {
            let stopped = leader.lead(pending(), |term| steps_for_ever(term, steps.clone()));
            stopped.await.map(drop)
        });
    }
    let newest = || {
        steps
            .lock()
            .expect("no panic")
            .iter()
            .map(|step| step.1)
            .max()
    };
    let somebody = async |than| {
        eventually_within(LIMIT, "a later term", async || newest() > than).await;
    };
    somebody(None).await;
    for round in 0..6 {
        let before = newest();
        if round % 2 == 0 {
            // The leader is cut off, and the others are not.
            let leads = |status: &watch::Receiver<Status>| *status.borrow() != Status::Following;
            let (proxy, _) = parties
                .iter()
                .find(|party| leads(&party.1))
                .expect("one leads");
            proxy.refuse();
            proxy.cut();
            somebody(before).await;
            proxy.pass();
        } else {
            server.pause();
            sleep(LEASE + ms(200)).await;
            server.resume();
            somebody(before).await;
        }
    }
    candidates.shutdown().await;
    let mut steps = steps.lock().expect("no panic").clone();
    steps.sort_by_key(|step| step.0);
    let terms: Vec<_> = steps.iter().map(|step| step.1).collect();
    assert!(terms.is_sorted(), "a former leader took a step: {terms:?}");
    let mut distinct = terms.clone();
    distinct.dedup();
    assert!(distinct.len() > 6, "{distinct:?}");
    println!("{} steps in {} terms", terms.len(), distinct.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_times_of_a_takeover() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let (mut in_order, mut after_death) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let (one, other) = pair(&server).await;
        in_order.push(takeover(one, &other, |stop, _| stop.send(()).expect("it leads")).await);
    }
    for _ in 0..5 {
        let proxy = Proxy::start(server.address());
        let dying = Client::connect(&proxy.url()).await.expect("connects");
        let other = candidate(&Client::connect(&server.url()).await.expect("connects"));
        // Its last renewal was any time ago: the wait is between two thirds of the lease and the
        // lease.
        let cut = |_stop, proxy: Option<&Proxy>| {
            proxy.expect("a proxy").refuse();
            proxy.expect("a proxy").cut();
        };
        after_death.push(takeover_through(candidate(&dying), &other, Some(&proxy), cut).await);
    }
    let [in_order, after_death] =
        [("in order", in_order), ("cut off", after_death)].map(|(what, mut times)| {
            times.sort();
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            println!("{what}: median {median:?}, longest {longest:?}");
            (median, longest)
        });
    // Far from what is measured, so that no slow machine fails. A leader that steps down without a
    // release is followed after two thirds of its lease.
    assert!(in_order.0 < LEASE / 2, "{in_order:?}");
    // A lease that does not keep others out would let all of them in at once. A follower that
    // misses the end of the lease asks again a second later.
    assert!(after_death.1 > LEASE / 2, "{after_death:?}");
    assert!(after_death.0 < 2 * LEASE, "{after_death:?}");
}

async fn pair(server: &Server) -> (Leader, Leader) {
    let connect = async || Client::connect(&server.url()).await.expect("connects");
    (candidate(&connect().await), candidate(&connect().await))
}

async fn takeover(
    one: Leader,
    other: &Leader,
    end: impl FnOnce(oneshot::Sender<()>, Option<&Proxy>),
) -> Duration {
    takeover_through(one, other, None, end).await
}

/// From the end of the first leader to the first step of the next.
async fn takeover_through(
    one: Leader,
    other: &Leader,
    proxy: Option<&Proxy>,
    end: impl FnOnce(oneshot::Sender<()>, Option<&Proxy>),
) -> Duration {
    let mut status = one.status();
    let (stop, stopped) = oneshot::channel();
    let first = one.lead(async { drop(stopped.await) }, |_term| pending::<()>());
    let second = async {
        status
            .wait_for(|status| *status != Status::Following)
            .await
            .expect("watched");
        let next = other.lead(pending(), |_term| ready(Instant::now()));
        let ended = async {
            sleep(ms(20)).await; // it waits by now; if not, the time is longer
            let at = Instant::now();
            end(stop, proxy);
            at
        };
        let (next, ended) = tokio::join!(next, ended);
        next.expect("led").expect("it led") - ended
    };
    tokio::select! {
        biased;
        took = second => took,
        () = async { drop(first.await); pending::<()>().await } => unreachable!("it waits for \
            ever"),
    }
}
