//! What semaphores and latches must do on every server.

use std::time::Duration;

use futures::future::try_join_all;
use leasehold::Lease;
use tokio::time::sleep;

use crate::behaviour::{Behaviour, Cell, Outcome, behaviours, ensure, later, said, woken};

/// For a semaphore whose permits have no lease of their own.
pub(crate) const OF_SEMAPHORES: &[Behaviour] = behaviours! {
    "take": take,
    "wake": wake,
    "renew": renew,
    "change": change,
};

/// For one whose permits have ids.
pub(crate) const OF_PERMITS: &[Behaviour] = behaviours! {
    "take": take_ids,
    "wake": wake_ids,
    "renew": renew_ids,
};

pub(crate) const OF_LATCHES: &[Behaviour] = behaviours! {
    "count down": count_down,
    "wake": open,
};

async fn take(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let (semaphore, theirs) = (client.semaphore(&cell.name), other.semaphore(&cell.name));
    ensure(
        semaphore.try_set_permits(2).await.map_err(said)?,
        "the permits are not set",
    )?;
    let permit = semaphore.acquire(2).await.map_err(said)?;
    let second = theirs.try_acquire(1, Duration::ZERO).await;
    match second {
        Ok(_) => return Err(later("more permits than there are")),
        Err(error) if error.is_timeout() => {}
        Err(error) => return Err(said(error)),
    }
    permit.release().await.map_err(said)?;
    let available = theirs.available().await.map_err(said)?;
    ensure(available == 2, "the permits are not given back")?;
    let again = theirs.acquire(1).await.map_err(said)?;
    again.release().await.map_err(said)?;
    Ok(None)
}

async fn wake(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let (semaphore, theirs) = (client.semaphore(&cell.name), other.semaphore(&cell.name));
    semaphore.try_set_permits(1).await.map_err(said)?;
    let permit = semaphore.acquire(1).await.map_err(said)?;
    let (_, late) = woken(&cell, &other, theirs.acquire(1), permit.release()).await?;
    Ok(late)
}

async fn renew(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let semaphore = client.semaphore(&cell.name);
    semaphore.try_set_permits(3).await.map_err(said)?;
    let one = semaphore.acquire(1).await.map_err(said)?;
    let two = semaphore.acquire(2).await.map_err(said)?;
    sleep(cell.leases()).await;
    let available = semaphore.available().await.map_err(said)?;
    ensure(available == 0, "a holder that lives lost its permits")?;
    one.release().await.map_err(said)?;
    two.release().await.map_err(said)?;
    Ok(None)
}

async fn change(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let semaphore = client.semaphore(&cell.name);
    semaphore.try_set_permits(1).await.map_err(said)?;
    semaphore.add_permits(2).await.map_err(said)?;
    let drained = semaphore.drain().await.map_err(said)?;
    ensure(drained == 3, "not all permits were taken")?;
    semaphore.set_permits(5).await.map_err(said)?;
    let permits = semaphore.permits().await.map_err(said)?;
    ensure(permits == 5, "the number is another")?;
    Ok(None)
}

async fn take_ids(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let semaphore = client.permit_expirable_semaphore(&cell.name);
    let theirs = other.permit_expirable_semaphore(&cell.name);
    semaphore.try_set_permits(2).await.map_err(said)?;
    let permit = semaphore.acquire(2, Lease::Renewed).await.map_err(said)?;
    let second = theirs.try_acquire(1, Duration::ZERO, Lease::Renewed).await;
    match second {
        Ok(_) => return Err(later("more permits than there are")),
        Err(error) if error.is_timeout() => {}
        Err(error) => return Err(said(error)),
    }
    let ids: Vec<_> = permit.ids().map(str::to_owned).collect();
    permit.forget();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    theirs.release_all(&ids).await.map_err(said)?;
    let available = theirs.available().await.map_err(said)?;
    ensure(available == 2, "the permits are not given back")?;
    Ok(None)
}

async fn wake_ids(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let semaphore = client.permit_expirable_semaphore(&cell.name);
    let theirs = other.permit_expirable_semaphore(&cell.name);
    semaphore.try_set_permits(1).await.map_err(said)?;
    let permit = semaphore.acquire(1, Lease::Renewed).await.map_err(said)?;
    let waiter = theirs.acquire(1, Lease::Renewed);
    let (_, late) = woken(&cell, &other, waiter, permit.release()).await?;
    Ok(late)
}

async fn renew_ids(cell: Cell) -> Outcome {
    let client = cell.client().await?;
    let semaphore = client.permit_expirable_semaphore(&cell.name);
    let many = cell.backend.many();
    semaphore.try_set_permits(many).await.map_err(said)?;
    let asked = (0..many).map(|_| semaphore.acquire(1, Lease::Renewed));
    let permits = try_join_all(asked).await.map_err(said)?;
    sleep(cell.leases()).await;
    let held = semaphore.acquired().await.map_err(said)?;
    ensure(held == i64::from(many), "a holder that lives lost a permit")?;
    for permit in permits {
        permit.release().await.map_err(said)?;
    }
    Ok(None)
}

async fn count_down(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let (latch, theirs) = (
        client.count_down_latch(&cell.name),
        other.count_down_latch(&cell.name),
    );
    ensure(
        latch.try_set_count(2).await.map_err(said)?,
        "the count is not set",
    )?;
    let left = theirs.count_down().await.map_err(said)?;
    ensure(left == 1, "the count is another")?;
    let early = latch.wait(Duration::ZERO).await;
    ensure(
        early.is_err_and(|error| error.is_timeout()),
        "it opens early",
    )?;
    theirs.count_down().await.map_err(said)?;
    latch.wait(Duration::ZERO).await.map_err(said)?;
    Ok(None)
}

async fn open(cell: Cell) -> Outcome {
    let (client, other) = (cell.client().await?, cell.client().await?);
    let (latch, theirs) = (
        client.count_down_latch(&cell.name),
        other.count_down_latch(&cell.name),
    );
    latch.try_set_count(1).await.map_err(said)?;
    let release = async { latch.count_down().await.map(drop) };
    let waiter = theirs.wait(Duration::from_secs(60));
    let ((), late) = woken(&cell, &other, waiter, release).await?;
    Ok(late)
}
