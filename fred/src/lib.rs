//! Connections of [`leasehold`] that the Redis client [`fred`] makes, for programs that configure
//! their Redis through it.
//!
//! Other programs use `leasehold` alone, by [`Client::builder`](leasehold::Client::builder). The
//! locks behave the same.
//!
//! # Limits
//!
//! - One server. [`builder`] refuses configurations of Sentinel and Cluster.
//! - The timeouts of the builder and the reconnecting of `leasehold` apply. Settings of the pattern
//!   for performance, connections, reconnecting and the version of RESP are ignored.
//! - The server must speak RESP3 (`HELLO 3`). Without `fred`, RESP2 will do.
//! - Calls are not batched. A call costs two to eight times the CPU of `leasehold`'s own
//!   connection.
//! - [`Error::Unknown`](leasehold::Error::Unknown) is more frequent, because `fred` cannot tell
//!   whether it sent a call.
//! - If the server refuses a channel to this user, each wait for that name costs the connection for
//!   messages, and all other waiters of the client retry.
//!
//! # Examples
//!
//! ```no_run
//! use leasehold_fred::fred::clients::Client as Fred;
//! use leasehold_fred::fred::types::config::{Config, ServerConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ServerConfig::new_centralized("127.0.0.1", 6379);
//! let config = Config { server, password: Some("secret".into()), ..Config::default() };
//! let pattern = Fred::new(config, None, None, None);
//! let client = leasehold_fred::builder(&pattern)?.connect().await?;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    clippy::large_futures,
    reason = "futures of fred have several kilobytes; those of commands are boxed"
)]

mod frames;
mod relay;

use std::error::Error;
use std::fmt;

use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ServerConfig};
use leasehold::ClientBuilder;

/// The crate fred, in the version whose clients [`builder`] takes.
pub use ::fred;

/// The pattern is not for a single server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOneServer;

impl fmt::Display for NotOneServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "Sentinel and Cluster are not supported over fred: give one server as \
             `ServerConfig::Centralized`, or connect without fred, by `leasehold::Client::builder`",
        )
    }
}

impl Error for NotOneServer {}

/// Starts a client of `leasehold` whose connections are made by fred, with the configuration of
/// `pattern`.
///
/// The client takes the server, the user and password or credential provider, the TLS connector,
/// the database and the resolver from `pattern`, which need not be connected, and whose connections
/// are not used. [`fred`] is the version of fred that `pattern` must have.
///
/// # Errors
///
/// [`NotOneServer`].
pub fn builder(pattern: &fred::clients::Client) -> Result<ClientBuilder, NotOneServer> {
    let url = url(&pattern.client_config())?;
    Ok(leasehold::Client::builder(&url).dial_through(relay::dialer(pattern)))
}

/// The server and the database. `fred` logs in itself.
fn url(config: &Config) -> Result<String, NotOneServer> {
    let number = config.database;
    Ok(match &config.server {
        ServerConfig::Centralized { server } => {
            let scheme = if config.uses_tls() { "rediss" } else { "redis" };
            let (host, port) = (bracketed(&server.host), server.port);
            let path = number.map(|number| format!("/{number}"));
            format!("{scheme}://{host}:{port}{}", path.unwrap_or_default())
        }
        #[cfg(unix)]
        ServerConfig::Unix { path } => {
            let path = path.to_string_lossy();
            let path = path
                .replace('%', "%25")
                .replace('?', "%3F")
                .replace('#', "%23");
            let query = number.map(|number| format!("?db={number}"));
            format!("redis+unix://{path}{}", query.unwrap_or_default())
        }
        ServerConfig::Sentinel { .. } | ServerConfig::Clustered { .. } => return Err(NotOneServer),
    })
}

/// An IPv6 address has brackets in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_single_server_has_its_url() {
        let shown = |server, database| {
            let config = Config {
                server,
                database,
                ..Config::default()
            };
            url(&config)
        };
        let at = ServerConfig::new_centralized;
        let cases = [
            (shown(at("localhost", 1), None), "redis://localhost:1"),
            (shown(at("::1", 7), Some(3)), "redis://[::1]:7/3"),
            (shown(at("[::1]", 7), None), "redis://[::1]:7"),
            #[cfg(unix)]
            (
                shown(
                    ServerConfig::Unix {
                        path: "/a b%?#".into(),
                    },
                    Some(1),
                ),
                "redis+unix:///a b%25%3F%23?db=1",
            ),
        ];
        for (url, expected) in cases {
            assert_eq!(url.as_deref(), Ok(expected));
        }
        let several = ServerConfig::new_clustered(vec![("a", 1), ("b", 2)]);
        assert_eq!(shown(several, None), Err(NotOneServer));
    }
}
