//! What is in Redis now: who holds which lock, who waits for it, and from which connection.
//!
//! | Call | What it returns |
//! |------|-----------------|
//! | [`Lock::holder`](crate::Lock::holder) | the [`Holder`] of one lock |
//! | [`Lock::waiters`](crate::Lock::waiters) | its [`Waiters`] |
//! | [`Client::locks`](crate::Client::locks) | a [`LockList`] of all locks that are held |
//! | [`Client::connections`](crate::Client::connections) | each [`Connection`] of the servers |

pub use crate::connections::Connection;
pub use crate::holder::Holder;
pub use crate::lock::Waiters;
pub use crate::locks::{LockInfo, LockKind, LockList};
