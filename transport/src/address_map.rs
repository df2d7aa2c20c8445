//! Where servers are reached whose announced addresses this client cannot use.
//!
//! A map applies once to each address that a server names: CLUSTER SLOTS, MOVED, ASK, and the
//! replies of sentinels. It never applies to the hosts of the URL, nor to an address that it gave
//! itself.
//!
//! # Identity
//!
//! A node of a cluster is known by the address at which it is reached, so one server is never two
//! nodes: its name and its IP address may be mapped to the same tunnel, and after a restart it may
//! announce another address. If the map gives another address for a server, the client moves there
//! as after a failover. The primary that sentinels name is known by both addresses. If either
//! changes, all connections move, because a tunnel may still lead to the former primary.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::call_error::Fault;
use crate::host_port::HostPort;
use crate::setting_error::SettingError;
use crate::url::host_and_port;

/// Where this client reaches the servers of a cluster or the servers and sentinels of a Sentinel
/// deployment, if they announce addresses that it cannot use.
///
/// The map gets each address that a server names, and never those of the URL. An address that the
/// map does not know is used as it is.
///
/// # Examples
///
/// ```
/// # mod leasehold { pub mod settings { pub use leasehold_transport::AddressMap; } }
/// use leasehold::settings::AddressMap;
///
/// // The announced address, and the one to connect to.
/// let tunnels = AddressMap::table([
///     ("10.0.0.1:6379", "127.0.0.1:7001"),
///     ("[fd00::2]:6379", "127.0.0.1:7002"),
/// ]);
///
/// // Containers whose ports are published on this machine.
/// let published = AddressMap::function(|host, port| {
///     host.starts_with("172.18.").then(|| ("127.0.0.1".to_owned(), port))
/// });
/// # drop((tunnels, published));
/// ```
#[derive(Clone)]
pub struct AddressMap(MapKind);

#[derive(Clone)]
enum MapKind {
    Table(Result<HashMap<HostPort, HostPort>, SettingError>),
    Function(Arc<Function>),
}

type Function = dyn Fn(&str, u16) -> Option<(String, u16)> + Send + Sync;

impl AddressMap {
    /// A list of announced addresses, each with the address to connect to. All are `host:port`; an
    /// IPv6 address has brackets.
    ///
    /// An entry that is not an address, or an announced address with two different targets, is
    /// refused when the client connects, before anything is sent. Two announced addresses may have
    /// the same target: the name and the IP address of one server. Different servers must have
    /// different targets.
    pub fn table<A, B>(entries: impl IntoIterator<Item = (A, B)>) -> Self
    where
        A: AsRef<str>,
        B: AsRef<str>,
    {
        let mut table = HashMap::new();
        let read = entries.into_iter().try_for_each(|(named, reached)| {
            let (named, reached) = (named.as_ref(), reached.as_ref());
            let before = table.insert(address(named)?, address(reached)?);
            match before {
                Some(other) if table[&address(named)?] != other => {
                    Err(refused(named, "it has two different targets"))
                }
                _ => Ok(()),
            }
        });
        AddressMap(MapKind::Table(read.map(|()| table)))
    }

    /// A function of the announced host and port. It returns the host and port to connect to, or
    /// `None` to use the announced ones. An IPv6 address comes without brackets.
    ///
    /// The function is called for each announced address again and again: about every ten seconds
    /// for a cluster, every 1.5 s for the primary that sentinels name, and after each redirect.
    /// While a server can be reached at an address, the function must return the same one: the
    /// client moves to a new address as in a failover, where every hold is verified.
    ///
    /// It runs on the client's own thread, which also renews leases, or in a call that is
    /// redirected. So it must not block: the renewals of this client pay for that. If it panics, or
    /// returns no usable address, the server is not connected to, and the error says so.
    /// Connections that are open stay.
    pub fn function(
        map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static,
    ) -> Self {
        AddressMap(MapKind::Function(Arc::new(map)))
    }

    /// Why the table cannot be used, if it cannot.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        match &self.0 {
            MapKind::Table(Err(error)) => Err(error.clone()),
            MapKind::Table(Ok(_)) | MapKind::Function(_) => Ok(()),
        }
    }

    /// Where to connect to for an address that a server has named. `None` if the map does not know
    /// it.
    pub(super) fn reached(&self, named: &HostPort) -> Result<Option<HostPort>, Fault> {
        let map = match &self.0 {
            MapKind::Table(table) => {
                return Ok(table.iter().find_map(|table| table.get(named)).cloned());
            }
            MapKind::Function(map) => map,
        };
        let failed = |what: &str| Fault(format!("the address map {what} for {named}"));
        match catch_unwind(AssertUnwindSafe(|| map(&named.host, named.port))) {
            Err(_) => Err(failed("panicked")),
            Ok(None) => Ok(None),
            Ok(Some((host, port))) => {
                let reached = address(&HostPort::new(&host, port).to_string());
                reached
                    .map(Some)
                    .map_err(|_| failed("gives no usable address"))
            }
        }
    }
}

/// Reads `host:port`.
fn address(text: &str) -> Result<HostPort, SettingError> {
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty() && (!host.contains(':') || host.ends_with(']'))
    });
    if !has_port {
        return Err(refused(
            text,
            "write host:port, with brackets around an IPv6 address",
        ));
    }
    let needed = "it needs a host name or an IP address, and a port from 1 to 65535";
    host_and_port(text, 0).map_err(|_| refused(text, needed))
}

fn refused(text: &str, why: &str) -> SettingError {
    SettingError::AddressMap {
        reason: format!("`{text}`: {why}"),
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressMap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_knows_an_address_in_each_of_its_forms() {
        let map = AddressMap::table([
            ("Node-1.internal:6379", "h:1"),
            ("[fd00:0::2]:7", "[::1]:2"),
        ]);
        let reached = |host, port| {
            map.reached(&HostPort::new(host, port))
                .expect("no function")
        };
        assert_eq!(
            reached("node-1.INTERNAL", 6379),
            Some(HostPort::new("h", 1))
        );
        assert_eq!(reached("fd00::2", 7), Some(HostPort::new("::1", 2)));
        assert_eq!(reached("[fd00::0:2]", 7), Some(HostPort::new("::1", 2)));
        for (host, port) in [("node-1.internal", 6380), ("node-2", 6379), ("h", 1)] {
            assert_eq!(reached(host, port), None, "{host}:{port}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_used_says_which_entry() {
        let cases = [
            (vec![("a", "b:1")], "`a`: write host:port"),
            (vec![("a:1", "b")], "`b`: write host:port"),
            (vec![("a:1", "b:")], "`b:`: write host:port"),
            (
                vec![("::1", "b:1")],
                "`::1`: write host:port, with brackets",
            ),
            (vec![(":1", "b:1")], "`:1`: it needs a host"),
            (vec![("a:1", "b:0")], "`b:0`: it needs"),
            (vec![("a:1", "b:65536")], "`b:65536`: it needs"),
            (vec![("a:1", "b/c:1")], "`b/c:1`: it needs"),
            (vec![("a:1", "b:1"), ("A:1", "b:2")], "`A:1`: it has two"),
        ];
        for (entries, reason) in cases {
            match AddressMap::table(entries).check() {
                Err(SettingError::AddressMap { reason: given }) => {
                    assert!(given.contains(reason), "{given}");
                }
                other => panic!("{reason}: {other:?}"),
            }
        }
        let twice = [("a:1", "b:1"), ("a:1", "B:1"), ("c:1", "b:1")];
        assert_eq!(AddressMap::table(twice).check(), Ok(()));
    }

    #[test]
    fn a_function_that_fails_names_the_address() {
        let map = AddressMap::function(|host, port| match host {
            "panics" => panic!("a bug of the caller"),
            "empty" => Some((String::new(), port)),
            "zero" => Some(("h".to_owned(), 0)),
            "url" => Some(("redis://h".to_owned(), port)),
            "::1" => Some(("[FE80::1]".to_owned(), port)),
            _ => None,
        });
        for (host, part) in [
            ("panics", "panicked for panics:7"),
            ("empty", "no usable address for empty:7"),
            ("zero", "no usable address for zero:7"),
            ("url", "no usable address for url:7"),
        ] {
            let Fault(text) = map.reached(&HostPort::new(host, 7)).expect_err(host);
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(
            map.reached(&HostPort::new("[::1]", 7)),
            Ok(Some(HostPort::new("fe80::1", 7)))
        );
        assert_eq!(map.reached(&HostPort::new("other", 7)), Ok(None));
    }
}
