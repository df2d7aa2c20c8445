//! The one release path of all kinds.
//!
//! | step | what happens |
//! | --- | --- |
//! | a guard goes | [`HoldShare`](super::HoldShare) leaves its hold: lost, an inner guard, or the last one |
//! | [`departure`] | the last guard is gone: the hold passes to the next local waiter, or is to be released |
//! | [`pending`] | the hold is to be lowered to its guards, or ended: a caller does that, or else the background |
//! | [`confirm`] | the calls of one release, repeated until Redis confirms it |
//! | [`cleanup`] | what the background carries out: releases, undos, permits that are kept |
//! | [`under_way`] | until all that is over, nobody is given the field |

pub(crate) mod cleanup;
mod confirm;
pub(crate) mod departure;
pub(crate) mod pending;
pub(crate) mod under_way;
