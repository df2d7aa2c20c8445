//! A dropped future leaves nothing behind, wherever it is dropped.
//!
//! Two sweeps: after every number of polls until the call completes, and after every delay from
//! nothing to three round trips. After each cut Redis and the client's own books are looked at.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, LockGuard};

use crate::bed::{
    Outside, alone, at_rest, connect, cut_after, cut_after_polls, hold, idle, ms, note, size,
    threads, until,
};
use crate::support::proxy::Proxy;
use crate::support::server::Server;

/// A dropped call is settled within this.
const SETTLED: Duration = Duration::from_secs(1);
/// A contended call that is not cut ends by itself after this.
const WAIT: Duration = ms(12);

/// Where the future is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After so many polls, at once.
    Polls(usize),
    /// After so many polls, when whatever was sent has been answered.
    Answered(usize),
    /// After so long.
    Delay(Duration),
}

impl Cut {
    async fn apply<T>(self, future: impl Future<Output = T>) -> Option<T> {
        let future = Box::pin(future);
        match self {
            Cut::Polls(polls) => cut_after_polls(polls, Duration::ZERO, future).await,
            Cut::Answered(polls) => cut_after_polls(polls, ms(2), future).await,
            Cut::Delay(delay) => cut_after(delay, future).await,
        }
    }
}

/// What is being cut.
#[derive(Clone, Copy, Debug)]
enum Scene {
    /// `try_lock` of a free lock.
    TryFree,
    /// `lock` of a free lock.
    LockFree,
    /// `try_lock` of a lock that another client holds.
    TryHeld,
    /// `lock` of a lock that another client holds.
    LockHeld,
    /// `try_lock` under an outer hold of the same owner.
    Reenter,
    /// `unlock` of an only guard.
    Unlock,
    /// `unlock` of an inner guard.
    UnlockInner,
    /// `adopt` of a hold that another client handed on.
    Adopt,
    /// `extend` of a hold.
    Extend,
}

const SCENES: [Scene; 9] = [
    Scene::TryFree,
    Scene::LockFree,
    Scene::TryHeld,
    Scene::LockHeld,
    Scene::Reenter,
    Scene::Unlock,
    Scene::UnlockInner,
    Scene::Adopt,
    Scene::Extend,
];

struct Stage {
    client: Client,
    other: Client,
    outside: Outside,
}

impl Stage {
    async fn new(server: &Server, url: &str) -> Self {
        let stage = Stage {
            client: connect(url).await,
            other: connect(&server.url()).await,
            outside: Outside::of(server),
        };
        // The scripts are known to the server from here on.
        hold(&stage.client, "warm").await.unlock().await.expect("held");
        stage
    }

    /// Plays a scene with a cut; true if the call was done before it.
    async fn play(&mut self, scene: Scene, cut: Cut) -> bool {
        let name = "cut";
        let mut lock = self.client.lock(name);
        let what = format!("{scene:?} {cut:?}");
        let done = match scene {
            Scene::TryFree => kept(&what, cut.apply(lock.try_lock(WAIT, ms(30_000))).await),
            Scene::LockFree => kept(&what, cut.apply(lock.lock()).await),
            Scene::TryHeld | Scene::LockHeld => {
                let guard = hold(&self.other, name).await;
                let owner = guard.owner().to_owned();
                let done = if matches!(scene, Scene::TryHeld) {
                    match cut.apply(lock.try_lock(WAIT, ms(30_000))).await {
                        Some(Err(Error::Timeout { .. })) => true,
                        None => false,
                        Some(other) => panic!("{what}: {other:?}"),
                    }
                } else {
                    assert!(cut.apply(lock.lock()).await.is_none(), "{what}: it is held");
                    false
                };
                self.settled(&what, name, &[(owner, 1)]).await;
                guard.check().expect("the holder is not touched");
                guard.unlock().await.expect("still the holder's");
                done
            }
            Scene::Reenter => {
                let outer = lock.lock().await.expect("free");
                let owner = outer.owner().to_owned();
                let done = kept(&what, cut.apply(lock.try_lock(WAIT, ms(30_000))).await);
                self.settled(&what, name, &[(owner, 1)]).await;
                outer.check().expect("the outer hold is not touched");
                assert_eq!(outer.hold_count(), 1, "{what}");
                outer.unlock().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
                done
            }
            Scene::Unlock => {
                let guard = lock.lock().await.expect("free");
                released(&what, cut.apply(guard.unlock()).await)
            }
            Scene::UnlockInner => {
                let outer = lock.lock().await.expect("free");
                let owner = outer.owner().to_owned();
                let inner = lock.lock().await.expect("its own");
                let done = released(&what, cut.apply(inner.unlock()).await);
                self.settled(&what, name, &[(owner, 1)]).await;
                outer.check().expect("the outer hold is not touched");
                outer.unlock().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
                done
            }
            Scene::Adopt => self.adopt(&what, name, cut).await,
            Scene::Extend => self.extend(&what, name, cut).await,
        };
        self.settled(&what, name, &[]).await;
        idle(&self.client, SETTLED).await;
        done
    }

    async fn adopt(&self, what: &str, name: &str, cut: Cut) -> bool {
        let handle = hold(&self.other, name).await.into_handle().expect("held");
        let done = kept(what, cut.apply(self.client.adopt(&handle)).await);
        if matches!(cut, Cut::Polls(0) | Cut::Answered(0)) {
            // Nothing was begun, so the hold is still to be had.
            drop(self.client.adopt(&handle).await.expect("still there"));
        }
        done
    }

    async fn extend(&mut self, what: &str, name: &str, cut: Cut) -> bool {
        let guard = hold(&self.client, name).await;
        let owner = guard.owner().to_owned();
        let done = released(what, cut.apply(guard.extend(ms(40_000))).await);
        self.settled(what, name, &[(owner, 1)]).await;
        guard.check().expect("the hold is not touched");
        guard.unlock().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        done
    }

    async fn settled(&mut self, what: &str, key: &str, expected: &[(String, i64)]) {
        let deadline = Instant::now() + SETTLED;
        loop {
            let (holds, stats) = (self.outside.holds(key), self.client.stats());
            let busy = stats.waiting + stats.listeners + stats.releases_pending;
            if holds == expected && busy == 0 {
                return;
            }
            let late = Instant::now() >= deadline;
            assert!(!late, "{what}: {holds:?}, expected {expected:?}; {stats:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// True if the call was done; its guard is dropped.
fn kept(what: &str, outcome: Option<Result<LockGuard, Error>>) -> bool {
    match outcome {
        None => false,
        Some(Ok(guard)) => {
            drop(guard);
            true
        }
        // Through a slow proxy the wait may be over first.
        Some(Err(Error::Timeout { .. } | Error::Unknown { .. })) => true,
        Some(Err(error)) => panic!("{what}: {error:?}"),
    }
}

fn released(what: &str, outcome: Option<Result<(), Error>>) -> bool {
    match outcome {
        None => false,
        Some(Ok(())) => true,
        Some(Err(error)) => panic!("{what}: {error:?}"),
    }
}

#[test]
fn a_call_dropped_after_any_number_of_polls_leaves_nothing() {
    alone(Duration::from_mins(1), async {
        let server = Server::start();
        let mut stage = Stage::new(&server, &server.url()).await;
        for scene in SCENES {
            let mut most = 0;
            for repetition in 0..16 {
                for polls in 0.. {
                    let at_once = repetition % 2 == 0;
                    let cut = if at_once { Cut::Polls(polls) } else { Cut::Answered(polls) };
                    let done = Box::pin(stage.play(scene, cut)).await;
                    // `lock` of a held lock is never done: past all its steps is enough.
                    if done || matches!(scene, Scene::LockHeld) && polls == 12 {
                        most = most.max(polls);
                        break;
                    }
                    assert!(polls < 100, "{scene:?} is never done, repetition {repetition}");
                }
            }
            note(&format!("{scene:?}: done after at most {most} polls"));
        }
        at_rest(&stage.client, Duration::from_secs(5)).await;
        assert_eq!(stage.outside.keys(), 0);
    });
}

#[test]
fn a_call_dropped_after_any_delay_leaves_nothing() {
    let step = Duration::from_micros(size("LEASEHOLD_STEP_US", 10) as u64);
    alone(Duration::from_mins(2), async move {
        let server = Server::start();
        let mut stage = Stage::new(&server, &server.url()).await;
        Box::pin(sweep(&mut stage, "direct", step)).await;
    });
}

#[test]
fn a_call_dropped_after_any_delay_on_a_slow_line_leaves_nothing() {
    let step = Duration::from_micros(10 * size("LEASEHOLD_STEP_US", 10) as u64);
    alone(Duration::from_mins(10), async move {
        let server = Server::start();
        let proxy = Proxy::start(server.address());
        let mut stage = Stage::new(&server, &proxy.url()).await;
        proxy.delay_replies(ms(2));
        Box::pin(sweep(&mut stage, "2 ms", step)).await;
    });
}

async fn sweep(stage: &mut Stage, line: &str, step: Duration) {
    let trip = round_trip(&stage.client).await;
    for scene in SCENES {
        let (mut delay, mut cuts, mut done) = (Duration::ZERO, 0, 0);
        let started = Instant::now();
        while delay <= trip * 3 {
            done += u32::from(Box::pin(stage.play(scene, Cut::Delay(delay))).await);
            (delay, cuts) = (delay + step, cuts + 1);
        }
        let took = started.elapsed();
        note(&format!("{line}, {scene:?}: {cuts} cuts, trip {trip:?}, {done} done, {took:?}"));
    }
    at_rest(&stage.client, Duration::from_secs(5)).await;
    assert_eq!(stage.outside.keys(), 0);
}

/// The median of some calls.
async fn round_trip(client: &Client) -> Duration {
    let lock = client.lock("trip");
    let mut trips = Vec::new();
    for _ in 0..21 {
        let started = Instant::now();
        lock.is_locked().await.expect("redis answers");
        trips.push(started.elapsed());
    }
    trips.sort_unstable();
    trips[10]
}

#[test]
fn a_dropped_waiter_lets_the_next_one_in() {
    alone(Duration::from_secs(30), async {
        let server = Server::start();
        let mut stage = Stage::new(&server, &server.url()).await;
        for polls in 0..12 {
            let guard = hold(&stage.other, "cut").await;
            let mut first = stage.client.lock("cut");
            let mut second = stage.client.lock("cut");
            let next = tokio::spawn(async move {
                let guard = second.lock().await?;
                guard.unlock().await
            });
            let gone = cut_after_polls(polls, ms(1), Box::pin(first.lock())).await;
            assert!(gone.is_none(), "it is held");
            guard.unlock().await.expect("held");
            let outcome = crate::bed::within("the next waiter", SETTLED, next).await;
            outcome.expect("no panic").expect("its turn");
            stage.settled(&format!("{polls} polls"), "cut", &[]).await;
        }
        at_rest(&stage.client, Duration::from_secs(5)).await;
    });
}

#[test]
fn a_connect_dropped_anywhere_leaves_no_connection_and_no_thread() {
    alone(Duration::from_mins(1), async {
        let server = Server::start();
        let proxy = Proxy::start(server.address());
        proxy.delay_replies(ms(1));
        until("other tests' threads have ended", SETTLED * 10, || threads() == 0).await;
        let (mut cuts, mut delay) = (0, Duration::ZERO);
        loop {
            let cut = Cut::Delay(delay);
            let done = cut.apply(Client::connect(&proxy.url())).await.is_some();
            if cuts % 10 == 0 || done {
                until("no thread", SETTLED * 5, || threads() == 0).await;
                let connections = || server.clients("id=").len() - 1;
                until("no connection", SETTLED * 5, || connections() == 0).await;
            }
            if done {
                break;
            }
            (cuts, delay) = (cuts + 1, delay + Duration::from_micros(100));
        }
        note(&format!("connect: {cuts} cuts"));
    });
}
