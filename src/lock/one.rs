//! One lock on one server, as the session sees it.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::owner::Owner;
use crate::protocol::place::Place;
use crate::protocol::replies::{self, Inspected};
use crate::protocol::{Call, Unexpected, Value};
use crate::session::hold::{Hold, Terms};
use crate::session::request::{Proofs, Request, Wait};
use crate::session::{Handle, Tenancy};
use crate::transport::Lane;

/// What an acquisition asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    /// The servers' clocks know nothing of each other.
    pub(crate) drifts: bool,
    /// Holds that outlive the call: it may take the same locks again.
    pub(crate) shown: Arc<[Arc<Hold>]>,
}

impl Wanted {
    pub(crate) fn new(wait: Wait, lease: Lease) -> Self {
        Wanted { wait, lease, max_hold: None, drifts: false, shown: Arc::default() }
    }
}

/// One lock and its client.
#[derive(Clone)]
pub(crate) struct One {
    pub(crate) handle: Arc<Handle>,
    pub(crate) place: Result<Arc<Place>, ConfigError>,
    /// Whose acquisitions are one owner's; else each is one of its own.
    pub(crate) owner: Option<Owner>,
}

impl One {
    pub(crate) fn place(&self) -> Result<&Arc<Place>, ConfigError> {
        self.place.as_ref().map_err(Clone::clone)
    }

    /// Changes what it is about; holds that are there keep what they were taken for.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Place)) {
        if let Ok(place) = &mut self.place {
            change(Arc::make_mut(place));
        }
    }

    pub(crate) fn request(&self, wanted: &Wanted) -> Result<Request, ConfigError> {
        let terms = terms(&self.handle, wanted)?;
        let holds = wanted.shown.iter().filter(|hold| self.is_under(hold)).cloned().collect();
        let (place, proofs) = (self.place()?.clone(), Proofs { holds, owner: self.owner.clone() });
        Ok(Request::new(&self.handle.session, place, proofs, terms, wanted.wait))
    }

    pub(crate) async fn take(&self, wanted: &Wanted) -> Result<Tenancy, Error> {
        crate::session::acquire::acquire(&self.handle, self.request(wanted)?).await
    }

    /// Is it a hold under the key of this lock, of its client?
    pub(crate) fn is_under(&self, hold: &Hold) -> bool {
        let client = self.handle.session.client_id();
        self.place.as_ref().is_ok_and(|place| hold.is_under(client, &place.key))
    }

    pub(crate) async fn inspect(&self) -> Result<Option<Inspected>, Error> {
        let place = self.place()?;
        ask(&self.handle, &place.name, place.inspect(), |reply| place.inspected(reply)).await
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool, Error> {
        let place = self.place()?;
        let call = place.force_release(self.handle.session.transport.publish_command());
        ask(&self.handle, &place.name, call, replies::force_released).await
    }

    /// How many times does Redis say that its `Owner` holds it, or this client, if it has none?
    pub(crate) async fn hold_count(&self) -> Result<u64, Error> {
        let place = self.place()?;
        let session = &self.handle.session;
        let held = match &self.owner {
            Some(owner) => owner.holds_of(session.client_id(), &place.key, place.kind),
            None => session.watchdog.holds_of(&place.key, place.kind),
        };
        if held.is_empty() {
            return Ok(0);
        }
        let Some(seen) = self.inspect().await? else { return Ok(0) };
        let ours = |field: &str| held.iter().any(|hold| *hold.field == *field);
        Ok(seen.holds.iter().filter(|(field, _)| ours(field)).map(|(_, count)| *count).sum())
    }
}

/// What Redis and the watchdog are told of an acquisition.
pub(crate) fn terms(handle: &Handle, wanted: &Wanted) -> Result<Terms, ConfigError> {
    let max_hold = wanted.max_hold.map(|span| Lease::checked("max_hold", span)).transpose()?;
    let (lease, renewed) = wanted.lease.terms(handle.session.settings.lease)?;
    // Redlock's allowance: a hundredth of the lease and two milliseconds.
    let drift = if wanted.drifts { lease / 100 + Duration::from_millis(2) } else { Duration::ZERO };
    Ok(Terms { lease, renewed, max_hold, drift })
}

/// One question that changes no hold of this process.
pub(crate) async fn ask<T>(
    handle: &Handle,
    name: &Arc<str>,
    call: Call,
    read: impl Fn(Value) -> Result<T, Unexpected>,
) -> Result<T, Error> {
    let session = &handle.session;
    if session.is_closed() {
        return Err(Error::Closed);
    }
    let reply = session.call(Lane::Caller, call).await;
    let value = reply.map_err(|error| Error::from_call(name, Duration::ZERO, error))?;
    read(value).map_err(|reply| Error::unexpected(name, &reply))
}
