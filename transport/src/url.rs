//! Splits URLs of one or several servers into their parts.
//!
//! No existing crate fits. A strict parser of URIs refuses several hosts with ports, and passwords
//! with characters such as `^` or `é`, which work here. A parser of web addresses would add the
//! tables of Unicode.
//!
//! No message repeats any part of a URL, except an IP address. If a password contains an unescaped
//! `@`, `#` or `/`, a part of it is parsed as the host, the path or the fragment.

use std::net::{Ipv6Addr, SocketAddr};

use super::credentials::Credentials;
use super::host_port::HostPort;
use crate::setting_error::SettingError;

/// Characters that no host name contains.
const NOT_IN_A_NAME: &[char] = &[
    ' ', '#', '/', ':', '<', '>', '?', '@', '[', '\\', ']', '^', '|', '\u{7f}',
];

/// The parts of a URL, still percent-encoded.
pub(super) struct UrlParts<'a> {
    /// In lower case.
    pub(super) scheme: String,
    /// The part before the last `@` of the authority: `user:password`.
    pub(super) login: &'a str,
    /// The hosts and their ports.
    pub(super) hosts: &'a str,
    /// Empty, or beginning with a slash.
    pub(super) path: &'a str,
    /// `None` if there is no `?`.
    pub(super) query: Option<&'a str>,
}

impl<'a> UrlParts<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self, SettingError> {
        let text = text.trim();
        let (scheme, rest) = text.split_once(':').unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        // `localhost:6379` has no scheme. A Unix socket has no host, so its URL needs no `//`.
        if scheme.is_empty() || !(rest.starts_with("//") || scheme.ends_with("+unix")) {
            return Err(scheme_is_missing(text));
        }
        if rest.contains('#') {
            return Err(refused("no `#` is allowed; in a password write it as %23"));
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        Ok(UrlParts {
            scheme,
            login,
            hosts,
            path,
            query,
        })
    }

    /// The credentials that precede the hosts.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, SettingError> {
        let (user, password) = self.login.split_once(':').unwrap_or((self.login, ""));
        credentials(decode(user)?, decode(password)?)
    }

    /// The decoded values of the query parameters with these names. Another parameter, or one that
    /// is given twice, is refused with this reason.
    pub(super) fn parameters<const N: usize>(
        &self,
        names: [&str; N],
        reason: &str,
    ) -> Result<[Option<String>; N], SettingError> {
        let mut values = [const { None }; N];
        let pairs = self.query.unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let at = names.iter().position(|name| *name == key);
            let value = decode(value)?;
            if at.is_none_or(|at| values[at].replace(value).is_some()) {
                return Err(refused(reason));
            }
        }
        Ok(values)
    }
}

/// Splits a host and its port. An IPv6 address is in brackets.
pub(super) fn host_and_port(text: &str, default: u16) -> Result<HostPort, SettingError> {
    // The colons of an IPv6 address are within brackets.
    let end = match text.find(']') {
        Some(bracket) => bracket + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => {
            let zone = "the brackets must contain an IPv6 address without a zone";
            let address = address.parse::<Ipv6Addr>().map_err(|_| refused(zone))?;
            address.to_string()
        }
        None => host_name(host)?,
    };
    match port_number(port, default) {
        Some(port) => Ok(HostPort::new(&host, port)),
        None => Err(refused(
            "the port must be a number from 1 to 65535; special characters of a user or password \
             must be percent-encoded",
        )),
    }
}

/// Parses the part after the host: nothing, or a colon and a number.
fn port_number(text: &str, default: u16) -> Option<u16> {
    if matches!(text, "" | ":") {
        return Some(default);
    }
    let digits = text.strip_prefix(':')?;
    // `parse` would accept a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

fn host_name(text: &str) -> Result<String, SettingError> {
    if text.is_empty() {
        return Err(refused(
            "the host is missing; write redis://host:port, and percent-encode special characters \
             of a user or password",
        ));
    }
    if text.contains(NOT_IN_A_NAME) || text.contains(|letter: char| letter < ' ') {
        return Err(refused(
            "the host has a character that no host name has; special characters of a user or \
             password must be percent-encoded",
        ));
    }
    let name = decode(text)?;
    // Resolvers of different systems treat other texts differently.
    if name.is_ascii() {
        Ok(name)
    } else {
        Err(refused(
            "a host name must be ASCII; write an internationalised name in its ASCII form, \
             which has xn-- in it",
        ))
    }
}

fn scheme_is_missing(text: &str) -> SettingError {
    let address = if text.parse::<SocketAddr>().is_ok() {
        text
    } else {
        "host:port"
    };
    refused(format!("the scheme is missing: write redis://{address}"))
}

pub(super) fn refused(reason: impl Into<String>) -> SettingError {
    SettingError::Url {
        reason: reason.into(),
    }
}

pub(super) fn database(text: &str) -> Result<u8, SettingError> {
    text.parse()
        .map_err(|_| refused("the database must be a number from 0 to 255"))
}

pub(super) fn credentials(
    user: String,
    password: String,
) -> Result<Option<Credentials>, SettingError> {
    match (user.is_empty(), password.is_empty()) {
        (true, true) => Ok(None),
        // Without a password, the server would silently use the default user.
        (false, true) => Err(refused(
            "a user without a password; write redis://user:password@host, \
             or redis://:password@host for the default user",
        )),
        (true, false) => Ok(Some(Credentials::password(password))),
        (false, false) => Ok(Some(Credentials::new(user, password))),
    }
}

/// Decodes percent-encoding.
pub(super) fn decode(text: &str) -> Result<String, SettingError> {
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
            _ => {
                return Err(refused(
                    "`%` must be followed by two hex digits; write it as %25",
                ));
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| refused("the percent-encoded text is not UTF-8"))
}
