//! What is in Redis now: who holds a lock, and who waits for it.
//!
//! | Call | What it returns |
//! |------|-----------------|
//! | [`Lock::holder`](crate::Lock::holder) | the [`Holder`] of one lock |
//! | [`Lock::waiters`](crate::Lock::waiters) | its [`Waiters`] |
//!
//! The crate [leasehold-admin](https://docs.rs/leasehold-admin) lists all locks that are held, and
//! the connections of their holders.

pub use crate::holder::Holder;
pub use crate::lock::Waiters;
