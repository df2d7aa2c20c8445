//! A dropped future leaves nothing behind, wherever it is dropped.
//!
//! Each call is dropped after every number of polls until it completes. After each cut, Redis and
//! the client's counters are checked.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{
    Borrowed, Deployment, KINDS, Kind, Outside, Reply, eventually_within, forget, ms, release,
    within,
};

use crate::testbed::{alone, at_rest, connect, cut_after_polls, idle, note, threads};

/// A dropped call is settled within this time, long before a lease ends.
const SETTLED: Duration = Duration::from_secs(5);
/// When a contended call that is not cut ends.
const WAIT: Duration = ms(12);
const FIXED: Lease = Lease::Fixed(ms(30_000));

/// Where the future is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After this many polls, immediately.
    Polls(usize),
    /// After this many polls, when everything sent has been answered.
    Answered(usize),
}

impl Cut {
    /// True if nothing is sent, so that everything is still available.
    fn begins_nothing(self) -> bool {
        matches!(self, Cut::Polls(0) | Cut::Answered(0))
    }

    async fn apply<T>(self, future: impl Future<Output = T>) -> Option<T> {
        let future = Box::pin(future);
        match self {
            Cut::Polls(polls) => cut_after_polls(polls, Duration::ZERO, future).await,
            Cut::Answered(polls) => cut_after_polls(polls, ms(2), future).await,
        }
    }
}

/// The call that is cut.
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
    /// `acquire` within an outer hold.
    Within,
    /// `reenter` of a guard.
    Reenter,
    /// `unlock` of an only guard.
    Unlock,
    /// `unlock` of an inner guard.
    UnlockInner,
    /// `restore` of a hold of a string lock that another client forgot.
    Restore,
    /// `extend` of a hold.
    Extend,
}

const SCENES: [Scene; 10] = [
    Scene::TryFree,
    Scene::LockFree,
    Scene::TryHeld,
    Scene::LockHeld,
    Scene::Within,
    Scene::Reenter,
    Scene::Unlock,
    Scene::UnlockInner,
    Scene::Restore,
    Scene::Extend,
];

impl Scene {
    fn fits(self, kind: &Kind) -> bool {
        match self {
            Scene::Within | Scene::Reenter | Scene::UnlockInner => kind.reentrant,
            Scene::Restore => kind.name == "string",
            _ => true,
        }
    }
}

const PLAIN: Kind = KINDS[0];

/// Every key with its contents, except the counters of tokens, which a call may leave behind.
const CONTENTS: &str = "local keys, all = redis.call('keys', '*'), {}
table.sort(keys)
for _, key in ipairs(keys) do
  local kind = redis.call('type', key).ok
  local value
  if kind == 'hash' then value = redis.call('hgetall', key)
  elseif kind == 'list' then value = redis.call('lrange', key, 0, -1)
  elseif kind == 'zset' then value = redis.call('zrange', key, 0, -1)
  else value = redis.call('get', key) end
  if string.find(key, '_token:') == nil then table.insert(all, { key, value }) end
end
return all";

struct Stage {
    kind: Kind,
    client: Client,
    other: Client,
    outside: Outside,
}

impl Stage {
    async fn new(kind: Kind, server: &Deployment, url: &str) -> Self {
        let stage = Stage {
            kind,
            client: connect(url).await,
            other: connect(&server.url()).await,
            outside: Outside::of(server),
        };
        // Load the scripts, so that everything sent is executed.
        let lock = stage.lock("warm");
        let guard = lock.lock().await.expect("free");
        if kind.reentrant {
            drop(guard.reenter().await.expect("re-entered"));
        }
        if Scene::Restore.fits(&kind) {
            release(lock.restore(&forget(guard)).await).await;
        } else {
            guard.unlock().await.expect("held");
        }
        paid(&stage.client).await;
        stage
    }

    fn lock(&self, name: &str) -> Lock {
        self.kind.lock(&self.client, name)
    }

    /// A hold of another owner that blocks this kind of lock.
    async fn rival(&self, name: &str) -> LockGuard {
        let other = &self.other;
        let taken = if self.kind.exclusive {
            self.kind.lock(other, name).lock().await
        } else {
            other.read_write_lock(name).write().lock().await
        };
        paid(other).await;
        taken.expect("free")
    }

    async fn taken(&self, lock: &Lock) -> LockGuard {
        let guard = lock.lock().await.expect("free");
        paid(&self.client).await;
        guard
    }

    fn contents(&mut self) -> Reply {
        self.outside.command(&["EVAL", CONTENTS, "0"])
    }

    /// Plays a scene with a cut. True if the call completed before the cut.
    async fn play(&mut self, scene: Scene, cut: Cut) -> bool {
        let name = "cut";
        let lock = self.lock(name);
        let what = format!("{}, {scene:?} {cut:?}", self.kind.name);
        let done = match scene {
            Scene::TryFree => kept(&what, cut.apply(lock.try_lock(WAIT, FIXED)).await),
            Scene::LockFree => kept(&what, cut.apply(lock.lock()).await),
            Scene::TryHeld | Scene::LockHeld => self.held(&what, scene, cut, &lock).await,
            Scene::Within | Scene::Reenter => {
                let outer = self.taken(&lock).await;
                let before = self.contents();
                let again = async {
                    match scene {
                        Scene::Reenter => outer.reenter().await,
                        _ => lock.acquire().within(&outer).wait(WAIT).lease(FIXED).await,
                    }
                };
                let done = kept(&what, cut.apply(again).await);
                self.settled(&what, &before).await;
                outer.check().expect("the outer hold is not touched");
                assert_eq!(outer.hold_count(), 1, "{what}");
                outer
                    .unlock()
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error:?}"));
                done
            }
            Scene::Unlock => {
                let guard = lock.lock().await.expect("free");
                released(&what, cut.apply(guard.unlock()).await)
            }
            Scene::UnlockInner => {
                let outer = self.taken(&lock).await;
                let before = self.contents();
                let inner = outer.reenter().await.expect("re-entered");
                let done = released(&what, cut.apply(inner.unlock()).await);
                self.settled(&what, &before).await;
                outer.check().expect("the outer hold is not touched");
                outer
                    .unlock()
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error:?}"));
                done
            }
            Scene::Restore => self.restore(&what, &lock, cut).await,
            Scene::Extend => self.extend(&what, &lock, cut).await,
        };
        self.settled(&what, &Reply::Array(vec![])).await;
        idle(&self.client, SETTLED).await;
        done
    }

    async fn held(&mut self, what: &str, scene: Scene, cut: Cut, lock: &Lock) -> bool {
        let guard = self.rival("cut").await;
        let before = self.contents();
        let done = if matches!(scene, Scene::TryHeld) {
            match cut.apply(lock.try_lock(WAIT, FIXED)).await {
                // A reply that a stalled machine delivers after the wait counts as lost.
                Some(Err(error)) if error.is_timeout() || is_lost_reply(&error) => true,
                None => false,
                Some(other) => panic!("{what}: {other:?}"),
            }
        } else {
            assert!(cut.apply(lock.lock()).await.is_none(), "{what}: it is held");
            false
        };
        self.settled(what, &before).await;
        guard.check().expect("the holder is not touched");
        guard.unlock().await.expect("still the holder's");
        done
    }

    async fn restore(&self, what: &str, lock: &Lock, cut: Cut) -> bool {
        let theirs = self.kind.lock(&self.other, lock.name());
        let owner = forget(theirs.lock().await.expect("free"));
        let done = kept(what, cut.apply(lock.restore(&owner)).await);
        if !done {
            // A call that was never sent took nothing, so the hold is still there.
            paid(&self.client).await;
            match lock.restore(&owner).await {
                Ok(guard) => drop(guard),
                Err(Error::NotOwner { .. }) if !cut.begins_nothing() => {}
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
        done
    }

    async fn extend(&mut self, what: &str, lock: &Lock, cut: Cut) -> bool {
        let guard = self.taken(lock).await;
        let before = self.contents();
        let done = released(what, cut.apply(guard.extend(ms(40_000))).await);
        self.settled(what, &before).await;
        guard.check().expect("the hold is not touched");
        guard
            .unlock()
            .await
            .unwrap_or_else(|error| panic!("{what}: {error:?}"));
        done
    }

    /// Waits until Redis is as before and the client has nothing to do.
    async fn settled(&mut self, what: &str, expected: &Reply) {
        let deadline = Instant::now() + SETTLED;
        loop {
            let (contents, stats) = (self.contents(), self.client.stats());
            let busy = stats.waiting + stats.listeners + stats.releases_pending;
            if contents == *expected && busy == 0 {
                return;
            }
            let late = Instant::now() >= deadline;
            assert!(
                !late,
                "{what}: {contents:?}, expected {expected:?}; {stats:?}"
            );
            tokio::task::yield_now().await;
        }
    }
}

/// Waits until members that a quorum left out of a grant are given back.
async fn paid(client: &Client) {
    eventually_within(SETTLED, "settled", async || {
        client.stats().releases_pending == 0
    })
    .await;
}

/// True if the call completed; drops its guard.
fn kept(what: &str, outcome: Option<Result<LockGuard, Error>>) -> bool {
    match outcome {
        None => false,
        Some(Ok(guard)) => {
            drop(guard);
            true
        }
        // Through a slow proxy, the wait may end first.
        Some(Err(error)) if error.is_timeout() || is_lost_reply(&error) => true,
        Some(Err(error)) => panic!("{what}: {error:?}"),
    }
}

fn is_lost_reply(error: &Error) -> bool {
    matches!(error, Error::Unknown { .. } | Error::Quorum { .. })
}

fn released(what: &str, outcome: Option<Result<(), Error>>) -> bool {
    match outcome {
        None => false,
        Some(Ok(())) => true,
        Some(Err(error)) => panic!("{what}: {error:?}"),
    }
}

/// Cuts every scene after every number of polls, repeatedly.
async fn sweep_polls(stage: &mut Stage, repetitions: usize) {
    let kind = stage.kind;
    for scene in SCENES.into_iter().filter(|scene| scene.fits(&kind)) {
        let mut most = 0;
        for repetition in 0..repetitions {
            for polls in 0.. {
                let at_once = repetition % 2 == 0;
                let cut = if at_once {
                    Cut::Polls(polls)
                } else {
                    Cut::Answered(polls)
                };
                let done = Box::pin(stage.play(scene, cut)).await;
                // `lock` of a held lock never completes; past all its steps is enough.
                if done || matches!(scene, Scene::LockHeld) && polls == 12 {
                    most = most.max(polls);
                    break;
                }
                assert!(
                    polls < 100,
                    "{scene:?} is never done, repetition {repetition}"
                );
            }
        }
        note(&format!(
            "{}, {scene:?}: done after at most {most} polls",
            kind.name
        ));
    }
    at_rest(&stage.client, Duration::from_secs(5)).await;
    assert_eq!(stage.contents(), Reply::Array(vec![]));
}

#[test]
fn a_call_dropped_after_any_number_of_polls_leaves_nothing() {
    alone(Duration::from_secs(60), async {
        let server = Borrowed::take();
        let mut stage = Stage::new(PLAIN, &server, &server.url()).await;
        Box::pin(sweep_polls(&mut stage, 16)).await;
    });
}

#[test]
fn a_call_of_any_sort_dropped_after_any_number_of_polls_leaves_nothing() {
    alone(Duration::from_secs(180), async {
        let server = Borrowed::take();
        for kind in KINDS.into_iter().skip(1) {
            let mut stage = Stage::new(kind, &server, &server.url()).await;
            Box::pin(sweep_polls(&mut stage, 4)).await;
        }
    });
}

#[test]
fn a_dropped_waiter_lets_the_next_one_in() {
    alone(Duration::from_secs(120), async {
        let server = Borrowed::take();
        for kind in KINDS {
            let mut stage = Stage::new(kind, &server, &server.url()).await;
            for polls in 0..12 {
                let guard = stage.rival("cut").await;
                let (first, second) = (stage.lock("cut"), stage.lock("cut"));
                let next = tokio::spawn(async move {
                    let guard = second.lock().await?;
                    guard.unlock().await
                });
                let gone = cut_after_polls(polls, ms(1), Box::pin(first.lock())).await;
                assert!(gone.is_none(), "it is held");
                guard.unlock().await.expect("held");
                let outcome = within(SETTLED, "the next waiter", next).await;
                outcome.expect("no panic").expect("granted");
                let what = format!("{}, {polls} polls", kind.name);
                stage.settled(&what, &Reply::Array(vec![])).await;
            }
            // Local queues of polling kinds remember other clients for a while.
            idle(&stage.client, Duration::from_secs(5)).await;
        }
    });
}

/// Runs a future for a time that is too short for timers, and drops it.
async fn cut_after<F: Future>(delay: Duration, future: F) -> Option<F::Output> {
    let end = Instant::now() + delay;
    tokio::select! {
        biased;
        done = Box::pin(future) => Some(done),
        () = async { while Instant::now() < end { tokio::task::yield_now().await } } => None,
    }
}

#[test]
fn a_connect_dropped_anywhere_leaves_no_connection_and_no_thread() {
    alone(Duration::from_secs(60), async {
        let server = Borrowed::take();
        let proxy = server.line();
        proxy.delay_replies(ms(1));
        eventually_within(
            SETTLED * 10,
            "other tests' threads have ended",
            async || threads() == 0,
        )
        .await;
        let (mut cuts, mut delay) = (0, Duration::ZERO);
        let connections = || server.clients("id=").len();
        let others = connections();
        loop {
            let connecting = cut_after(delay, Client::connect(proxy.url()));
            let done = connecting.await.is_some();
            if cuts % 10 == 0 || done {
                eventually_within(SETTLED * 5, "no thread", async || threads() == 0).await;
                eventually_within(SETTLED * 5, "no connection", async || {
                    connections() <= others
                })
                .await;
            }
            if done {
                break;
            }
            (cuts, delay) = (cuts + 1, delay + Duration::from_micros(100));
        }
        note(&format!("connect: {cuts} cuts"));
    });
}
