//! The engine as a server: RESP3 on byte streams in memory, with faults in bytes.
//!
//! A client dials and gets the two halves of a stream; a task for each connection reads commands,
//! runs them on the engine and writes what Redis would answer. A stream is two pipes of bounded
//! capacity. What a pipe has taken from its writer counts as sent, as what a kernel has taken does:
//! its fate is that of the pipe, not of the writer.
//!
//! # Invariants
//!
//! - **F1** Bytes of one direction arrive in their order and without a gap: what is lost is an end
//!   of the stream, and nothing arrives after it.
//! - **F2** A command runs exactly when all its bytes have arrived, the engine is not paused, and
//!   the server has not begun anew.
//! - **F3** Answers and messages leave the server in the order in which the engine made them.
//! - **F4** Everything is drawn from the client's seed: with one thread and paused time the same
//!   seed gives the same bytes at the same moments.
//!
//! # Locking
//!
//! Engine, then conversation; a client's list of connections, then conversation, then wire. The last
//! is never held while a task is woken.
//!
//! # Bounds
//!
//! A pipe holds its capacity, a listener's unsent output `ByteFaults::output_max`. Other answers
//! wait without a bound, as in Redis: they are as many as the commands that their client has sent.
//!
//! # Tasks
//!
//! One for each connection. It ends when the stream has ended for the server (the client is gone, or
//! the connection broke), when the engine goes or begins anew, and with its runtime.

mod commands;
mod control;
mod conversation;
mod encode;
mod faults;
mod line;
mod pipe;
mod serve;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use self::control::{ByteControl, ConnectionControl};
pub(crate) use self::conversation::Conversation;
pub use self::faults::{ByteFaults, Direction};
pub(crate) use self::line::ByteLine;
