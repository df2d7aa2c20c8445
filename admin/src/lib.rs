//! Looks at the servers of [leasehold]'s locks, for operators and for programs that check their
//! deployment.
//!
//! | Call | What it does |
//! |------|--------------|
//! | [`Admin::preflight`] | reports what the settings of the servers mean for locks |
//! | [`Admin::require`] | refuses a deployment that gives less than is needed |
//! | [`Admin::locks`] | lists the locks that are held, by any client |
//! | [`Admin::lock_at`] | looks at one key |
//! | [`Admin::force_unlock_at`] | frees a lock whose key is not text |
//! | [`Admin::connections`] | lists the connections of the servers, with the clients that they belong to |
//! | [`unlock_after`] | leaves a lock to be freed by Redis after a time |
//!
//! A lock that has a name is freed by force with
//! [`Lock::force_unlock`](leasehold::Lock::force_unlock), and one lock is inspected with
//! [`Lock::holder`](leasehold::Lock::holder) and [`Lock::waiters`](leasehold::Lock::waiters).
//!
//! # Examples
//!
//! ```
//! use leasehold::{Client, Error};
//! use leasehold_admin::Admin;
//! use leasehold_admin::preflight::Severity;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let admin = Admin::new(&client);
//! let report = admin.preflight().await?;
//! println!("{report}");
//! if report.worst() >= Some(Severity::Danger) {
//!     eprintln!("do not rely on these locks");
//! }
//! for lock in admin.locks("orders:*").await?.iter() {
//!     println!("{} ({}): {} holders", lock.key, lock.kind, lock.holders.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Cancel safety
//!
//! Any future of this crate may be dropped at any time. The section *Cancel safety* of each call
//! says what the drop leaves behind, as in [leasehold](leasehold#cancel-safety).

mod admin;
mod after;
mod connections;
mod error;
mod locks;
pub mod preflight;
mod scripts;

pub use admin::Admin;
pub use after::unlock_after;
pub use connections::Connection;
pub use error::{Refusal, Unmet};
pub use locks::{LockInfo, LockKind, LockList};
