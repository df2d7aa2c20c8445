//! Calls that a failover cannot betray: they run on the primary that the caller means, and not in its grace.
//!
//! `specification/src/failover.rs` explores the rules. Each slot has a hash of registrations; `register.lua` says what
//! is in it.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{call, ms};
use super::script::scripts;
use super::{Arg, Call, Field, Script, Unexpected, Value, lock};
use crate::client_id::ClientId;

scripts! {
    ACQUIRE = "reclaim_acquire" from "reclaim/identity.lua" "reclaim/elsewhere.lua" "reclaim/guard.lua" "lock/acquire.lua" "lock/waiters.lua" "lock/list.lua";
    LEAVE = "reclaim_leave" from "reclaim/leave.lua";
    REENTER = "reclaim_reenter" from "shared/lease.lua" "reclaim/identity.lua" "reclaim/elsewhere.lua" "reclaim/guard.lua" "lock/reenter.lua";
    REGISTER = "reclaim_register" from "shared/clock.lua" "reclaim/identity.lua" "reclaim/elsewhere.lua" "reclaim/register.lua";
    RELEASE = "reclaim_release" from "reclaim/identity.lua" "reclaim/release.lua" "lock/release.lua" "shared/may.lua" "waiters/listening.lua" "lock/waiters.lua" "lock/pass_on.lua";
    RENEW = "reclaim_renew" from "shared/lease.lua" "reclaim/identity.lua" "reclaim/elsewhere.lua" "reclaim/guard.lua" "lock/renew.lua";
    VERIFY = "reclaim_verify" from "shared/clock.lua" "reclaim/identity.lua" "reclaim/elsewhere.lua" "reclaim/verify.lua";
}

/// The key of the registrations, where all keys are in one slot.
pub(crate) const REGISTRATIONS: &str = "leasehold_reclaim";

/// A primary, and its number among the primaries with the same history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) identity: Arc<str>,
    pub(crate) number: i64,
}

/// What a primary answers about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) primary: Primary,
    /// The call did what it is for, and not only said where it has arrived.
    pub(crate) done: bool,
    /// The primary is not in grace.
    pub(crate) is_open: bool,
}

/// A hold that is brought to a new primary.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: Arc<str>,
    pub(crate) field: Field,
    pub(crate) holds: u32,
    pub(crate) lease: Duration,
}

/// How a call of a client with sessions runs.
pub(crate) enum Rule {
    /// Only on the primary that its session is for.
    OnItsPrimary(&'static Script),
    /// Anywhere. In grace, a missing hold is released.
    Anywhere(&'static Script),
}

/// The rule of a script, if it has another one than that of all clients.
pub(crate) fn rule(script: &Script) -> Option<Rule> {
    let is = |other: &Script| script.name == other.name;
    [
        (&lock::ACQUIRE, Rule::OnItsPrimary(&ACQUIRE)),
        (&lock::REENTER, Rule::OnItsPrimary(&REENTER)),
        (&lock::RENEW, Rule::OnItsPrimary(&RENEW)),
        (&lock::RELEASE, Rule::Anywhere(&RELEASE)),
    ]
    .into_iter()
    .find_map(|(plain, rule)| is(plain).then_some(rule))
}

/// The same call, with the registrations as its last key.
pub(crate) fn on_its_primary(
    script: &'static Script,
    mut of: Call,
    key: Arc<str>,
    meant: &Primary,
) -> Call {
    of.keys.push(key);
    of.args.push(Arg::Text(meant.identity.clone()));
    Call { script, ..of }
}

/// The same call, with the registrations as its last key.
pub(crate) fn anywhere(script: &'static Script, mut of: Call, key: Arc<str>) -> Call {
    of.keys.push(key);
    Call { script, ..of }
}

pub(crate) fn register(
    key: Arc<str>,
    client: ClientId,
    session: Duration,
    meant: Option<&Primary>,
) -> Call {
    call(
        &REGISTER,
        vec![key],
        vec![named(client), ms(session), identity_of(meant)],
    )
}

pub(crate) fn leave(key: Arc<str>, client: ClientId) -> Call {
    call(&LEAVE, vec![key], vec![named(client)])
}

/// Whether a client holds anything that a call does not bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    None,
    Follow,
}

/// Brings holds to a primary in grace.
pub(crate) fn verify(
    key: Arc<str>,
    client: ClientId,
    session: Duration,
    of: Option<&Primary>,
    holds: &[Kept],
    others: Others,
) -> Call {
    let keys = std::iter::once(key).chain(holds.iter().map(|hold| hold.key.clone()));
    let head = vec![
        named(client),
        ms(session),
        identity_of(of),
        Arg::Int((others == Others::None).into()),
    ];
    let brought = holds.iter().flat_map(|hold| {
        [
            hold.field.clone().into(),
            Arg::Int(hold.holds.into()),
            ms(hold.lease),
        ]
    });
    call(
        &VERIFY,
        keys.collect(),
        head.into_iter().chain(brought).collect(),
    )
}

fn identity_of(primary: Option<&Primary>) -> Arg {
    primary.map_or_else(|| Arg::from(""), |of| Arg::Text(of.identity.clone()))
}

fn named(client: ClientId) -> Arg {
    Arg::Text(Arc::from(client.to_string()))
}

/// What a call was told instead of its reply, if it has not run.
pub(crate) fn elsewhere(reply: &Value) -> Option<Told> {
    told(reply).filter(|told| !told.done)
}

/// The reply to [`register`] and [`verify`].
pub(crate) fn answered(reply: Value) -> Result<Told, Unexpected> {
    told(&reply).ok_or(Unexpected(reply))
}

fn told(reply: &Value) -> Option<Told> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [
        Value::Text(word),
        Value::Text(identity),
        Value::Int(number),
        rest @ ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let is_open = match (word.as_str(), rest) {
        ("registered", []) => true,
        ("elsewhere" | "verified", [Value::Int(open)]) => *open == 1,
        _ => return None,
    };
    let primary = Primary {
        identity: Arc::from(identity.as_str()),
        number: *number,
    };
    Some(Told {
        primary,
        done: word != "elsewhere",
        is_open,
    })
}
