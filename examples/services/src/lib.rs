//! What the services of `docs/services.md` share.

mod lock_by_key;
mod options;
mod resource;
pub mod shop;

pub use lock_by_key::{LockByKey, Locked, Refusal};
pub use options::{Failure, Terminated, client, millis, option, required};
pub use resource::visit;
