//! The one release path of all kinds.
//!
//! | step | what happens |
//! | --- | --- |
//! | a guard goes | [`HoldShare`](crate::session::HoldShare) leaves its hold: lost, an inner guard, or the last one |
//! | [`departure`] | the last guard is gone: the hold passes to the next local waiter, or is to be released |
//! | [`pending`] | the release is owed: a caller carries it out, or its drop posts it |
//! | [`lowering`] | the hold is lowered to its guards, or ended |
//! | [`confirm`] | the calls of one release, repeated until Redis confirms it |
//! | [`cleanup`] | what the background carries out: releases, undos, permits that are kept |
//! | [`under_way`] | until all that is over, nobody is given the field |

pub(crate) mod cleanup;
mod confirm;
pub(crate) mod departure;
pub(crate) mod lowering;
pub(crate) mod pending;
pub(crate) mod under_way;
