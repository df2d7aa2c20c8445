//! An in-memory Redis for tests: RESP2 and RESP3 over any byte stream, Lua, faults, a clock that
//! can be paused.
//!
//! An [`Engine`] is one server within the process. A client connects through a [`Dialer`], and
//! sends the bytes that it would send to Redis. The engine knows strings, hashes, lists, sorted
//! sets, expiry, publish/subscribe and scripts; it answers any other command with the error of
//! Redis for an unknown one.
//!
//! - **Time** is tokio's. Under `tokio::time::pause` a key expires exactly when the test advances
//!   the clock that far.
//! - **Faults** belong to the connections of one client: [`Engine::links`] has the switches. All
//!   chances and delays are drawn from one seed, so a run can be repeated.
//! - **Inspection** needs no connection: [`Engine::dump`], [`Engine::command`], and what was
//!   counted.
//!
//! # Examples
//!
//! A key expires as soon as the test says so:
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold_engine::Engine;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> std::io::Result<()> {
//! let engine = Engine::new();
//! let dialer = engine.dialer(&tokio::runtime::Handle::current());
//! let (mut reader, mut writer) = dialer.dial()?;
//!
//! writer.write_all(b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nPX\r\n$3\r\n500\r\n").await?;
//! let mut reply = [0; 5];
//! reader.read_exact(&mut reply).await?;
//! assert_eq!(&reply, b"+OK\r\n");
//! assert_eq!(engine.dump().len(), 1);
//!
//! tokio::time::advance(Duration::from_millis(501)).await;
//! assert!(engine.dump().is_empty());
//! # Ok(())
//! # }
//! ```

mod clock;
mod commands;
mod convert;
mod data;
mod engine;
mod faults;
mod inspect;
mod lua;
mod number;
mod profile;
mod random;
mod replicas;
mod reply;
mod resp_server;
mod script_text;
mod server_run;
mod slot;
mod store;
#[cfg(test)]
mod tests;

pub use engine::Engine;
pub use faults::{Delay, Direction, Faults, Restart};
pub use inspect::Dumped;
pub use profile::{Hello, Profile, Refusal, Refused, Slots, Undeclared};
pub use reply::{ErrorReply, Reply};
pub use resp_server::{ConnectionControl, Dialer, LinkControl, ReadHalf, WriteHalf};
