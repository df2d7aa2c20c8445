//! What the services of `docs/services.md` share.

mod fenced_value;
mod lock_by_key;
mod options;
mod resource;
pub mod shop;

pub use fenced_value::{FencedError, FencedValue};
pub use lock_by_key::{LockByKey, Locked, Refusal};
pub use options::{Failure, Terminated, client, millis, option, required, server};
pub use resource::visit;
