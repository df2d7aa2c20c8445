//! One lock on one server, and the calls that it makes to the session.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::error::Error;
use crate::holder::Holder;
use crate::protocol::calls::Force;
use crate::protocol::forced::{Forced, forced};
use crate::protocol::replies::Inspected;
use crate::protocol::resource::Resource;
use crate::protocol::waiters::{self, Waiting};
use crate::session::core::Handle;
use crate::session::hold::Hold;
use crate::session::reentry::Proofs;
use crate::session::request::{Options, Request};
use crate::session::settings::LockSettings;

/// One lock and its client.
#[derive(Clone)]
pub(crate) struct SingleLock {
    pub(crate) handle: Arc<Handle>,
    pub(crate) resource: Result<Arc<Resource>, ConfigError>,
    pub(crate) settings: LockSettings,
}

impl SingleLock {
    /// The first step of every call: refuses a bad name and bad settings.
    pub(crate) fn resource(&self) -> Result<&Arc<Resource>, ConfigError> {
        let resource = self.resource.as_ref().map_err(Clone::clone)?;
        self.settings.check(resource.kind)?;
        Ok(resource)
    }

    /// Changes the resource for later acquisitions; existing holds keep the resource that they were
    /// taken for.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Resource)) {
        if let Ok(resource) = &mut self.resource {
            change(Arc::make_mut(resource));
        }
    }

    /// Like [`resource`](Self::resource), and refuses options that this lock does not support.
    pub(crate) fn resource_for(&self, options: &Options) -> Result<&Arc<Resource>, ConfigError> {
        let resource = self.resource()?;
        if options.purpose.is_some() && !resource.can_be_described() {
            let allowed = "none: the braces in the name would put it in another cluster slot";
            return Err(ConfigError::out_of_range("purpose", "a purpose", allowed));
        }
        Ok(resource)
    }

    /// Whether this client holds the lock, and is not releasing it, or waits for it.
    pub(crate) fn is_in_use_here(&self) -> bool {
        let queues = &self.handle.core().queues;
        let resource = self.resource.as_ref();
        resource.is_ok_and(|resource| queues.is_in_use(resource))
    }

    pub(crate) fn request(&self, options: &Options) -> Result<Request, ConfigError> {
        let (session, resource) = (&self.handle.session, self.resource_for(options)?.clone());
        let terms = options.terms(self.settings.lease(&session.calls.settings))?;
        let shown = options.shown.iter().filter(|hold| self.is_lock_of(hold));
        let proofs = Proofs(shown.cloned().collect());
        let description = session
            .core
            .description(&resource, options.purpose.as_deref());
        let mut request = Request::new(&session.calls, resource, proofs, terms, options.wait);
        request.settings = self.settings;
        request.poll_limit = options.poll_limit;
        // A client that describes its holds also learns who holds a lock. A quorum does not ask,
        // because it retries often.
        request.asks_who = description.is_some() && !options.of_quorum;
        request.description = description;
        Ok(request)
    }

    /// Whether `hold` is a hold of this lock: of its client, under its key.
    pub(crate) fn is_lock_of(&self, hold: &Hold) -> bool {
        let client = self.handle.calls().client_id();
        self.resource
            .as_ref()
            .is_ok_and(|resource| hold.is_under(client, &resource.key))
    }

    pub(crate) async fn inspect(&self) -> Result<Option<Inspected>, Error> {
        let resource = self.resource()?;
        let read = |reply| resource.inspected(reply);
        let holds = self.handle.core();
        let call = holds.calls.inspect_call(resource);
        holds.ask(resource, call, read).await
    }

    /// The first holder, marked if it is this client or the calling task.
    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let seen = self.inspect().await?;
        let mut holder = seen.and_then(|seen| seen.holders.into_iter().next());
        if let Some(holder) = &mut holder {
            self.handle.core().mark_own(&self.resource()?.key, holder);
        }
        Ok(holder)
    }

    pub(crate) async fn waiting(&self) -> Result<Waiting, Error> {
        let (resource, holds) = (self.resource()?, self.handle.core());
        let call = waiters::waiters(resource, holds.calls.publish_command(resource));
        holds.ask(resource, call, waiters::waiting).await
    }

    /// Ends every hold, or only those of one owner. False if there is none.
    pub(crate) async fn force_unlock(
        &self,
        owner: Option<&str>,
        reason: &str,
    ) -> Result<bool, Error> {
        let (resource, calls) = (self.resource()?, self.handle.calls());
        let note = &*calls.forced_note(reason)?;
        if let Some(owner) = owner.filter(|owner| owner.is_empty() || !resource.may_be_field(owner))
        {
            let allowed = "an owner as `Lock::holder` returns it";
            return Err(ConfigError::out_of_range("owner", owner, allowed).into());
        }
        let call = resource.force_release(calls.publish_command(resource), Force { owner, note });
        match calls.ask(&resource.name, call, forced).await? {
            Forced::Freed => Ok(true),
            Forced::WasFree => Ok(false),
            Forced::HeldByAnother => Err(Error::NotOwner {
                name: resource.name.clone(),
            }),
        }
    }
}
