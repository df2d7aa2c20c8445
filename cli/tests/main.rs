//! The command line, in processes of its own, on a server of its own.
#![expect(clippy::print_stdout, reason = "measured margins")]

mod concurrent;
mod deployments;
mod exit_codes;
mod help;
mod loss;
mod modes;
mod nested;
mod others;
mod passed_on;
mod permits;
mod preflight;
mod pty;
mod tables;
mod terminal;
mod testbed;
mod waiting;
