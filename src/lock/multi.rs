//! Several locks as one: all of them ([`all`]) or a majority ([`quorum`]).

mod all;
mod inspect;
mod quorum;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::SingleLock;
use super::guard::multi::MultiGuard;
use super::members::set_error_of;
use super::{Lock, LockGuard};
use crate::error::{ConfigError, Error};
use crate::holder::Holder;
use crate::session::poll_watch::{Caller, Wait};
use crate::session::request::Options;
use crate::session::settings::LockSettings;
use crate::timer::{Instant, sleep_until, timeout_at};

/// The divisor of the lease that gives a server's time to answer: a twentieth.
const SERVER_SHARE: u32 = 20;

#[derive(Clone)]
pub(crate) struct MultiLock {
    pub(super) members: Vec<Lock>,
    /// The number of members that must be held.
    required: usize,
    /// Whether the members are on independent servers.
    pub(super) quorum: bool,
    name: Arc<str>,
    /// Why these members can never be one lock.
    set_error: Option<ConfigError>,
    /// How often a quorum retries, and when.
    pub(super) settings: LockSettings,
}

impl MultiLock {
    fn new(members: Vec<Lock>, required: usize) -> Self {
        let names: Vec<_> = members.iter().map(Lock::name).collect();
        let name = Arc::from(names.join("+"));
        let (set_error, settings) = (set_error_of(&members), LockSettings::default());
        MultiLock {
            members,
            required,
            quorum: false,
            name,
            set_error,
            settings,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Refuses bad settings, and members that can never be one lock.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Some(error) = &self.set_error {
            return Err(error.clone());
        }
        self.settings.check_retries()?;
        self.members.iter().try_for_each(Lock::check)
    }

    pub(crate) fn change(&mut self, change: impl Fn(Lock) -> Lock) {
        let members = std::mem::take(&mut self.members);
        self.members = members.into_iter().map(change).collect();
    }

    /// Takes the locks for a caller that may stop polling. The members taken until then are
    /// released, as if they were dropped.
    ///
    /// Boxed because a member may itself be a set.
    pub(super) fn watched(
        self: Arc<Self>,
        options: Options,
    ) -> BoxFuture<'static, Result<LockGuard, Error>> {
        Box::pin(async move {
            self.check()?;
            // Before any member is asked, because a quorum would continue without a bad one.
            let singles = self.members.iter().flat_map(|member| member.set.singles());
            singles
                .into_iter()
                .try_for_each(|single| single.resource_for(&options).map(drop))?;
            let first = self
                .members
                .iter()
                .find_map(|member| member.set.singles().pop());
            let session = first
                .expect("BUG: there are members")
                .handle
                .session
                .clone();
            let started = Instant::now();
            // An unwatched member would start again within its own part of the wait. So it has the
            // limit of the set.
            let work = |poll_limit| {
                let (multi, options) = (
                    self.clone(),
                    Options {
                        poll_limit,
                        ..options.clone()
                    },
                );
                async move { multi.take(&options, started).await }
            };
            let limits = (options.wait, options.poll_limit);
            let timed_out = || self.timed_out(started, &self.held_here(started));
            session
                .poll_watch
                .run_until_over(limits, work, timed_out)
                .await
        })
    }

    async fn take(&self, options: &Options, started: Instant) -> Result<LockGuard, Error> {
        let taken = if self.quorum {
            self.take_majority(options, started).await
        } else {
            self.take_all(options, started).await
        };
        taken.map(|guards| LockGuard::of(MultiGuard::new(self.name.clone(), guards, self.required)))
    }

    /// The errors of the members that this client holds, for a wait whose last answers nobody has
    /// read.
    fn held_here(&self, started: Instant) -> Vec<Error> {
        let singles = self.members.iter().flat_map(|member| member.set.singles());
        let error = |single: &SingleLock| {
            let resource = single.resource.as_ref().ok()?;
            let holder = (single.handle.core()).held_here(resource, Caller::current())?;
            Some(Error::Timeout {
                name: resource.name.clone(),
                waited: started.elapsed(),
                in_the_way: Some(Box::new(holder)),
                cancelled_as_unpolled: 0,
            })
        };
        singles.filter_map(error).collect()
    }

    /// The error when the wait ends; `errors` are those of the last round.
    fn timed_out(&self, started: Instant, errors: &[Error]) -> Error {
        let holders: Vec<&Holder> = (errors.iter())
            .filter_map(|error| match error {
                Error::Timeout { in_the_way, .. } => in_the_way.as_deref(),
                _ => None,
            })
            .collect();
        let known = || holders.iter().filter(|holder| holder.has_owner());
        let nearest = (known().find(|holder| holder.is_this_task))
            .or_else(|| known().find(|holder| holder.is_this_client))
            .or_else(|| known().next());
        let mut in_the_way = nearest.map(|holder| Holder::clone(holder));
        let stay = holders.iter().filter(|holder| holder.lease.is_none());
        if self.is_blocked(stay.count(), self.members.len()) {
            // The whole has no expiry if too few members have one.
            in_the_way.get_or_insert_default().lease = None;
        }
        Error::Timeout {
            name: self.name.clone(),
            waited: started.elapsed(),
            in_the_way: in_the_way.map(Box::new),
            cancelled_as_unpolled: 0,
        }
    }

    /// Releases the members. Releases not confirmed within the wait continue in the background.
    async fn release(&self, guards: Vec<LockGuard>, wait: Wait) {
        // CANCEL: a dropped release continues in the background.
        let all = guards.len();
        let taken = MultiGuard::new(self.name.clone(), guards, all);
        self.bounded(wait, taken.unlock()).await;
    }

    /// The instant after which a reply is too late for the wait.
    fn reply_deadline(&self, wait: Wait) -> Option<Instant> {
        let singles = self.members.iter().flat_map(|member| member.set.singles());
        let grace = singles
            .map(|single| single.handle.calls().grace())
            .max()
            .unwrap_or_default();
        let now = Instant::now();
        match wait {
            Wait::Once => Some(now + grace),
            Wait::Until(deadline) => Some(deadline.max(now) + grace),
            Wait::Forever => None,
        }
    }

    /// Runs `work` until a reply would be too late for the wait.
    async fn bounded(&self, wait: Wait, work: impl Future) {
        match self.reply_deadline(wait) {
            Some(limit) => drop(timeout_at(limit, work).await),
            None => drop(work.await),
        }
    }
}

/// Pauses between two rounds, within the wait.
async fn pause(span: Duration, wait: Wait) {
    let end = Instant::now() + span;
    match wait {
        Wait::Until(deadline) => sleep_until(end.min(deadline)).await,
        Wait::Once | Wait::Forever => sleep_until(end).await,
    }
}
