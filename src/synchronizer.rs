//! What semaphores and latches share: one resource of a client, and calls about it.

use std::fmt;
use std::sync::Arc;

use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::counter::{ReplyKey, number};
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::semaphore::{self, Total};
use crate::protocol::{Call, Publish, Unexpected, Value};
use crate::session::core::Handle;
use crate::session::poll_watch::Wait;
use crate::session::reentry::Proofs;
use crate::session::request::{Options, Request, checked_purpose};
use crate::session::settings::LockSettings;
use crate::session::share::HoldShare;

/// Checks a number of permits to add or take away: as many as one call can set.
///
/// Lua counts in floating point, and would write much larger numbers as powers of ten.
fn in_range(permits: i64) -> Result<i64, ConfigError> {
    let most = i64::from(u32::MAX);
    if (-most..=most).contains(&permits) {
        return Ok(permits);
    }
    let allowed = format!("{} to {most}", -most);
    Err(ConfigError::out_of_range("permits", permits, allowed))
}

/// A resource of a client.
#[derive(Clone)]
pub(crate) struct Synchronizer {
    pub(crate) handle: Arc<Handle>,
    resource: Result<Arc<Resource>, ConfigError>,
    pub(crate) settings: LockSettings,
    /// What its permits are held for.
    pub(crate) purpose: Option<String>,
}

impl Synchronizer {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        let settings = LockSettings::default();
        Synchronizer {
            handle,
            resource: resource.map(Arc::new),
            settings,
            purpose: None,
        }
    }

    /// The first step of every call: refuses a bad name and bad settings.
    pub(crate) fn resource(&self) -> Result<&Arc<Resource>, ConfigError> {
        let resource = self.resource.as_ref().map_err(Clone::clone)?;
        self.settings.check(resource.kind)?;
        Ok(resource)
    }

    pub(crate) fn name(&self) -> &str {
        self.resource
            .as_ref()
            .map_or("", |resource| &*resource.name)
    }

    /// Takes permits. Each acquisition is its own owner.
    pub(crate) async fn take(
        &self,
        permits: u32,
        wait: Wait,
        lease: Lease,
    ) -> Result<HoldShare, Error> {
        let mut request = self.request(wait, lease)?;
        request.permits = permits;
        let limit = request.settings.limit;
        if limit.is_some_and(|limit| permits > limit) {
            return Err(request.never(limit));
        }
        crate::session::acquire::acquire(&self.handle, request).await
    }

    pub(crate) fn request(&self, wait: Wait, lease: Lease) -> Result<Request, ConfigError> {
        let (session, resource) = (&self.handle.session, self.resource()?.clone());
        let of_lock = self.settings.lease(&session.calls.settings);
        let terms = Options::new(wait, lease).terms(of_lock)?;
        let mut request = Request::new(&session.calls, resource, Proofs::default(), terms, wait);
        request.settings = self.settings;
        if request.resource.kind == Kind::Semaphore {
            let purpose = self.purpose.clone().map(checked_purpose).transpose()?;
            request.description = session
                .core
                .description(&request.resource, purpose.as_deref());
        }
        Ok(request)
    }

    /// What a total is that this value sets.
    pub(crate) fn total(&self) -> Total {
        match self.settings.limit {
            Some(_) => Total::Limit,
            None => Total::Number,
        }
    }

    /// Adds permits, or takes some away.
    pub(crate) async fn add(&self, permits: i64) -> Result<(), Error> {
        self.resource()?;
        let permits = in_range(permits)?;
        if permits == 0 {
            return Ok(());
        }
        let call = |resource: &_, publish, reply_key| {
            semaphore::add(resource, publish, permits, reply_key)
        };
        self.change(call, number).await.map(|_available| ())
    }

    /// Sends one call and reads its reply.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Fn(&Resource, Publish) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let (holds, resource) = (self.handle.core(), self.resource()?);
        let call = call(resource, holds.calls.publish_command(resource));
        holds.ask(resource, call, read).await
    }

    /// Makes a change that takes effect once, even if the call is repeated because its reply was
    /// lost.
    pub(crate) async fn change<T>(
        &self,
        call: impl Fn(&Resource, Publish, ReplyKey) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let (holds, resource) = (self.handle.core(), self.resource()?);
        let calls = &holds.calls;
        let publish = calls.publish_command(resource);
        let call = move |resource: &_, reply_key| call(resource, publish, reply_key);
        holds.own_releases_over(&resource.key, None).await;
        calls.call_idempotent(resource, call, read).await
    }
}

impl fmt::Debug for Synchronizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name(), f)
    }
}
