//! A host and a port: where a server is reached, or what other servers call it.

use std::fmt;
use std::net::IpAddr;

/// An address in the one form that is compared: an IP address in its shortest form and without
/// brackets, or a name in lower case. If a cluster node sends an empty host, it means its own host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HostPort {
    pub(super) host: String,
    pub(super) port: u16,
}

impl HostPort {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = match ip_address(host) {
            Some(address) => address.to_string(),
            None => host.to_ascii_lowercase(),
        };
        HostPort { host, port }
    }
}

/// An IPv6 address has brackets in a URL, but not in the replies of servers.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

pub(super) fn ip_address(host: &str) -> Option<IpAddr> {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inside.unwrap_or(host).parse().ok()
}
