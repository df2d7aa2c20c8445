//! The release path of all kinds.
//!
//! | step | what happens | | --- | --- | | [`HoldShare`](crate::session::HoldShare) | a guard
//! leaves its hold, which is lost, or has other guards, or ends | | [`departure`] | the last guard
//! is gone: the hold passes to the next local waiter, or must be released | | [`pending`] | a
//! release that is owed: a caller carries it out, or its drop posts it | | [`early`] | the first
//! call of a release that is posted | | [`lowering`] | lowers
//! the hold to its remaining guards, or ends it | | [`confirm`] | sends the calls of one release
//! until Redis confirms it | | [`cleanup`] | the work of the background task: releases, undos,
//! permits that are kept | | [`under_way`] | the fields that nobody else may get until their
//! release is over |

pub(crate) mod cleanup;
mod confirm;
pub(crate) mod departure;
pub(crate) mod early;
pub(crate) mod lowering;
pub(crate) mod pending;
pub(crate) mod under_way;
