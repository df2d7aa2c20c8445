//! The address of a server and the credentials for it: a Redis URL, parsed and validated.
//!
//! | URL | meaning |
//! | --- | --- |
//! | `redis://[user:password@]host[:port][/db]` | TCP |
//! | `rediss://…` | TCP with TLS (feature `tls`) |
//! | `redis+unix:///path[?db=N&user=…&pass=…]` | Unix socket |
//!
//! `valkey`, `valkeys` and `valkey+unix` mean the same.

use std::fmt;
use std::path::{Path, PathBuf};

use super::credentials::Credentials;
use super::host_port::HostPort;
use super::url::{UrlParts, credentials, database, decode, host_and_port, refused};
use crate::setting_error::SettingError;

/// One server, as the transport needs it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    address: Address,
    credentials: Option<Credentials>,
    database: Option<u8>,
    /// The address that other servers name, if the address map has replaced it.
    announced: Option<HostPort>,
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(HostPort),
    Tls(HostPort),
    Unix(PathBuf),
}

pub(super) const PORT_DEFAULT: u16 = 6379;

/// Whether connections to a server use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Plain,
    Tls,
}

impl Endpoint {
    /// Parses the URL of one server without resolving names or opening connections.
    pub(super) fn of(url: &UrlParts<'_>) -> Result<Self, SettingError> {
        match url.scheme.as_str() {
            "redis" | "valkey" => Self::networked(url, Security::Plain),
            "rediss" | "valkeys" if cfg!(feature = "tls") => Self::networked(url, Security::Tls),
            "rediss" | "valkeys" => Err(refused("rediss:// needs the feature `tls` of this crate")),
            "redis+unix" | "valkey+unix" if cfg!(unix) => Self::unix(url),
            "redis+unix" | "valkey+unix" => Err(refused("this platform has no Unix sockets")),
            _ => Err(refused(
                "unknown scheme; use redis://, rediss:// or redis+unix://, \
                 or valkey://, valkeys:// or valkey+unix://",
            )),
        }
    }

    pub(super) fn new(
        address: Address,
        credentials: Option<Credentials>,
        database: Option<u8>,
    ) -> Self {
        Endpoint {
            address,
            credentials,
            database,
            announced: None,
        }
    }

    /// Records that the address is where the map leads from this one.
    pub(super) fn announced_as(mut self, announced: &HostPort) -> Self {
        self.announced = Some(announced.clone());
        self
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.announced.is_some()
    }

    /// Where the server is reached. A Unix socket has no port.
    pub(super) fn host_port(&self) -> HostPort {
        match &self.address {
            Address::Tcp(at) | Address::Tls(at) => at.clone(),
            Address::Unix(path) => HostPort {
                host: path.display().to_string(),
                port: 0,
            },
        }
    }

    /// The host that the server's certificate must name. An address map that leads to a host name
    /// changes it. One that leads to an IP address only says where the server is reached: a
    /// certificate rarely names a tunnel.
    #[cfg(feature = "tls")]
    pub(super) fn certified<'a>(&'a self, host: &'a str) -> &'a str {
        match &self.announced {
            Some(announced) if super::host_port::ip_address(host).is_some() => &announced.host,
            _ => host,
        }
    }

    /// One of several hosts: `host` or `host:port`.
    pub(super) fn of_host(
        text: &str,
        default: u16,
        security: Security,
        credentials: Option<Credentials>,
    ) -> Result<Self, SettingError> {
        let address = Address::of(security, host_and_port(text, default)?);
        Ok(Endpoint::new(address, credentials, None))
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    pub(super) fn security(&self) -> Security {
        match self.address {
            Address::Tls(_) => Security::Tls,
            Address::Tcp(_) | Address::Unix(_) => Security::Plain,
        }
    }

    pub(crate) fn database(&self) -> Option<u8> {
        self.database
    }

    fn networked(url: &UrlParts<'_>, security: Security) -> Result<Self, SettingError> {
        let address = Address::of(security, host_and_port(url.hosts, PORT_DEFAULT)?);
        if url.query.is_some() {
            return Err(refused("redis:// and rediss:// take no query parameters"));
        }
        let database = match url.path.trim_start_matches('/') {
            "" => None,
            number => Some(database(number)?),
        };
        Ok(Endpoint::new(address, url.credentials()?, database))
    }

    fn unix(url: &UrlParts<'_>) -> Result<Self, SettingError> {
        if !(url.login.is_empty() && url.hosts.is_empty()) {
            return Err(refused(
                "a Unix socket has no host; write redis+unix:///path with three slashes, \
                 and a login as ?user=…&pass=…",
            ));
        }
        let path = PathBuf::from(decode(url.path)?);
        if path == Path::new("") || path == Path::new("/") {
            return Err(refused("the path of the Unix socket is missing"));
        }
        let [number, user, password] = url.parameters(
            ["db", "user", "pass"],
            "redis+unix:// takes the query parameters db, user and pass, once each",
        )?;
        let number = number.as_deref().map(database).transpose()?;
        let credentials = credentials(user.unwrap_or_default(), password.unwrap_or_default())?;
        Ok(Endpoint::new(Address::Unix(path), credentials, number))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.address {
            Address::Tcp(_) => "redis",
            Address::Tls(_) => "rediss",
            Address::Unix(_) => "redis+unix",
        };
        write!(f, "{scheme}://{}", self.address)?;
        match (&self.address, self.database) {
            (_, None) => Ok(()),
            (Address::Unix(_), Some(number)) => write!(f, "?db={number}"),
            (_, Some(number)) => write!(f, "/{number}"),
        }?;
        match &self.announced {
            Some(announced) => write!(f, " (announced as {announced})"),
            None => Ok(()),
        }
    }
}

impl Address {
    pub(super) fn of(security: Security, at: HostPort) -> Self {
        match security {
            Security::Plain => Address::Tcp(at),
            Security::Tls => Address::Tls(at),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(at) | Address::Tls(at) => at.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests;
