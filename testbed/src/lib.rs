//! The common ground of leasehold's tests.
//!
//! - A [`Bed`] for behaviour that is the same on the embedded engine and on servers, and
//!   [`behaviours!`], which makes a test on each.
//! - Servers: [`Server`], several independent [`Servers`], [`Cluster`], [`Sentinels`], or the
//!   [`Deployment`] that `LEASEHOLD_DEPLOYMENT` names. They are processes on free loopback ports,
//!   which belong to one test and end with it. A [`Proxy`], or a [`Line`] of them, disturbs
//!   connections on request.
//! - A client without dependencies: [`Connection`] to one server, [`Routes`] to a deployment, and
//!   [`Outside`], with the questions that tests ask about either.
//! - [`KINDS`]: every kind of lock. [`PROFILES`]: the servers of vendors, for the engine to be like
//!   them.
//! - Other programs, by [`command`]: they see the same world however the tests were started.
//! - Waiting for a condition rather than for a duration: [`eventually`], [`soon`], [`timed`], and
//!   [`wait_until`] for threads.
#![expect(missing_docs, reason = "most names of a test bed explain themselves")]
#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a test fails by a panic"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "starting a process and waiting for it takes real time, outside any runtime"
)]

mod authority;
#[cfg(feature = "locks")]
mod bed;
#[cfg(feature = "locks")]
mod behaviours;
mod certificate;
#[cfg(feature = "locks")]
pub mod crowd;
mod deployment;
#[cfg(feature = "locks")]
mod exceptions;
#[cfg(feature = "locks")]
mod gate;
#[cfg(feature = "locks")]
mod histories;
#[cfg(feature = "locks")]
mod hold;
mod info;
#[cfg(feature = "locks")]
mod kind;
mod outside;
pub mod preload;
#[cfg(feature = "locks")]
mod profiles;
/// A server, a proxy and a connection, which need no runtime.
mod process {
    pub(crate) mod command;
    pub mod keeper;
    pub(crate) mod port;
    pub(crate) mod program;
    pub(crate) mod proxy;
    pub(crate) mod resp;
    pub(crate) mod server;
    pub(crate) mod waiting;
}
mod rights;
mod secure;
#[cfg(feature = "locks")]
mod several;
mod waiting;

pub use authority::{Authority, Issued};
#[cfg(feature = "locks")]
pub use bed::{Bed, Connect, Place, connected, patient};
#[cfg(feature = "locks")]
pub use behaviours::{On, task, thread};
pub use certificate::Certificate;
pub use deployment::cluster::{Cluster, Shape};
pub use deployment::migration::Migration;
pub use deployment::routes::Routes;
pub use deployment::sentinel::{MASTER, Sentinels, Watch};
pub use deployment::slots::{SLOTS, keyslot};
pub use deployment::{Borrowed, Deployment, Line};
#[cfg(feature = "locks")]
pub use exceptions::on_profile;
#[cfg(feature = "locks")]
pub use gate::Gate;
#[cfg(feature = "locks")]
pub use histories::{Histories, NOISE};
#[cfg(feature = "locks")]
pub use hold::{
    assert_free, assert_lost, forget, holds, lost, no_expiry, release, take_and_release, take_turn,
    until_certain, until_stats, waiting,
};
pub use info::{CommandStats, command_stats, info_line};
#[cfg(feature = "locks")]
pub use kind::{KINDS, Kind};
pub use outside::{Outside, count_of};
pub use process::command::{command, this_program};
pub use process::keeper;
pub use process::port::listen;
pub use process::program::Program;
pub use process::proxy::Proxy;
pub use process::resp::{Connection, Reply};
pub use process::server::{Server, is_missing, run_as_users};
pub use process::waiting::wait_until;
#[cfg(feature = "locks")]
pub use profiles::PROFILES;
pub use rights::rule;
pub use secure::{Folder, Secure};
#[cfg(feature = "locks")]
pub use several::{Nodes, RED, Servers};
pub use waiting::{
    LIMIT, SOON, eventually, eventually_within, in_turns, ms, soon, timed, until_listed, within,
};
