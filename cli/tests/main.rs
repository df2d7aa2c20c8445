//! The command line, in processes of its own, on a server of its own.
#![expect(clippy::print_stdout, reason = "measured margins")]

#[path = "../../tests/support/certificate.rs"]
mod certificate;
mod concurrent;
mod deployments;
mod exit_codes;
mod loss;
mod nested;
mod others;
mod passed_on;
mod pty;
#[path = "../../tests/support/mod.rs"]
mod support;
mod tables;
mod terminal;
mod testbed;
