//! The fault run's short form: instances with clocks that differ, each behind a proxy, on a server
//! that is cut off, frozen and killed. The server keeps its data.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::{Client, Error, FencingToken};
use leasehold_admin::Admin;
use leasehold_once::{Once, Ran};
use leasehold_testbed::{Proxy, Server, eventually, eventually_within, is_missing, ms};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::{LEASE, now, once};

const LIMIT: Duration = Duration::from_secs(60);
const INSTANCES: u64 = 4;
const PERIOD: u64 = 60;
const SKEW: u64 = 25;
/// A run of [`Times::AtLeast`] takes about this long.
const WORK: Duration = ms(30);

/// What happened to a tick, seen from outside of the crate.
#[derive(Clone, Debug, Default)]
struct Tick {
    begun: Vec<(Instant, Option<FencingToken>)>,
    finished: usize,
    /// Instances that died in the work.
    died: usize,
    /// Instances that have an answer.
    answered: u64,
}

type Ticks = Arc<Mutex<BTreeMap<u64, Tick>>>;

fn note(ticks: &Ticks, number: u64, note: impl FnOnce(&mut Tick)) {
    note(ticks.lock().expect("no panic").entry(number).or_default());
}

#[derive(Clone, Copy)]
enum Times {
    AtMost,
    AtLeast,
}

/// One instance: it handles every tick, a little before or after the others.
async fn instance(once: Once, times: Times, number: u64, epoch: SystemTime, ticks: Ticks) {
    let start = Instant::now();
    for tick in 0.. {
        let at = epoch + ms(tick * PERIOD);
        tokio::time::sleep_until(start + ms(tick * PERIOD + number * SKEW)).await;
        // Of some ticks, one instance dies in the work.
        let (is_mortal, dies) = ((tick + number).is_multiple_of(7), Notify::new());
        let step = async |token| {
            note(&ticks, tick, |tick| {
                tick.begun.push((Instant::now(), token));
            });
            sleep(WORK).await;
            if is_mortal {
                dies.notify_one();
                pending::<()>().await;
            }
            note(&ticks, tick, |tick| tick.finished += 1);
        };
        let handled = async {
            match times {
                Times::AtMost => once.at_most(at, || step(None)).await,
                Times::AtLeast => {
                    let work = async |token| {
                        step(Some(token)).await;
                        Ok::<_, Error>(())
                    };
                    once.at_least(at, work).await
                }
            }
        };
        tokio::select! {
            ran = handled => {
                assert_ne!(ran.expect("asked"), Ran::Missed, "clocks differ by little");
                note(&ticks, tick, |tick| tick.answered += 1);
            }
            () = dies.notified() => note(&ticks, tick, |tick| tick.died += 1),
        }
    }
}

/// Several processes would have several clocks; here one clock orders the steps of all.
async fn run(times: Times) -> BTreeMap<u64, Tick> {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (ticks, epoch) = (Ticks::default(), now());
    let (mut proxies, mut instances) = (Vec::new(), JoinSet::new());
    for number in 0..INSTANCES {
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&proxy.url()).await.expect("connects");
        proxies.push(proxy);
        instances.spawn(instance(once(&client), times, number, epoch, ticks.clone()));
    }
    let handled = || {
        let ticks = ticks.lock().expect("no panic");
        let done = ticks.values().filter(|tick| tick.answered > 0);
        done.count()
    };
    let more = async || {
        let before = handled();
        eventually_within(LIMIT, "more ticks", async || handled() > before + 5).await;
    };
    for round in 0..9 {
        more().await;
        let proxy = &proxies[round % proxies.len()];
        match round % 3 {
            0 => {
                proxy.refuse();
                proxy.cut();
                more().await;
                sleep(LEASE).await;
                proxy.pass();
            }
            1 => {
                server.pause();
                sleep(LEASE + ms(200)).await;
                server.resume();
            }
            _ => {
                // Replies are lost first: grants that nobody knows of.
                proxies.iter().for_each(Proxy::swallow_replies);
                sleep(ms(100)).await;
                server.kill();
                proxies.iter().for_each(Proxy::pass);
                sleep(ms(100)).await;
                server.restart();
            }
        }
    }
    more().await;
    // All instances come to the same tick.
    let last = ticks.lock().expect("no panic").len() as u64;
    let everywhere = || {
        let ticks = ticks.lock().expect("no panic");
        ticks
            .range(..last)
            .all(|(_, tick)| tick.answered + tick.died as u64 == INSTANCES)
    };
    eventually_within(LIMIT, "each instance is done", async || everywhere()).await;
    while let Some(ended) = instances.try_join_next() {
        ended.expect("no instance fails");
    }
    instances.shutdown().await;
    let ticks = ticks.lock().expect("no panic").clone();
    ticks
        .into_iter()
        .filter(|(number, _)| *number < last)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tick_runs_twice_while_instances_die_and_the_server_fails() {
    if is_missing() {
        return;
    }
    let ticks = run(Times::AtMost).await;
    let twice: Vec<_> = ticks
        .iter()
        .filter(|(_, tick)| tick.begun.len() > 1)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    let ran = ticks.values().filter(|tick| tick.finished == 1).count();
    let lost = ticks.len() - ran;
    assert!(ran > ticks.len() / 2, "{ran} of {}", ticks.len());
    assert!(lost > 0, "no instance died: the run shows little");
    println!("at most once: {} ticks, {lost} lost", ticks.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tick_is_finished_while_instances_die_and_the_server_fails() {
    if is_missing() {
        return;
    }
    let ticks = run(Times::AtLeast).await;
    let never: Vec<_> = ticks
        .iter()
        .filter(|(_, tick)| tick.finished == 0)
        .collect();
    assert!(never.is_empty(), "{never:?}");
    let mut begun: Vec<_> = ticks.values().flat_map(|tick| &tick.begun).collect();
    begun.sort();
    let grow = begun.windows(2).all(|pair| pair[0].1 < pair[1].1);
    assert!(grow, "a former holder began: {begun:?}");
    let again = ticks.values().filter(|tick| tick.begun.len() > 1).count();
    let twice = ticks.values().filter(|tick| tick.finished > 1).count();
    assert!(again > 0, "no instance died: the run shows little");
    println!(
        "at least once: {} ticks, {again} begun again, {twice} finished twice",
        ticks.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_granted_late_is_given_back() {
    if is_missing() {
        return;
    }
    // The claim of a tick may have expired while this one was on its way.
    let server = Server::start();
    let client = Client::connect(&server.url()).await.expect("connects");
    let (job, tick) = (once(&client).with_keep(ms(2000)), now());
    let job = job.expect("allowed");
    server.pause();
    let resume = async {
        sleep(ms(600)).await;
        server.resume();
    };
    let (ran, ()) = tokio::join!(job.at_most(tick, async || ()), resume);
    assert_eq!(ran.expect("asked"), Ran::Missed);
    let admin = Admin::new(&client);
    let no_claim = async || admin.locks("job@*").await.expect("asked").is_empty();
    eventually("it is no claim", no_claim).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_late_is_in_nobodys_way() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let builder = Client::builder(&server.url()).command_timeout(ms(200));
    let client = builder.connect().await.expect("connects");
    for pause in [300, 500, 700, 900, 1100, 1500, 2000] {
        let (job, tick) = (once(&client), now());
        server.pause();
        let resume = async {
            sleep(ms(pause)).await;
            server.resume();
        };
        let (ran, ()) = tokio::join!(job.at_most(tick, async || ()), resume);
        assert_eq!(ran.expect("asked"), Ran::Here(()), "after {pause} ms");
    }
}
