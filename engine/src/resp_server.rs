//! The engine as a server: RESP2 and RESP3 over byte streams in memory, with faults at the level of
//! bytes.
//!
//! A client dials and gets the two halves of a stream. One task for each connection reads commands,
//! runs them on the engine and writes what Redis would reply. A stream consists of two pipes of
//! bounded capacity. Bytes that a pipe has accepted count as sent, like bytes that a kernel has
//! accepted: from then on their fate depends only on the pipe.
//!
//! # Invariants
//!
//! - **SERVER-1** Bytes of one direction arrive in order and without a gap. Only the last bytes of
//!   a stream can be lost.
//! - **SERVER-2** A command runs exactly when all its bytes have arrived, the engine is not paused,
//!   and the server was not restarted.
//! - **SERVER-3** Replies and messages leave the server in the order in which the engine produced
//!   them.
//! - **SERVER-4** Everything random is drawn from the client's seed. With one thread and paused
//!   time, the same seed gives the same bytes at the same moments.
//!
//! # Locking
//!
//! Engine, then server connection. A client's list of connections, then server connection, then
//! duplex. No task is woken while the duplex is locked.
//!
//! # Bounds
//!
//! A pipe holds at most its capacity. A subscriber's unsent output is limited by
//! `Faults::output_max`. Other replies wait without a limit, as in Redis: there are as many as
//! their client has sent commands.
//!
//! # Tasks
//!
//! One for each connection. It ends when the stream has ended for the server (the client is gone,
//! or the connection broke), when the engine is dropped or restarted, or with its runtime.

mod cluster;
mod commands;
mod control;
mod decode;
mod dialer;
mod duplex;
mod encode;
mod link;
mod pipe;
mod pubsub;
mod refused;
mod serve;
mod server_connection;
mod stream;
#[cfg(test)]
mod tests;
mod waits;

pub use self::control::{ConnectionControl, LinkControl};
pub use self::dialer::Dialer;
pub(crate) use self::link::Link;
pub(crate) use self::server_connection::ServerConnection;
pub use self::stream::{ReadHalf, WriteHalf};
