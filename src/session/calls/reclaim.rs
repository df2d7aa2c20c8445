//! Sessions of a client at the primaries that it calls, if its holds are to outlive a failover.
//!
//! A hold counts only while the session lasts under which it was granted. `specification/src/failover.rs`
//! explores why that is safe.
//!
//! | state | calls | until |
//! | --- | --- | --- |
//! | none | wait | registered: then a session for that primary begins |
//! | lasts | name the primary of the session | it ends, or a primary may have changed |
//! | suspended | are refused | the primary there is the same as before, or a later one in grace |
//! | moves | are refused | the client's holds were brought to that later primary, which the session is for now |
//! | over | wait | registered: then another session begins, and no hold of this one comes back |
//!
//! The background task registers and brings holds (`holds/reclaim.rs`), so a caller that is not polled delays nobody.
//! A session moves *before* its client brings holds. So if the answer is lost, the session does not go on at the former
//! primary, while the later one lets others in. Each change of the primary and each new session is a *move*. A reply to a
//! call from before a move counts for nothing: the call's outcome is unknown.

mod of_calls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::protocol::Value;
use crate::protocol::reclaim::{self, Primary, Told};
use crate::session::hold::Clocks;
use crate::sync::{Mutex, Notify};
use crate::transport::{CallError, Fault};

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// By the key of the registrations.
    all: Mutex<HashMap<Arc<str>, Session>>,
    /// The background task has something to do.
    pub(crate) due: Notify,
    /// An attempt to register is over.
    attempted: Notify,
}

#[derive(Debug, Default)]
struct Session {
    primary: Option<Primary>,
    end: Option<SessionEnd>,
    moves: u64,
    suspended: bool,
    /// It is for a later primary that has not said yet that the holds of this client are there.
    on_its_way: bool,
    /// The primary may have changed.
    must_verify: bool,
    /// A caller wants to use it.
    wanted: Option<Moment>,
    attempts: u64,
    error: Option<CallError>,
}

/// The end of a session, which a registration puts off. Every hold of that session shares it.
#[derive(Clone, Debug)]
pub(crate) struct SessionEnd(Arc<Mutex<Moment>>);

impl SessionEnd {
    fn at(until: Moment) -> Self {
        SessionEnd(Arc::new(Mutex::new(until)))
    }

    pub(crate) fn get(&self) -> Moment {
        *self.0.lock()
    }

    fn put_off(&self, until: Moment) {
        let mut end = self.0.lock();
        *end = until.max(*end);
    }
}

/// The session under which a call is sent.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) moves: u64,
    pub(crate) end: SessionEnd,
}

/// What a call has named.
#[derive(Debug)]
pub(in crate::session) struct Meant {
    key: Arc<str>,
    moves: u64,
}

/// What the background task does next about a session.
#[derive(Debug)]
pub(crate) enum Task {
    Register(Option<Primary>),
    Verify,
    /// Nothing before this instant.
    Wait(Moment),
    Nothing,
}

impl Session {
    fn until(&self) -> Option<Moment> {
        self.end.as_ref().map(SessionEnd::get)
    }

    /// Its end, if that is to come.
    fn coming_end(&self, now: Moment) -> Option<SessionEnd> {
        self.end.clone().filter(|end| now < end.get())
    }

    fn lasts(&self, now: Moment) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    fn is_for(&self, primary: &Primary) -> bool {
        self.primary
            .as_ref()
            .is_some_and(|of| of.identity == primary.identity)
    }

    /// Whether a caller wanted it within the time for which it lasts.
    fn is_used(&self, now: Moment, length: Duration) -> bool {
        self.wanted
            .is_some_and(|at| now.saturating_duration_since(at) < length)
    }

    fn trust(&self, now: Moment) -> Option<Trust> {
        let end = self.coming_end(now)?;
        (!self.suspended).then_some(Trust {
            moves: self.moves,
            end,
        })
    }
}

impl Sessions {
    fn at<T>(&self, key: &Arc<str>, act: impl FnOnce(&mut Session) -> T) -> T {
        act(self.all.lock().entry(key.clone()).or_default())
    }

    /// Primaries may have changed: all sessions that last are suspended until their primaries have answered.
    pub(crate) fn must_verify(&self) {
        for session in self.all.lock().values_mut() {
            session.must_verify = true;
        }
        self.due.notify_one();
    }

    /// The keys of all registrations.
    pub(crate) fn keys(&self) -> Vec<Arc<str>> {
        self.all.lock().keys().cloned().collect()
    }

    /// What to do now about a session whose registration lasts this long.
    pub(crate) fn task(&self, key: &Arc<str>, now: Moment, length: Duration) -> Task {
        self.at(key, |session| {
            let is_used = session.is_used(now, length);
            let lasts = session.lasts(now);
            // The primary keeps a registration for longer than the session lasts.
            let may_be_known = session
                .until()
                .is_some_and(|until| now < until + length * 5 / 4);
            if session.must_verify && (may_be_known || is_used) {
                return Task::Verify;
            }
            if !is_used {
                return Task::Nothing;
            }
            match session.until().filter(|_| lasts) {
                Some(until) => match until.checked_sub(length / 4 * 3) {
                    Some(at) if at > now => Task::Wait(at),
                    _ => Task::Register(session.primary.clone()),
                },
                None => Task::Register(None),
            }
        })
    }

    /// The session goes on being used, because something is held under it.
    pub(crate) fn is_used(&self, key: &Arc<str>, now: Moment) {
        self.at(key, |session| session.wanted = Some(now));
    }

    /// A registration that was sent at `sent` has all its copies.
    pub(crate) fn registered(
        &self,
        key: &Arc<str>,
        primary: Primary,
        sent: Moment,
        now: Moment,
        length: Duration,
    ) {
        let until = Clocks::OfOne.local_deadline(sent, length);
        self.attempted(key, None, |session| {
            if !session.lasts(now) {
                session.moves += 1;
                session.suspended = false;
                session.on_its_way = false;
                session.primary = Some(primary);
                session.end = Some(SessionEnd::at(until));
            } else if session.is_for(&primary)
                && let Some(end) = &session.end
            {
                end.put_off(until);
            }
        });
    }

    /// A primary in grace wants to know what is held.
    pub(crate) fn wants_verification(&self, key: &Arc<str>) {
        self.at(key, |session| session.must_verify = true);
    }

    /// An attempt to register failed, and so do the calls that wait for it.
    pub(crate) fn not_registered(&self, key: &Arc<str>, error: CallError) {
        self.attempted(key, Some(error), |_| {});
    }

    fn attempted(
        &self,
        key: &Arc<str>,
        error: Option<CallError>,
        change: impl FnOnce(&mut Session),
    ) {
        self.at(key, |session| {
            session.attempts += 1;
            session.error = error;
            change(session);
        });
        self.attempted.notify_waiters();
    }

    /// Suspends a session, so that nothing more is granted under it. `None` if it is over.
    pub(crate) fn suspend(&self, key: &Arc<str>, now: Moment) -> Option<(Primary, Trust)> {
        self.at(key, |session| {
            session.moves += 1;
            session.suspended = true;
            let end = session.coming_end(now)?;
            let moves = session.moves;
            Some((session.primary.clone()?, Trust { moves, end }))
        })
    }

    /// A session that is suspended is for the primary that has answered, if that is a later one in grace. From now on it
    /// is for no former one. False if it is not moved.
    pub(crate) fn move_on(&self, key: &Arc<str>, told: &Told, now: Moment) -> bool {
        self.at(key, |session| {
            let of = session.primary.as_ref().filter(|_| session.lasts(now));
            let is_later = of.is_some_and(|of| {
                !told.is_open
                    && of.identity != told.primary.identity
                    && of.number < told.primary.number
            });
            if is_later {
                session.primary = Some(told.primary.clone());
                session.on_its_way = true;
            }
            is_later
        })
    }

    /// A primary has answered about a session that was suspended. False if it must be asked again.
    pub(crate) fn resume(&self, key: &Arc<str>, told: &Told, now: Moment) -> bool {
        let is_done = self.at(key, |session| {
            let lasts = session.lasts(now);
            let is_the_one = session.is_for(&told.primary);
            if is_the_one {
                // Its number may have begun anew, with its data.
                session.primary = Some(told.primary.clone());
            }
            session.on_its_way &= !(told.done && is_the_one);
            session.suspended = lasts && (!is_the_one || session.on_its_way);
            session.must_verify = !told.is_open || session.suspended;
            !session.must_verify
        });
        // Callers wait for a session that is not suspended.
        self.attempted.notify_waiters();
        is_done
    }

    /// What a call says that means the primary of a session.
    fn meant(&self, key: &Arc<str>, now: Moment) -> Result<(Primary, Meant), CallError> {
        let meant = self.at(key, |session| {
            let trust = session.trust(now)?;
            let meant = Meant {
                key: key.clone(),
                moves: trust.moves,
            };
            Some((session.primary.clone()?, meant))
        });
        meant.ok_or_else(|| {
            CallError::NotApplied(Fault("the client has no session at a primary now".into()))
        })
    }

    /// The reply to a call that meant a primary.
    pub(in crate::session) fn checked(
        &self,
        meant: &Meant,
        reply: Result<Value, CallError>,
    ) -> Result<Value, CallError> {
        let value = reply?;
        if let Some(told) = reclaim::elsewhere(&value) {
            self.at(&meant.key, |session| session.must_verify = true);
            self.due.notify_one();
            let grace = "another server is the primary now, and former holders may come back";
            let former = "the call has reached a former primary";
            let why = if told.is_open { former } else { grace };
            return Err(CallError::NotApplied(Fault(why.into())));
        }
        let moves = self.at(&meant.key, |session| session.moves);
        if moves != meant.moves {
            let why = "the reply is that of a former primary";
            return Err(CallError::Unknown(Fault(why.into())));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
