//! What semaphores and latches share: a name on one client, and the calls about it.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::one::{Wanted, ask, terms};
use crate::protocol::counts::{self, IfAbsent, Kept, number};
use crate::protocol::place::Place;
use crate::protocol::{Call, Unexpected, Value};
use crate::session::request::{Proofs, Request, Wait};
use crate::session::{Handle, Tenancy};

/// Checks a number of permits to add or take away: what a call can set is what a call can change.
/// Far beyond it the scripts would count in powers of ten.
fn in_range(permits: i64) -> Result<i64, ConfigError> {
    let most = i64::from(u32::MAX);
    if (-most..=most).contains(&permits) {
        return Ok(permits);
    }
    let (given, allowed) = (permits.to_string(), format!("{} to {most}", -most));
    Err(ConfigError::OutOfRange { what: "permits", given, allowed })
}

/// A name on a client.
pub(crate) struct Synchronizer {
    pub(crate) handle: Arc<Handle>,
    place: Result<Arc<Place>, ConfigError>,
}

impl Synchronizer {
    pub(crate) fn new(handle: Arc<Handle>, place: Result<Place, ConfigError>) -> Self {
        Synchronizer { handle, place: place.map(Arc::new) }
    }

    pub(crate) fn place(&self) -> Result<&Arc<Place>, ConfigError> {
        self.place.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn name(&self) -> &str {
        self.place.as_ref().map_or("", |place| &*place.name)
    }

    pub(crate) fn publish(&self) -> &'static str {
        self.handle.session.transport.publish_command()
    }

    /// An acquisition of permits; each is an owner of its own.
    pub(crate) async fn take(
        &self,
        permits: u32,
        wait: Wait,
        lease: Lease,
    ) -> Result<Tenancy, Error> {
        let request = self.request(wait, lease)?.with_permits(permits);
        crate::session::acquire::acquire(&self.handle, request).await
    }

    pub(crate) fn request(&self, wait: Wait, lease: Lease) -> Result<Request, ConfigError> {
        let terms = terms(&self.handle, &Wanted::new(wait, lease))?;
        let place = self.place()?.clone();
        Ok(Request::new(&self.handle.session, place, Proofs::default(), terms, wait))
    }

    /// Adds permits, or takes some away.
    pub(crate) async fn add(&self, permits: i64) -> Result<(), Error> {
        self.place()?;
        let permits = in_range(permits)?;
        if permits == 0 {
            return Ok(());
        }
        let publish = self.publish();
        let call = |place: &_, kept| counts::add(place, publish, permits, IfAbsent::Make, kept);
        self.change(call, number).await.map(|_available| ())
    }

    /// One question.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Fn(&Place) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let place = self.place()?;
        ask(&self.handle, &place.name, call(place), read).await
    }

    /// A change that takes effect once, although it is repeated where its reply was lost.
    pub(crate) async fn change<T>(
        &self,
        call: impl Fn(&Place, Kept) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let place = self.place()?;
        let session = &self.handle.session;
        session.call_once(&place.name, call(place, session.reply_kept(place)), read).await
    }
}
