//! A lock that Redis frees when a time is over.

use std::time::Duration;

use leasehold::parts::{self, Kind, Parts, Resource};
use leasehold::{ConfigError, Error, Lease, LockGuard, LossReason};
use leasehold_transport::{Arg, Call, Lane, Value};

use crate::scripts::scripts;

scripts! {
    HOLD_REST = "hold_rest" from [include_str!("after/hold_rest.lua")];
    FAIR_REST = "fair_rest" from [parts::CLOCK_LUA, parts::FAIR_LUA,
        include_str!("after/fair_rest.lua")];
}

/// Ends a guard, and leaves its lock locked for `rest` from now. Redis frees the lock then, and the
/// process may exit.
///
/// It is for a job that must not run again too soon, such as a cron job on machines whose clocks
/// differ. Java's `ShedLock` calls it `lockAtLeastFor`. Waiters learn the new end of the lease at
/// once, and get the lock then. A `rest` of zero is a release. A
/// [forced](leasehold::Lock::force_unlock) release frees the lock before.
///
/// If the process dies before the call, the lock stays locked for its lease only. So acquire it
/// with a lease of at least the time for which it must stay locked.
///
/// The guard must be the only one of its hold, because another one would free the lock. If the call
/// is refused, the guard is released.
///
/// If a renewal is sent at this very moment, the lock may stay locked for up to its renewed lease
/// instead.
///
/// Read holds that were taken under a write hold are not cut short: the lock then stays locked for
/// at least as long as theirs.
///
/// # Redis cost
///
/// 1 round trip.
///
/// # Cancel safety
///
/// Cancel safe, with clean-up. The lease ends the lock, if the call was not sent.
///
/// # Errors
///
/// - [`Error::Lost`]: the hold had already ended.
/// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer, or
///   refused the call. The lock stays locked until its lease ends, which may be later than `rest`,
///   or sooner.
/// - [`Error::AlreadyHeld`]: the hold has other guards.
/// - [`Error::Config`]: the read side of a read/write lock, a multi lock or a quorum lock, or a
///   `rest` of more than [`Lease::MAX`].
/// - [`Error::Closed`]: the client was shut down.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::{Client, Lease};
/// use tokio::time::Instant;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let at_least = Duration::from_secs(300);
/// let lock = Client::embedded().lock("nightly");
/// let guard = lock.try_lock(Duration::ZERO, Lease::RenewedFor(at_least)).await?;
/// let began = Instant::now();
/// guard.run(async { /* the job, which may be fast */ }).await?;
/// leasehold_admin::unlock_after(guard, at_least.saturating_sub(began.elapsed())).await?;
/// assert!(lock.is_locked().await?, "another machine whose clock is behind finds it taken");
/// # Ok(())
/// # }
/// ```
pub fn unlock_after(
    guard: impl Into<LockGuard>,
    rest: Duration,
) -> impl Future<Output = Result<(), Error>> + Send + 'static {
    let left = leave(guard.into(), rest);
    async move {
        match left? {
            Left::Forgotten(rest) => rest.send().await,
            Left::Held(guard) => guard.unlock().await,
        }
    }
}

enum Left {
    Forgotten(Rest),
    /// There is no rest.
    Held(LockGuard),
}

/// What is to be sent for a guard that is gone.
struct Rest {
    parts: Parts,
    resource: Resource,
    owner: String,
    span: Duration,
    /// How long the lock may be held without the call.
    lease: Duration,
}

/// The client forgets the guard first, so that it sends no renewal after the call, which would
/// prolong the lease again.
fn leave(guard: LockGuard, rest: Duration) -> Result<Left, Error> {
    let Some((parts, resource)) = Parts::of_guard(&guard) else {
        let call = "unlock_after";
        return Err(ConfigError::Several { call }.into());
    };
    if !resource.kind.is_lock() || resource.kind == Kind::Read {
        return Err(ConfigError::Setting {
            setting: "unlock_after",
            kind: resource.kind.to_string(),
            reason: "its holders share the key",
        }
        .into());
    }
    if rest > Lease::MAX {
        return Err(ConfigError::OutOfRange {
            what: "rest",
            given: format!("{rest:?}"),
            allowed: format!("0 to {:?}", Lease::MAX),
        }
        .into());
    }
    guard.check()?;
    if guard.hold_count() > 1 {
        return Err(Error::AlreadyHeld {
            name: resource.name,
            how: "another guard of the hold would free it: drop the other guards first",
        });
    }
    if rest.is_zero() {
        return Ok(Left::Held(guard));
    }
    let (owner, lease) = (guard.owner().to_owned(), guard.remaining());
    guard.forget();
    Ok(Left::Forgotten(Rest {
        parts,
        resource,
        owner,
        span: rest,
        lease,
    }))
}

impl Rest {
    async fn send(self) -> Result<(), Error> {
        let name = self.resource.name.clone();
        // Behind every renewal that was sent before.
        let reply = self.parts.call(Lane::Background, self.call()).await;
        match reply.map_err(|error| parts::error(&name, error)) {
            Ok(Value::Int(1)) => Ok(()),
            Ok(Value::Nil) => Err(Error::Lost {
                name,
                reason: LossReason::Gone,
            }),
            Ok(other) => Err(parts::unexpected(&name, other)),
            Err(Error::Unknown { cause, .. }) => Err(Error::Unknown {
                name,
                lease: self.lease.max(self.span),
                cause,
            }),
            Err(error) => Err(error),
        }
    }

    fn call(&self) -> Call {
        let Resource { kind, key, .. } = &self.resource;
        let channel = self.resource.channel();
        let publish = self.parts.transport().publish_command(|| channel, key);
        let mut args = vec![Arg::from(&*self.owner), Arg::Int(whole_ms(self.span))];
        if *kind == Kind::Fair {
            args.extend([Arg::Text(channel.clone()), Arg::from(publish)]);
            let keys = [key].into_iter().chain(&self.resource.extra_keys);
            return Call::new(&FAIR_REST, keys.cloned(), args);
        }
        let (form, message) = match kind {
            Kind::String => ("string", ""),
            Kind::Write => ("write", "1"),
            _ => ("lock", "0"),
        };
        args.extend([Arg::from(form), Arg::Text(channel.clone())]);
        args.extend([publish, message].map(Arg::from));
        Call::new(&HOLD_REST, [key.clone()], args)
    }
}

/// Redis counts whole milliseconds, and a lock that is to stay locked must not be free before.
fn whole_ms(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
