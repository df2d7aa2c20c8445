//! A behaviour of a cell, and what its tests have in common.

use std::time::Duration;

use futures::future::try_join;
use leasehold::{Client, Error, Lock};
use leasehold_testbed::Kind;
use tokio::time::{Instant, sleep, timeout};

use crate::backend::Backend;

/// A waiter that has no messages asks again within this time.
pub(crate) const POLL_MAX: Duration = Duration::from_secs(20);

/// A kind on a server.
pub(crate) struct Cell {
    pub(crate) backend: Backend,
    pub(crate) kind: Kind,
    /// What this cell locks. On a server that others use as well, no other cell has this name.
    pub(crate) name: String,
}

/// What did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client did not connect.
    AtStart(String),
    /// A call failed, or something did not happen.
    Later(String),
}

/// No message came.
pub(crate) const ASKS: &str = "waiters ask";

/// `Ok` may tell with what it worked.
pub(crate) type Outcome = Result<Option<&'static str>, Fault>;

/// A behaviour and its name in the table.
pub(crate) struct Behaviour {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Cell) -> futures::future::BoxFuture<'static, Outcome>,
}

macro_rules! behaviours {
    ($($name:literal: $run:ident,)*) => {
        &[$($crate::behaviour::Behaviour { name: $name, run: |cell| Box::pin($run(cell)) },)*]
    };
}
pub(crate) use behaviours;

impl Cell {
    pub(crate) async fn client(&self) -> Result<Client, Fault> {
        let client = self
            .backend
            .builder()
            .lease(self.backend.lease())
            .connect()
            .await;
        client.map_err(|error| Fault::AtStart(error.to_string()))
    }

    /// Long enough for a hold to be lost if it is not renewed.
    pub(crate) fn leases(&self) -> Duration {
        self.backend.lease() * self.backend.leases()
    }

    pub(crate) fn lock(&self, client: &Client) -> Lock {
        self.kind.lock(client, &self.name)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn said(error: Error) -> Fault {
    Fault::Later(error.to_string())
}

#[expect(clippy::fn_params_excessive_bools, reason = "a claim")]
pub(crate) fn ensure(holds: bool, what: &str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(later(what)) }
}

pub(crate) fn later(what: &str) -> Fault {
    Fault::Later(what.to_owned())
}

/// What a waiter of this client gets that waits for some leases until `release` lets it in.
pub(crate) async fn woken<T>(
    cell: &Cell,
    waiting: &Client,
    waiter: impl Future<Output = Result<T, Error>>,
    release: impl Future<Output = Result<(), Error>>,
) -> Result<(T, Option<&'static str>), Fault> {
    let waiter = timeout(cell.leases() * 2 + POLL_MAX, Box::pin(waiter));
    // A waiter also asks when the lease that it knows ends: at least a sixth of a lease before or
    // after. If it asked now, a busy machine could be so slow that the message seems to be missing.
    let quiet = cell.leases() + cell.backend.lease() / 6;
    let release = async {
        sleep(quiet).await;
        release.await.map_err(said)?;
        Ok(Instant::now())
    };
    let granted = async {
        let granted = waiter.await.map_err(|_| later("the waiter hangs"))?;
        Ok((granted.map_err(said)?, Instant::now()))
    };
    let ((granted, at), released) = try_join(granted, release).await?;
    let late = at.saturating_duration_since(released);
    let asked = cell.backend.asked(cell.kind, late, &waiting.stats());
    Ok((granted, asked.then_some(ASKS)))
}
