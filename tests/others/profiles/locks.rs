//! What locks and clients must do on every server, or be refused at the start.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;
use leasehold::settings::{Credentials, Durability};
use leasehold::test_util::{Slots, Undeclared};
use leasehold::{Client, ClientBuilder, Ended, Error, HoldState, Lease, Lock, LockGuard};
use leasehold_admin::Admin;
use leasehold_admin::preflight::Use;
use leasehold_testbed::KINDS;
use tokio::time::{sleep, timeout};

use crate::behaviour::{Behaviour, Cell, Fault, Outcome, behaviours, ensure, later, said, woken};

/// So many readers die, more than the release of another one looks at.
const DEAD: u32 = 40;
/// Two locks are on the same one of two servers so often by chance, and then they show nothing.
const PAIRS: u32 = 16;
/// A login token is valid for this long.
const TOKEN: Duration = Duration::from_secs(15 * 60);
/// For each kind.
pub(crate) const OF_KINDS: &[Behaviour] = behaviours! {
    "take": take,
    "exclude": exclude,
    "wake": wake,
    "renew 1": renew_one,
    "renew 3": renew_three,
    "renew many": renew_many,
    "forget the dead": forget_the_dead,
    "re-enter": re_enter,
    "notice a loss": notice,
    "inspect": inspect,
    "list": list,
    "force": force,
};

/// For the client, whatever it locks. The kind is the plain lock.
pub(crate) const OF_CLIENTS: &[Behaviour] = behaviours! {
    "ping": ping,
    "preflight": preflight_says,
    "exclude one of several": exclude_one_of_several,
    "log in again": log_in_again,
    "copies": copies,
    "ask once": ask_once,
};

/// For a client of a server that does not say what it refused.
pub(crate) const OF_CLIENTS_OF_REAL: &[Behaviour] = behaviours! {
    "ping": ping,
    "preflight": preflight,
    "exclude one of several": exclude_one_of_several,
};

async fn take(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    for client in [&client, &other, &client] {
        let guard = cell.lock(client).lock().await.map_err(said)?;
        ensure(
            cell.lock(&other).is_locked().await.map_err(said)?,
            "it looks free",
        )?;
        guard.unlock().await.map_err(said)?;
        ensure(
            !cell.lock(&other).is_locked().await.map_err(said)?,
            "it is not free",
        )?;
    }
    Ok(None)
}

async fn exclude(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    let second = cell.lock(&other).try_lock_now(Lease::Renewed).await;
    match second {
        Ok(_) if cell.kind.exclusive => return Err(later("two holders")),
        Ok(second) => second.unlock().await.map_err(said)?,
        Err(error) if error.is_timeout() && cell.kind.exclusive => {}
        Err(error) => return Err(said(error)),
    }
    guard.unlock().await.map_err(said)?;
    Ok(None)
}

async fn wake(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    // A writer is in the way of readers as well.
    let first: Lock = if cell.kind.exclusive {
        cell.lock(&client)
    } else {
        client.read_write_lock(&cell.name).write().clone()
    };
    let guard = first.lock().await.map_err(said)?;
    let second = cell.lock(&other);
    let release = async {
        // The waiter must not get it from a holder that lost it.
        guard.check()?;
        guard.unlock().await
    };
    let (taken, late) = woken(&cell, &other, second.lock(), release).await?;
    taken.unlock().await.map_err(said)?;
    Ok(late)
}

async fn renew(cell: &Cell, holds: u32) -> Outcome {
    let client = cell.client().await?;
    let locks: Vec<_> = (0..holds)
        .map(|number| cell.kind.lock(&client, &format!("{}:{number}", cell.name)))
        .collect();
    let guards = try_join_all(locks.iter().map(Lock::lock)).await;
    let guards: Vec<LockGuard> = guards.map_err(said)?;
    sleep(cell.leases()).await;
    let lost = guards
        .iter()
        .filter(|guard| guard.state() == HoldState::Lost)
        .count();
    ensure(lost == 0, &format!("{lost} of {holds} holds were lost"))?;
    let unsure = guards.iter().any(|guard| guard.state() != HoldState::Held);
    ensure(!unsure, "a hold is uncertain")?;
    for guard in guards {
        guard.unlock().await.map_err(said)?;
    }
    Ok(None)
}

async fn renew_one(cell: Cell) -> Outcome {
    renew(&cell, 1).await
}

async fn renew_three(cell: Cell) -> Outcome {
    if !cell.kind.exclusive {
        // Three readers of one lock, beside those of three locks.
        let (client, other) = (cell.client().await?, cell.client().await?);
        let readers = [&client, &other, &client].map(|client| cell.lock(client));
        let guards = try_join_all(readers.iter().map(Lock::lock)).await;
        let guards = guards.map_err(said)?;
        sleep(cell.leases()).await;
        let held = guards.iter().all(|guard| guard.state() == HoldState::Held);
        ensure(held, "a reader was lost")?;
    }
    renew(&cell, 3).await
}

async fn renew_many(cell: Cell) -> Outcome {
    renew(&cell, cell.backend.many()).await
}

/// Readers that died do not keep a writer out once the last living one has left.
async fn forget_the_dead(cell: Cell) -> Outcome {
    if cell.kind.exclusive {
        return Ok(None);
    }
    let (client, other) = (cell.client().await?, cell.client().await?);
    let living = cell.lock(&client).lock().await.map_err(said)?;
    for _ in 0..DEAD {
        let lock = cell.lock(&other);
        let dead = lock
            .try_lock_now(Lease::Fixed(cell.backend.lease() / 2))
            .await;
        dead.map_err(said)?.forget();
    }
    sleep(cell.leases()).await;
    let found = Admin::new(&client).locks(&cell.name).await.map_err(said)?;
    let listed = found.first().map_or(0, |lock| lock.holders.len());
    let may_be_missing = found.is_truncated();
    ensure(
        listed == 1 || may_be_missing,
        &format!("{listed} readers are listed"),
    )?;
    living.unlock().await.map_err(said)?;
    let writer = other.read_write_lock(&cell.name).write().clone();
    let writing = writer.try_lock_now(Lease::Renewed).await.map_err(said)?;
    writing.unlock().await.map_err(said)?;
    Ok(None)
}

async fn re_enter(cell: Cell) -> Outcome {
    if !cell.kind.reentrant {
        return Ok(None);
    }
    let client = cell.client().await?;
    let lock = cell.lock(&client);
    let outer = lock.lock().await.map_err(said)?;
    let inner = outer.reenter().await.map_err(said)?;
    sleep(cell.leases()).await;
    inner.unlock().await.map_err(said)?;
    ensure(outer.state() == HoldState::Held, "the outer hold was lost")?;
    outer.unlock().await.map_err(said)?;
    ensure(
        !lock.is_locked().await.map_err(said)?,
        "it is not free at the end",
    )?;
    Ok(None)
}

async fn notice(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    for key in cell.kind.keys(&cell.name) {
        cell.backend.remove(&key);
    }
    let ended = timeout(cell.backend.lease() * 2, guard.ended()).await;
    match ended {
        Ok(Ended::Lost(_)) => Ok(None),
        Ok(other) => Err(later(&format!("{other:?}"))),
        Err(_) => Err(later("the holder does not notice")),
    }
}

async fn inspect(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    let holder = cell.lock(&other).holder().await.map_err(said)?;
    ensure(holder.is_some(), "no holder is seen")?;
    guard.unlock().await.map_err(said)?;
    Ok(None)
}

async fn list(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    let found = Admin::new(&client)
        .locks(&format!("{}*", cell.name))
        .await
        .map_err(said)?;
    ensure(
        !found.is_empty() || found.is_truncated(),
        "it is not listed",
    )?;
    guard.unlock().await.map_err(said)?;
    Ok(None)
}

async fn force(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    sleep(cell.backend.lease()).await;
    let freed = cell
        .lock(&other)
        .force_unlock("a test")
        .await
        .map_err(said)?;
    ensure(freed, "nothing was freed")?;
    let noticed = timeout(cell.backend.lease() * 2, guard.ended()).await;
    ensure(noticed.is_ok(), "the holder does not notice")?;
    Ok(None)
}

async fn ping(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    client.ping().await.map_err(said)?;
    Ok(None)
}

async fn preflight(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    Admin::new(&client).preflight().await.map_err(said)?;
    Ok(None)
}

/// A lock that is held as one of several is held for everybody who wants it alone.
async fn exclude_one_of_several(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    for pair in 0..PAIRS {
        let names = ["a", "b"].map(|part| format!("{}:{pair}:{part}", cell.name));
        let both = Lock::multi(names.each_ref().map(|name| client.lock(name)));
        let guard = both.lock().await.map_err(said)?;
        for name in &names {
            match other.lock(name).try_lock_now(Lease::Renewed).await {
                Ok(_) => return Err(later("two holders")),
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(said(error)),
            }
        }
        guard.unlock().await.map_err(said)?;
    }
    Ok(None)
}

/// It says beforehand which kinds work, and how. The client has not met the limits of the server
/// before.
async fn preflight_says(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let report = Admin::new(&client)
        .preflight()
        .uses([Use::Lock])
        .await
        .map_err(said)?;
    let report = report.to_string();
    let says = |text: &str, holds: bool| {
        let what = format!("the preflight is wrong about `{text}`: {report}");
        ensure(report.contains(text) == holds, &what)
    };
    let profile = cell
        .backend
        .engine()
        .profile()
        .expect("it was made with one");
    let refused: Vec<_> = profile
        .refused
        .iter()
        .flat_map(|all| all.commands)
        .collect();
    let is_silent = refused.contains(&&"SUBSCRIBE");
    let undeclared = matches!(profile.undeclared, Undeclared::Refused(_));
    // The client of a cluster chooses the node itself, and asks only where scripts must have keys.
    let asks = !profile.is_cluster || profile.without_keys.is_some();
    says("one slot a call", asks && profile.slots != Slots::Several)?;
    says("works: lock", !is_silent)?;
    says("declared keys only", undeclared)?;
    says("no WAIT", refused.contains(&&"WAIT"))?;
    says(
        "waiters ask, because the server has no messages: lock",
        is_silent,
    )?;
    Ok(None)
}

/// Nothing is lost when the server ends connections whose login is old.
async fn log_in_again(cell: Cell) -> Outcome {
    let engine = cell.backend.engine();
    let profile = engine.profile().expect("it was made with one");
    let Some(lasts) = profile.login_lasts else {
        return Ok(None);
    };
    engine.require_password("token");
    // A token is valid for 15 minutes, and the provider makes a new one for each login.
    let token = || async { Ok(Credentials::new("default", "token").valid_for(TOKEN)) };
    let client = engine.builder().credentials(token).connect().await;
    let client = client.map_err(|error| Fault::AtStart(error.to_string()))?;
    let guard = cell.lock(&client).lock().await.map_err(said)?;
    sleep(lasts * 2).await;
    ensure(guard.state() == HoldState::Held, "the hold was lost")?;
    guard.unlock().await.map_err(said)?;
    Ok(None)
}

/// No connection sends a refused command twice, whatever is asked of it, and however long it lives.
async fn ask_once(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    // A client that needs copies is refused where there is no WAIT.
    let durable = durable(&cell).connect().await.ok();
    for _ in 0..2 {
        // Whether each of these works is the subject of other behaviours.
        drop(client.ping().await);
        drop(Admin::new(&client).preflight().await);
        drop(Admin::new(&client).locks("*").await);
        drop(Admin::new(&client).connections().await);
        if let Some(durable) = &durable {
            drop(cell.lock(durable).try_lock_now(Lease::Renewed).await);
        }
        take_each(&client).await;
        match wait_and_take(&cell, &client, &other).await {
            Ok(()) | Err(Fault::AtStart(_)) => {}
            Err(fault) => return Err(fault),
        }
        // Longer than a missing right is remembered that a lock needs.
        sleep(Duration::from_secs(61)).await;
    }
    no_repetition(&cell)
}

fn durable(cell: &Cell) -> ClientBuilder {
    let engine = cell.backend.engine();
    engine.builder().durability(Durability::replicas(1))
}

/// Whether each of these works is the subject of other cells.
async fn take_each(client: &Client) {
    for kind in &KINDS {
        drop(
            kind.lock(client, kind.name)
                .try_lock_now(Lease::Renewed)
                .await,
        );
    }
    let (semaphore, permits) = (
        client.semaphore("s").with_limit(1),
        client.permit_expirable_semaphore("p").with_limit(1),
    );
    drop(semaphore.try_acquire(1, Duration::ZERO).await);
    drop(permits.try_acquire(1, Duration::ZERO, Lease::Renewed).await);
    let latch = client.count_down_latch("l");
    drop(latch.try_set_count(1).await);
    drop(latch.count_down().await);
}

/// Where copies cannot be waited for, a client that asks for them does not start. Otherwise every
/// acquisition would fail.
async fn copies(cell: Cell) -> Outcome {
    let client = match durable(&cell).connect().await {
        Ok(client) => client,
        Err(Error::Protocol { .. }) => return Ok(None),
        Err(error) => return Err(Fault::AtStart(error.to_string())),
    };
    match cell.lock(&client).try_lock_now(Lease::Renewed).await {
        Ok(_) | Err(Error::NotDurable { .. }) => Ok(None),
        Err(error) => Err(said(error)),
    }
}

async fn wait_and_take(cell: &Cell, holder: &Client, waiter: &Client) -> Result<(), Fault> {
    let guard = cell.lock(holder).lock().await.map_err(said)?;
    let second = cell.lock(waiter);
    let release = async {
        sleep(cell.leases()).await;
        guard.unlock().await
    };
    let (taken, released) = futures::future::join(second.lock(), release).await;
    released.map_err(said)?;
    taken.map_err(said)?.unlock().await.map_err(said)
}

fn no_repetition(cell: &Cell) -> Outcome {
    let refused = cell.backend.engine().refused().into_iter();
    let again = refused.filter(|(_, times)| *times > 1);
    let again: BTreeSet<_> = again.map(|((_, command), _)| command).collect();
    let again: Vec<_> = again.into_iter().collect();
    ensure(again.is_empty(), &format!("again: {}", again.join(", ")))?;
    Ok(None)
}
