//! Settings of every size. A client connects and works, or reports what is wrong before it sends
//! anything.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use leasehold::settings::{Durability, LocalHandover};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, Lease, Lock};

use crate::choices::{count, duration, lease, pieces, signed};
use crate::world::{NOW, paused, secs, within};

const NAMES: [&str; 6] = ["billing", "@", " ", "\n", "ü", "\0"];

/// An operation of a client.
#[derive(Debug)]
enum Step {
    Lock(u8, Duration, Lease, Option<Duration>),
    Extend(Lease, Duration),
    Run(Duration, Lease),
    Permits(u32, u32, Duration, i64),
    PermitsFor(u32, Duration),
    Expirable(u32, u32, Duration, Lease),
    Leases(Duration, Duration, i64),
    Latch(u32, Duration),
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=7)? {
        0 => {
            let max_hold = if u.arbitrary()? {
                Some(duration(u)?)
            } else {
                None
            };
            Step::Lock(u.int_in_range(0..=4)?, duration(u)?, lease(u)?, max_hold)
        }
        1 => Step::Extend(lease(u)?, duration(u)?),
        2 => Step::Run(duration(u)?, lease(u)?),
        3 => Step::Permits(count(u)?, count(u)?, duration(u)?, signed(u)?),
        4 => Step::PermitsFor(count(u)?, duration(u)?),
        5 => Step::Expirable(count(u)?, count(u)?, duration(u)?, lease(u)?),
        6 => Step::Leases(duration(u)?, duration(u)?, signed(u)?),
        _ => Step::Latch(count(u)?, duration(u)?),
    })
}

fn builder(u: &mut Unstructured<'_>, redis: &EmbeddedRedis) -> Result<ClientBuilder> {
    let mut builder = redis.builder();
    for _ in 0..u.int_in_range(0..=4)? {
        builder = match u.int_in_range(0..=8)? {
            0 => builder.lease(duration(u)?),
            1 => builder.command_timeout(duration(u)?),
            2 => builder.connect_timeout(duration(u)?),
            3 => builder.safety_poll(duration(u)?),
            4 => builder.fair_claim(duration(u)?),
            5 => builder.local_handover(LocalHandover::Off),
            6 => {
                let (count, time) = (count(u)?, duration(u)?);
                builder.local_handover(LocalHandover::Streak { count, time })
            }
            7 => builder.name(pieces(u, &NAMES, 4)?),
            _ => builder.durability(Durability::replicas(count(u)?).within(duration(u)?)),
        };
    }
    Ok(builder)
}

/// Limits a wait that nothing else would end, because a caller may ask for an endless one.
fn limited(wait: Duration) -> Duration {
    wait.min(secs(20))
}

async fn take(client: &Client, step: &Step) -> std::result::Result<(), Error> {
    match *step {
        Step::Lock(kind, wait, lease, max_hold) => {
            let lock = match kind {
                0 => client.lock("a"),
                1 => client.fair_lock("a"),
                2 => client.string_lock("a"),
                3 => Lock::quorum([client.string_lock("a")]),
                _ => Lock::multi(["a", "b"].map(|name| client.lock(name))),
            };
            let mut acquire = lock.acquire().wait(wait).lease(lease);
            if let Some(max_hold) = max_hold {
                acquire = acquire.max_hold(max_hold);
            }
            let guard = acquire.await?;
            // Another waiter of the same client waits for the lock, and gets it.
            let next = lock.try_lock(limited(wait), Lease::Fixed(secs(1)));
            let (released, next) = tokio::join!(guard.unlock(), next);
            released?;
            next?.unlock().await
        }
        Step::Extend(first, then) => {
            let guard = client.lock("e").try_lock(NOW, first).await?;
            guard.extend(then).await?;
            guard.unlock().await
        }
        Step::Run(wait, lease) => {
            let work = async |_| tokio::time::sleep(Duration::from_millis(3)).await;
            client.lock("r").run(wait, lease, work).await
        }
        Step::Permits(total, number, wait, more) => {
            let semaphore = client.semaphore("s");
            semaphore.try_set_permits(total).await?;
            let permits = semaphore.try_acquire(number, limited(wait)).await?;
            semaphore.add_permits(more).await?;
            semaphore.add_permits(number.into()).await?;
            permits.release().await?;
            semaphore.available().await?;
            semaphore.drain().await.map(drop)
        }
        Step::PermitsFor(number, life) => client
            .semaphore("t")
            .try_set_permits_for(number, life)
            .await
            .map(drop),
        Step::Expirable(total, number, wait, lease) => {
            let permits = client.permit_expirable_semaphore("p");
            permits.try_set_permits(total).await?;
            // Millions of permits make the script slow, and the engine with it.
            let number = if (3..1_000_000_000).contains(&number) {
                number % 1000
            } else {
                number
            };
            let number = number.min(1001);
            permits
                .try_acquire(number, limited(wait), lease)
                .await
                .map(drop)
        }
        Step::Leases(lease, life, more) => {
            let permits = client.permit_expirable_semaphore("q");
            permits.try_set_permits(3).await?;
            let permit = permits.try_acquire(1, NOW, Lease::Fixed(secs(9))).await?;
            permits.update_lease(permit.id(), lease).await?;
            permits.expire_after(life).await?;
            permits.add_permits(more).await?;
            permits.set_permits(7).await?;
            permits.available().await.map(drop)
        }
        Step::Latch(count, wait) => {
            let latch = client.count_down_latch("l");
            latch.try_set_count(count).await?;
            latch.count_down().await?;
            latch.wait(limited(wait)).await
        }
    }
}

pub(super) fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let redis = EmbeddedRedis::new();
    let builder = builder(u, &redis)?;
    let mut steps = Vec::new();
    for _ in 0..u.int_in_range(1..=4)? {
        steps.push(step(u)?);
    }
    let deadline = duration(u)?;
    paused(async {
        match within(secs(5), "connect", Box::pin(builder.connect())).await {
            Ok(client) => {
                for step in &steps {
                    let what = format!("{step:?}");
                    let outcome = within(secs(90), &what, Box::pin(take(&client, step))).await;
                    // The engine is available and replies to everything.
                    let is_wrong = matches!(
                        outcome,
                        Err(Error::Unavailable { .. }
                            | Error::Unknown { .. }
                            | Error::Protocol { .. }
                            | Error::Closed)
                    );
                    assert!(!is_wrong, "{what}: {outcome:?}");
                }
                drop(within(secs(120), "shutdown", client.shutdown(deadline)).await);
            }
            Err(error) => {
                assert!(matches!(error, Error::Config(_)), "{error:?}");
                assert!(
                    redis.commands_run().is_empty(),
                    "something was sent: {error}"
                );
            }
        }
    });
    Ok(())
}
