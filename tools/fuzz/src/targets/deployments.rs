//! Wrong replies of one server, of sentinels and of a cluster. Each call must return a value or a
//! documented error. Once the replies are correct again, everything must work on new connections.

use arbitrary::{Result, Unstructured};
use leasehold::{Client, Error, Lease, Lock};
use leasehold_admin::Admin;

use crate::junk::step;
use crate::server::FakeServer;
use crate::world::{HANG, NOW, ms, paused, secs, within};

const LEASE: Lease = Lease::Fixed(secs(20));

/// Longer than the sum of all timeouts within one call.
const CALL_MAX: std::time::Duration = secs(45);

pub(super) fn server(u: &mut Unstructured<'_>) -> Result<()> {
    run(u, "redis://fuzz:1/0")
}

pub(super) fn sentinel(u: &mut Unstructured<'_>) -> Result<()> {
    run(u, "redis-sentinel://s1:1,s2:2/locks")
}

pub(super) fn cluster(u: &mut Unstructured<'_>) -> Result<()> {
    run(u, "redis-cluster://n1:1,n2:2")
}

async fn ask(client: &Client, choice: u8) -> std::result::Result<(), Error> {
    let (wait, name) = (ms(300), "a");
    let lock = match choice {
        0 => client.lock(name),
        1 => client.fair_lock(name),
        2 => client.fenced_lock(name).into(),
        3 => client.read_write_lock(name).read().clone(),
        4 => client.read_write_lock(name).write().clone(),
        5 => client.string_lock(name),
        6 => Lock::multi([name, "b", "{c}:d"].map(|name| client.lock(name))),
        7 => Lock::quorum([client.string_lock(name)]),
        8 => {
            let semaphore = client.semaphore("s");
            semaphore.try_set_permits(2).await?;
            let permit = semaphore.try_acquire(1, wait).await?;
            semaphore.available().await?;
            return permit.release().await;
        }
        9 => {
            let permits = client.permit_expirable_semaphore("p");
            permits.try_set_permits(2).await?;
            let taken = permits.try_acquire(2, wait, LEASE).await?;
            permits.remaining_lease(taken.id()).await?;
            permits.acquired().await?;
            return permits.available().await.map(drop);
        }
        10 => {
            let latch = client.count_down_latch("l");
            latch.try_set_count(1).await?;
            latch.count_down().await?;
            return latch.wait(wait).await;
        }
        11 => return Admin::new(client).locks("*").await.map(drop),
        12 => {
            let found = Admin::new(client).preflight().await?;
            let worst = found.worst();
            assert!(!format!("{found} {found:?} {worst:?}").is_empty());
            return Ok(());
        }
        13 => return client.ping().await,
        _ => {
            let lock = client.lock(name);
            lock.is_locked().await?;
            lock.holder().await?;
            lock.remaining_lease().await?;
            return lock.force_unlock("a test").await.map(drop);
        }
    };
    let lease = if choice.is_multiple_of(2) {
        LEASE
    } else {
        Lease::Renewed
    };
    let guard = lock.try_lock(wait, lease).await?;
    // A waiter, so that the client subscribes.
    let (waited, ()) = tokio::join!(lock.try_lock(wait, LEASE), async {
        tokio::time::sleep(ms(100)).await;
        drop(guard.check());
        drop(guard.unlock().await);
    });
    waited?.unlock().await
}

async fn works(client: &Client) -> std::result::Result<(), Error> {
    client.ping().await?;
    let guard = client.lock("fresh").try_lock(NOW, LEASE).await?;
    guard.unlock().await
}

fn run(u: &mut Unstructured<'_>, url: &str) -> Result<()> {
    let (is_valkey, is_whole, later) = (u.arbitrary()?, u.ratio(3, 4)?, u.ratio(1, 4)?);
    let piece = if is_whole {
        usize::MAX
    } else {
        u.int_in_range(1..=40)?
    };
    let mut asked = Vec::new();
    for _ in 0..u.int_in_range(1..=5)? {
        asked.push(u.int_in_range(0..=14)?);
    }
    let mut steps = Vec::new();
    for _ in 0..u.int_in_range(1..=8)? {
        steps.push(step(u)?);
    }
    let is_old = u.arbitrary()?;
    paused(async {
        let mut server = FakeServer::new(is_valkey, steps, piece);
        server.is_old = is_old;
        let dialled = server.clone();
        let builder = Client::builder(url).dial_by(move |_| dialled.dial());
        let connected = async {
            if later {
                builder.connect_in_background().await
            } else {
                builder.connect().await
            }
        };
        let client = match within(secs(5), "connect", Box::pin(connected)).await {
            Ok(client) => client,
            Err(error) => {
                let is_fit = matches!(error, Error::Unavailable { .. } | Error::Protocol { .. });
                assert!(is_fit, "{error:?}");
                return;
            }
        };
        for choice in asked {
            let outcome = within(
                CALL_MAX,
                &format!("call {choice}"),
                Box::pin(ask(&client, choice)),
            )
            .await;
            let is_wrong = matches!(outcome, Err(Error::Config(_) | Error::Closed));
            assert!(!is_wrong, "call {choice}: {outcome:?}");
        }
        server.recover();
        let mut last = works(&client).await;
        for _ in 0..120 {
            if last.is_err() {
                tokio::time::sleep(ms(500)).await;
                last = within(CALL_MAX, "works", works(&client)).await;
            }
        }
        assert!(
            last.is_ok(),
            "{HANG} the server has recovered, its client not: {last:?}"
        );
        drop(within(secs(60), "shutdown", client.shutdown(secs(5))).await);
    });
    Ok(())
}
