//! A server, a proxy and a connection, by the standard library alone: the unit tests of the transport have them as well.

pub mod keeper;
pub(crate) mod proxy;
pub(crate) mod resp;
pub(crate) mod server;
pub(crate) mod waiting;
