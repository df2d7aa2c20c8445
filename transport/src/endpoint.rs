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
use super::url::{Parts, credentials, database, decode, host_and_port, refused};
use crate::ConfigError;

/// One server, as the transport needs it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    address: Address,
    credentials: Option<Credentials>,
    database: Option<u8>,
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix { path: PathBuf },
}

/// The address of another server in a reply. If a cluster node sends an empty host, it means its
/// own host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HostPort {
    pub(super) host: String,
    pub(super) port: u16,
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
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        Endpoint::of(&Parts::of(text)?)
    }

    pub(super) fn of(url: &Parts<'_>) -> Result<Self, ConfigError> {
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
        }
    }

    /// One of several hosts: `host` or `host:port`.
    pub(super) fn of_host(
        text: &str,
        default: u16,
        security: Security,
        credentials: Option<Credentials>,
    ) -> Result<Self, ConfigError> {
        let (host, port) = host_and_port(text, default)?;
        let address = Address::of(security, host, port);
        Ok(Endpoint {
            address,
            credentials,
            database: None,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Whether connections to the server use TLS.
    pub(crate) fn is_secured(&self) -> bool {
        matches!(self.address, Address::Tls { .. })
    }

    pub(crate) fn database(&self) -> Option<u8> {
        self.database
    }

    fn networked(url: &Parts<'_>, security: Security) -> Result<Self, ConfigError> {
        let (host, port) = host_and_port(url.hosts, PORT_DEFAULT)?;
        if url.query.is_some() {
            return Err(refused("redis:// and rediss:// take no query parameters"));
        }
        let database = match url.path.trim_start_matches('/') {
            "" => None,
            number => Some(database(number)?),
        };
        let address = Address::of(security, host, port);
        Ok(Endpoint {
            address,
            credentials: url.credentials()?,
            database,
        })
    }

    fn unix(url: &Parts<'_>) -> Result<Self, ConfigError> {
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
        Ok(Endpoint {
            address: Address::Unix { path },
            credentials,
            database: number,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => write!(f, "redis://{host}:{port}")?,
            Address::Tls { host, port } => write!(f, "rediss://{host}:{port}")?,
            Address::Unix { path } => write!(f, "redis+unix://{}", path.display())?,
        }
        match (&self.address, self.database) {
            (_, None) => Ok(()),
            (Address::Unix { .. }, Some(number)) => write!(f, "?db={number}"),
            (_, Some(number)) => write!(f, "/{number}"),
        }
    }
}

impl Address {
    pub(super) fn of(security: Security, host: String, port: u16) -> Self {
        match security {
            Security::Plain => Address::Tcp { host, port },
            Security::Tls => Address::Tls { host, port },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } | Address::Tls { host, port } => write!(f, "{host}:{port}"),
            Address::Unix { path } => write!(f, "{}", path.display()),
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
