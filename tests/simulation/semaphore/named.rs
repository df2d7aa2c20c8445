//! A semaphore of either kind.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Client, Error, PermitExpirableSemaphore, Semaphore};

use crate::kind::Kind;
use crate::ledger::Held;
use crate::plan::name_of;
use crate::user::Request;

#[derive(Debug)]
pub(crate) enum Named {
    Plain(Semaphore),
    Expirable(PermitExpirableSemaphore),
}

impl Named {
    pub(crate) fn new(kind: Kind, client: &Client, number: usize) -> Self {
        let name = name_of(number);
        match kind {
            Kind::Permits => Named::Expirable(client.permit_expirable_semaphore(name)),
            _ => Named::Plain(client.semaphore(name)),
        }
    }

    pub(crate) async fn available(&self) -> Result<i64, Error> {
        match self {
            Named::Plain(semaphore) => semaphore.available().await,
            Named::Expirable(semaphore) => semaphore.available().await,
        }
    }

    pub(crate) async fn try_set(&self, permits: u32) -> Result<bool, Error> {
        match self {
            Named::Plain(semaphore) => semaphore.try_set_permits(permits).await,
            Named::Expirable(semaphore) => semaphore.try_set_permits(permits).await,
        }
    }

    pub(crate) async fn add(&self, change: i64) -> Result<(), Error> {
        match self {
            Named::Plain(semaphore) => semaphore.add_permits(change).await,
            Named::Expirable(semaphore) => semaphore.add_permits(change).await,
        }
    }

    pub(crate) async fn take(
        &self,
        permits: u32,
        Request { wait, lease, .. }: Request,
    ) -> Result<Held, Error> {
        match self {
            Named::Plain(semaphore) => {
                let taken = match wait {
                    Some(wait) => semaphore.try_acquire(permits, wait).await,
                    None => semaphore.acquire(permits).await,
                };
                taken.map(|permit| Held::Semaphore(Arc::new(permit)))
            }
            Named::Expirable(semaphore) => {
                let patience = wait.unwrap_or(Duration::MAX);
                let taken = match permits {
                    1 if wait.is_none() => semaphore.acquire(1, lease).await,
                    _ => semaphore.try_acquire(permits, patience, lease).await,
                };
                taken.map(|permit| Held::Permit(Arc::new(permit)))
            }
        }
    }
}
