//! Clients that reclaim their holds, and a primary that fails over while its replicas lag, restarts, or loses its data.
//!
//! At any time at most one guard of a name may say that its lock is held, whatever happens. When the weather has
//! cleared, everybody gets a lock again.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::settings::Failover;
use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, EmbeddedRedis, Lease, LockGuard};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::number;
use crate::plan::{ms, name_of};

const CLIENTS: usize = 4;
const USERS: usize = 2;
const NAMES: usize = 2;
const LEASE: Duration = ms(2000);
/// How many things go wrong.
const STRIKES: usize = 12;
/// A grace, a session that begins, and a name that a dead client holds.
const RECOVERY: Duration = ms(15_000);

/// The guards of each name whose holders are inside.
type Inside = Arc<Mutex<Vec<Vec<Arc<LockGuard>>>>>;

/// Runs a world and returns how many guards were taken, or what was wrong.
fn run(seed: u64) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(world(seed))
}

async fn connected(redis: &EmbeddedRedis) -> Client {
    let reclaim = Failover::Reclaim { replicas: 1 };
    let builder = redis.builder().lease(LEASE).failover(reclaim);
    builder.connect().await.expect("a client")
}

async fn world(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed);
    let redis = EmbeddedRedis::new();
    let inside: Inside = Arc::new(Mutex::new(vec![Vec::new(); NAMES]));
    let (faults, taken) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<Mutex<u64>>::default(),
    );
    let mut users = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = connected(&redis).await;
        for _ in 0..USERS {
            let (client, inside) = (client.clone(), inside.clone());
            let (faults, taken, mut rng) = (faults.clone(), taken.clone(), rng.fork());
            users.spawn(async move {
                loop {
                    let name = rng.usize(0..NAMES);
                    if let Some(fault) = visit(&client, &inside, name, &taken, &mut rng).await {
                        faults.lock().push(fault);
                    }
                }
            });
        }
        clients.push(client);
    }
    for _ in 0..STRIKES {
        sleep(ms(rng.u64(50..2500))).await;
        strike(&redis, &mut rng).await;
    }
    redis.set_replicas(1);
    redis
        .links()
        .iter()
        .for_each(|link| link.set_faults(Faults::default(), seed));
    users.shutdown().await;
    inside.lock().iter_mut().for_each(Vec::clear);
    let others = redis.links().iter().filter(|link| link.is_alive()).count();
    let last = connected(&redis).await;
    for name in 0..NAMES {
        let lock = last.lock(name_of(name));
        let taking = timeout(RECOVERY, lock.lock()).await;
        let guard = taking.map_err(|_| format!("{name} stays locked, {others} clients live"))?;
        guard
            .map_err(|error| format!("{name}: {error}"))?
            .unlock()
            .await
            .map_err(|error| error.to_string())?;
    }
    let fault = faults.lock().pop();
    let taken = *taken.lock();
    fault.map_or(Ok(taken), Err)
}

/// Takes a lock, stays inside for a while, and looks for others there.
async fn visit(
    client: &Client,
    inside: &Inside,
    name: usize,
    taken: &Mutex<u64>,
    rng: &mut Rng,
) -> Option<String> {
    let lease = if rng.bool() {
        Lease::Renewed
    } else {
        Lease::Fixed(ms(rng.u64(300..4000)))
    };
    let guard = client
        .lock(name_of(name))
        .try_lock(ms(rng.u64(0..3000)), lease)
        .await;
    let Ok(guard) = guard else {
        sleep(ms(rng.u64(1..200))).await;
        return None;
    };
    *taken.lock() += 1;
    let guard = Arc::new(guard);
    inside.lock()[name].push(guard.clone());
    let mut fault = None;
    for _ in 0..rng.u8(1..20) {
        let trusted = inside.lock()[name]
            .iter()
            .filter(|guard| guard.check().is_ok())
            .count();
        if trusted > 1 {
            fault = Some(format!("{trusted} guards of {name} say that it is held"));
        }
        sleep(ms(rng.u64(1..120))).await;
    }
    inside.lock()[name].retain(|other| !Arc::ptr_eq(other, &guard));
    if let Some(guard) = Arc::into_inner(guard)
        && rng.bool()
    {
        // Lost ones are not the point.
        drop(guard.unlock().await);
    }
    fault
}

async fn strike(redis: &EmbeddedRedis, rng: &mut Rng) {
    let link = || redis.links();
    match rng.u8(0..10) {
        0..=2 => {
            redis.set_replicas(0);
            sleep(ms(rng.u64(1..800))).await;
            redis.fail_over();
            redis.set_replicas(1);
        }
        3 => {
            redis.fail_over();
            redis.set_replicas(rng.u32(0..2));
        }
        4 => redis.restart_empty(),
        5 => redis.set_replicas(rng.u32(0..2)),
        6 => {
            if let Some(link) = rng.choice(link()) {
                link.cut();
            }
        }
        7 => {
            if let Some(link) = rng.choice(link()) {
                link.mute();
            }
        }
        8 => {
            let slow = Faults {
                reply: Delay::between(ms(1), ms(rng.u64(2..400))),
                ..Faults::default()
            };
            if let Some(link) = rng.choice(link()) {
                link.set_faults(slow, rng.u64(..));
            }
        }
        _ => {
            if let Some(link) = rng.choice(link()).filter(|_| rng.u8(0..3) == 0) {
                link.crash();
            }
        }
    }
}

#[test]
fn former_holders_come_first() {
    let seeds = match number("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or(200),
    };
    let mut taken = 0;
    for seed in seeds {
        match run(seed) {
            Ok(count) => taken += count,
            Err(why) => panic!("LEASEHOLD_SEED={seed} of reclaim: {why}"),
        }
    }
    println!("{taken} guards");
    assert!(taken > 0, "nobody got anything");
}
