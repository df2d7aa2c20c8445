//! The one release path of all kinds.
//!
//! | step | what happens |
//! | --- | --- |
//! | a guard goes | [`HoldShare`](super::HoldShare) leaves its hold: lost, an inner guard, or the last one |
//! | [`departure`] | the last guard is gone: the hold passes to the next local waiter, or is to be released |
//! | [`leaving`] | a caller waits for the release: it is sent, and repeated for a command's time-out |
//! | [`open_call`] | the same for a release of an inner guard, which lowers the count |
//! | [`cleanup`] | nobody waits for it, or nobody does any more: the background releases |
//! | [`under_way`] | until all that is over, nobody is given the field |

pub(crate) mod cleanup;
pub(crate) mod departure;
pub(crate) mod leaving;
pub(crate) mod open_call;
pub(crate) mod under_way;
