//! The address of a server and the credentials for it: a Redis URL, parsed and validated.
//!
//! | URL | meaning |
//! | --- | --- |
//! | `redis://[user:password@]host[:port][/db]` | TCP |
//! | `rediss://…` | TCP with TLS (feature `tls`) |
//! | `redis+unix:///path[?db=N&user=…&pass=…]` | Unix socket |
//!
//! `valkey`, `valkeys` and `valkey+unix` mean the same.
//!
//! No message of this file repeats any part of the URL: a password with an unescaped `@`, `#` or `/`
//! is parsed as part of the host, the path or the fragment.

use std::fmt;
use std::path::{Path, PathBuf};

use url::{Host, Url};

use super::credentials::Credentials;
use crate::error::ConfigError;

/// One server, as the transport needs it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
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

pub(super) const PORT_DEFAULT: u16 = 6379;

/// Whether a server is spoken to by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Plain,
    Tls,
}

impl Endpoint {
    /// Parses a URL; nothing is resolved or opened.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let url = Url::parse(text.trim()).map_err(|error| {
            refused(format!(
                "{error}; special characters of a user or password must be percent-encoded"
            ))
        })?;
        if url.fragment().is_some() {
            return Err(refused("no `#` is allowed; in a password write it as %23"));
        }
        match url.scheme() {
            "redis" | "valkey" => {
                let (host, port) = host_and_port(&url, PORT_DEFAULT)?;
                Self::networked(&url, Address::Tcp { host, port })
            }
            "rediss" | "valkeys" if cfg!(feature = "tls") => {
                let (host, port) = host_and_port(&url, PORT_DEFAULT)?;
                Self::networked(&url, Address::Tls { host, port })
            }
            "rediss" | "valkeys" => Err(refused("rediss:// needs the feature `tls` of this crate")),
            "redis+unix" | "valkey+unix" if cfg!(unix) => Self::unix(&url),
            "redis+unix" | "valkey+unix" => Err(refused("this platform has no Unix sockets")),
            _ => Err(refused(
                "unknown scheme; use redis://, rediss:// or redis+unix://, \
                 or valkey://, valkeys:// or valkey+unix://",
            )),
        }
    }

    /// A server whose credentials are in the configuration of `fred`.
    #[cfg(feature = "fred")]
    pub(crate) fn without_credentials(address: Address, database: Option<u8>) -> Self {
        Endpoint { address, credentials: None, database }
    }

    pub(super) fn new(
        address: Address,
        credentials: Option<Credentials>,
        database: Option<u8>,
    ) -> Self {
        Endpoint { address, credentials, database }
    }

    /// One of several hosts: `host` or `host:port`.
    pub(super) fn of_host(
        text: &str,
        default: u16,
        security: Security,
        credentials: Option<Credentials>,
    ) -> Result<Self, ConfigError> {
        let url = Url::parse(&format!("redis://{text}"));
        let url = url.map_err(|error| refused(format!("a host that cannot be used: {error}")))?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || !url.username().is_empty() {
            return Err(refused("a host that cannot be used; write host:port,host:port"));
        }
        let (host, port) = host_and_port(&url, default)?;
        let address = Address::of(security, host, port);
        Ok(Endpoint { address, credentials, database: None })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Whether it is reached by TLS.
    pub(crate) fn is_secured(&self) -> bool {
        matches!(self.address, Address::Tls { .. })
    }

    pub(crate) fn database(&self) -> Option<u8> {
        self.database
    }

    fn networked(url: &Url, address: Address) -> Result<Self, ConfigError> {
        if url.query().is_some() {
            return Err(refused("redis:// and rediss:// take no query parameters"));
        }
        let database = match url.path().trim_start_matches('/') {
            "" => None,
            number => Some(database(number)?),
        };
        let user = decode(url.username())?;
        let credentials = credentials(user, decode(url.password().unwrap_or_default())?)?;
        Ok(Endpoint { address, credentials, database })
    }

    fn unix(url: &Url) -> Result<Self, ConfigError> {
        if url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(refused(
                "a Unix socket has no host; write redis+unix:///path with three slashes",
            ));
        }
        let path = PathBuf::from(decode(url.path())?);
        if path == Path::new("") || path == Path::new("/") {
            return Err(refused("the path of the Unix socket is missing"));
        }
        let (mut number, mut user, mut password) = (None, None, None);
        for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)?;
            let again = match key {
                "db" => number.replace(database(&value)?).is_some(),
                "user" => user.replace(value).is_some(),
                "pass" => password.replace(value).is_some(),
                _ => true,
            };
            if again {
                return Err(refused(
                    "redis+unix:// takes the query parameters db, user and pass, once each",
                ));
            }
        }
        let credentials = credentials(user.unwrap_or_default(), password.unwrap_or_default())?;
        Ok(Endpoint { address: Address::Unix { path }, credentials, database: number })
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

pub(super) fn refused(reason: impl Into<String>) -> ConfigError {
    ConfigError::Url { reason: reason.into() }
}

fn host_and_port(url: &Url, default: u16) -> Result<(String, u16), ConfigError> {
    let host = match url.host() {
        Some(Host::Ipv6(address)) => format!("[{address}]"),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Domain(name)) => decode(name)?,
        None => String::new(),
    };
    if host.is_empty() {
        return Err(refused("the host is missing; write redis://host:port"));
    }
    match url.port().unwrap_or(default) {
        0 => Err(refused("the port must be a number from 1 to 65535")),
        port => Ok((host, port)),
    }
}

pub(super) fn database(text: &str) -> Result<u8, ConfigError> {
    text.parse().map_err(|_| refused("the database must be a number from 0 to 255"))
}

pub(super) fn credentials(
    user: String,
    password: String,
) -> Result<Option<Credentials>, ConfigError> {
    match (user.is_empty(), password.is_empty()) {
        (true, true) => Ok(None),
        // Sent without a password the user would silently be the default user.
        (false, true) => Err(refused(
            "a user without a password; write redis://user:password@host, \
             or redis://:password@host for the default user",
        )),
        (true, false) => Ok(Some(Credentials::password(password))),
        (false, false) => Ok(Some(Credentials::new(user, password))),
    }
}

/// Undoes percent-encoding.
pub(super) fn decode(text: &str) -> Result<String, ConfigError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte.unwrap_or_default()).to_digit(16);
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("BUG: two hex digits are a byte"));
            }
            _ => return Err(refused("`%` must be followed by two hex digits; write it as %25")),
        }
    }
    String::from_utf8(bytes).map_err(|_| refused("the percent-encoded text is not UTF-8"))
}

#[cfg(test)]
mod tests;
