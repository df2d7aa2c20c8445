//! The engine as a server: RESP3 on byte streams in memory, with faults in bytes.
//!
//! A client dials and gets the two halves of a stream; a task for each connection reads commands,
//! runs them on the engine and writes what Redis would answer. A stream is two pipes of bounded
//! capacity. Bytes that a pipe has taken from its writer count as sent, as bytes that a kernel has taken
//! do: their fate depends on the pipe, not on the writer.
//!
//! # Invariants
//!
//! - **F1** Bytes of one direction arrive in their order and without a gap: only the last bytes of a
//!   stream can be lost.
//! - **F2** A command runs exactly when all its bytes have arrived, the engine is not paused, and
//!   the server was not restarted.
//! - **F3** Answers and messages leave the server in the order in which the engine made them.
//! - **F4** Everything is drawn from the client's seed: with one thread and paused time the same
//!   seed gives the same bytes at the same moments.
//!
//! # Locking
//!
//! Engine, then server connection; a client's list of connections, then server connection, then duplex.
//! The duplex is never locked while a task is woken.
//!
//! # Bounds
//!
//! A pipe holds its capacity, a subscriber's unsent output `Faults::output_max`. Other answers
//! wait without a bound, as in Redis: they are as many as the commands that their client has sent.
//!
//! # Tasks
//!
//! One for each connection. It ends when the stream has ended for the server (the client is gone, or
//! the connection broke), when the engine is dropped or restarted, and with its runtime.

mod commands;
mod control;
mod decode;
mod dialer;
mod duplex;
mod encode;
mod link;
mod pipe;
mod serve;
mod server_connection;
mod stream;
#[cfg(test)]
mod tests;

pub use self::control::{ConnectionControl, LinkControl};
pub use self::dialer::Dialer;
pub(crate) use self::link::Link;
pub(crate) use self::server_connection::ServerConnection;
pub use self::stream::{ReadHalf, WriteHalf};
