//! The calls of semaphores and latches that hold nothing, and what their replies mean.
//!
//! Those that change a number bring a key that keeps the reply, so that they can be repeated.

use std::sync::Arc;
use std::time::Duration;

use super::calls::ms;
use super::place::Place;
use super::script::{
    COUNT_SET, FENCED_SET, LATCH_COUNT, LATCH_COUNT_DOWN, LATCH_DELETE, PERMIT_COUNT,
    PERMIT_EXPIRE, PERMIT_LEASE, PERMIT_RELEASE, PERMIT_RESIZE, PERMIT_UPDATE, SEMAPHORE_ADD,
    SEMAPHORE_AVAILABLE, SEMAPHORE_DRAIN, SEMAPHORE_KEEP, Script,
};
use super::{Arg, Call, Unexpected, Value};

/// The key that keeps the reply to one request, and for how long.
pub(crate) type Kept = (Arc<str>, Duration);

fn call(script: &'static Script, keys: Vec<Arc<str>>, args: Vec<Arg>) -> Call {
    Call { script, keys, args }
}

fn both(place: &Place) -> Vec<Arc<str>> {
    vec![place.key.clone(), place.beside[0].clone()]
}

/// The number, the reply to a request, and the holds, if there are any.
fn keeping(place: &Place, kept: Arc<str>) -> Vec<Arc<str>> {
    [place.key.clone(), kept].into_iter().chain(place.beside.iter().cloned()).collect()
}

fn told(place: &Place, publish: &'static str) -> [Arg; 2] {
    [place.channel.clone().into(), Arg::from(publish)]
}

/// Sets a number that is not there yet and tells `message`; it ends after `life`, if that is given.
pub(crate) fn set(
    place: &Place,
    publish: &'static str,
    number: i64,
    message: &str,
    life: Option<Duration>,
    (kept, span): Kept,
) -> Call {
    let [channel, publish] = told(place, publish);
    let life = ms(life.unwrap_or_default());
    let args = vec![channel, publish, Arg::Int(number), Arg::from(message), ms(span), life];
    call(&COUNT_SET, keeping(place, kept), args)
}

/// Whether a semaphore that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    Make,
    LeaveAlone,
}

pub(crate) fn add(
    place: &Place,
    publish: &'static str,
    permits: i64,
    absent: IfAbsent,
    (kept, span): Kept,
) -> Call {
    let [channel, publish] = told(place, publish);
    let make = Arg::Int((absent == IfAbsent::Make).into());
    let args = vec![channel, publish, Arg::Int(permits), ms(span), make];
    call(&SEMAPHORE_ADD, keeping(place, kept), args)
}

pub(crate) fn drain(place: &Place, publish: &'static str, (kept, span): Kept) -> Call {
    let [channel, publish] = told(place, publish);
    call(&SEMAPHORE_DRAIN, keeping(place, kept), vec![channel, publish, ms(span)])
}

pub(crate) fn available(place: &Place, publish: &'static str) -> Call {
    call(&SEMAPHORE_AVAILABLE, both(place), told(place, publish).to_vec())
}

/// Takes a hold off the books: its permits come back by no lease.
pub(crate) fn keep(place: &Place, field: &Arc<str>) -> Call {
    call(&SEMAPHORE_KEEP, vec![place.beside[0].clone()], vec![field.clone().into()])
}

/// Permits that are available and permits that are held.
pub(crate) fn permits(place: &Place, publish: &'static str) -> Call {
    call(&PERMIT_COUNT, both(place), told(place, publish).to_vec())
}

pub(crate) fn resize(place: &Place, publish: &'static str, permits: i64) -> Call {
    let [channel, publish] = told(place, publish);
    call(&PERMIT_RESIZE, both(place), vec![channel, publish, Arg::Int(permits)])
}

/// Releases permits by their ids, all of them or none.
pub(crate) fn release_all(place: &Place, publish: &'static str, ids: &Arc<str>) -> Call {
    let [channel, publish] = told(place, publish);
    call(&PERMIT_RELEASE, both(place), vec![channel, publish, ids.clone().into(), Arg::Int(1)])
}

/// Lets a semaphore end after `life`, with all its permits.
pub(crate) fn expire(place: &Place, life: Duration) -> Call {
    call(&PERMIT_EXPIRE, both(place), vec![ms(life)])
}

pub(crate) fn lease_of(place: &Place, id: &Arc<str>) -> Call {
    call(&PERMIT_LEASE, vec![place.beside[0].clone()], vec![id.clone().into()])
}

/// Gives a permit another lease, be it longer or shorter.
pub(crate) fn update_lease(place: &Place, id: &Arc<str>, lease: Duration) -> Call {
    call(&PERMIT_UPDATE, vec![place.beside[0].clone()], vec![id.clone().into(), ms(lease)])
}

pub(crate) fn count_down(place: &Place, publish: &'static str, (kept, span): Kept) -> Call {
    let [channel, publish] = told(place, publish);
    call(&LATCH_COUNT_DOWN, vec![place.key.clone(), kept], vec![channel, publish, ms(span)])
}

pub(crate) fn count(place: &Place) -> Call {
    call(&LATCH_COUNT, vec![place.key.clone()], vec![])
}

pub(crate) fn delete(place: &Place, publish: &'static str) -> Call {
    call(&LATCH_DELETE, vec![place.key.clone()], told(place, publish).to_vec())
}

/// Sets a value unless a later token has been there; `fence` keeps the highest token.
pub(crate) fn set_fenced(key: Arc<str>, fence: Arc<str>, token: i64, value: &str) -> Call {
    call(&FENCED_SET, vec![key, fence], vec![Arg::Int(token), Arg::from(value)])
}

pub(crate) fn number(reply: Value) -> Result<i64, Unexpected> {
    match reply {
        Value::Int(number) => Ok(number),
        other => Err(Unexpected(other)),
    }
}

/// The reply of [`add`]: was the semaphore there?
pub(crate) fn was_there(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Nil => Ok(false),
        other => number(other).map(|_available| true),
    }
}

pub(crate) fn yes_or_no(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(answer @ (0 | 1)) => Ok(answer == 1),
        other => Err(Unexpected(other)),
    }
}

/// The reply of [`permits`].
pub(crate) fn two_numbers(reply: Value) -> Result<(i64, i64), Unexpected> {
    match &reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(one), Value::Int(other)] => Ok((*one, *other)),
            _ => Err(Unexpected(reply)),
        },
        _ => Err(Unexpected(reply)),
    }
}
