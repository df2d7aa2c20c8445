//! How `fred` is configured. Each value that differs from its default has a reason.

use std::time::Duration;

use fred::clients::Client;
use fred::socket2::TcpKeepalive;
use fred::types::RespVersion;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
};

use super::Timing;
use crate::config::endpoint::{Address, Endpoint};
use crate::transport::{CallError, Fault};

/// Event slots of a command connection: errors and reconnects only.
const EVENTS: usize = 32;

/// Message slots of the subscriber. When they overflow, `Sink::missed` is called.
pub(super) const MESSAGES: usize = 8_192;

/// Makes unconnected clients for one endpoint.
pub(super) struct Settings {
    config: Config,
    connection: ConnectionConfig,
    pub(super) timing: Timing,
    /// The name in CLIENT LIST.
    pub(super) name: String,
    /// For messages: without user and password.
    pub(super) endpoint: String,
}

impl Settings {
    pub(super) fn new(endpoint: &Endpoint, timing: Timing, name: &str) -> Result<Self, CallError> {
        Ok(Settings {
            config: config(endpoint)?,
            connection: connection(timing),
            timing,
            name: name.to_owned(),
            endpoint: endpoint.to_string(),
        })
    }

    /// A client that keeps `events` events of each kind. One client is one connection: when it is
    /// lost, the client is thrown away. So no command can move to another connection, and the
    /// moment between two connections is ours.
    pub(super) fn client(&self, events: Events) -> Client {
        let performance = PerformanceConfig {
            default_command_timeout: self.timing.command,
            broadcast_channel_capacity: match events {
                Events::Few => EVENTS,
                Events::Messages => MESSAGES,
            },
            ..PerformanceConfig::default()
        };
        // Without a policy, fred parks commands that are sent after a loss for ever. With one whose
        // first delay never ends they stay in its queue until the client is thrown away.
        let mut never = ReconnectPolicy::new_constant(0, u32::MAX);
        never.set_jitter(0);
        Client::new(
            self.config.clone(),
            Some(performance),
            Some(self.connection.clone()),
            Some(never),
        )
    }
}

/// How many events a client may hold back for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Events {
    Few,
    Messages,
}

fn config(endpoint: &Endpoint) -> Result<Config, CallError> {
    let mut config = Config {
        // The first error of a connection attempt is ours to see.
        fail_fast: true,
        // Messages may then share a connection with commands (PING), and HELLO logs in.
        version: RespVersion::RESP3,
        database: endpoint.database(),
        ..Config::default()
    };
    if let Some(login) = endpoint.login() {
        config.username.clone_from(&login.user);
        config.password = Some(login.password.clone());
    }
    config.server = match endpoint.address() {
        Address::Tcp { host, port } => {
            ServerConfig::Centralized { server: Server::new(host.as_str(), *port) }
        }
        Address::Tls { host, port } => {
            config_tls(&mut config)?;
            ServerConfig::Centralized { server: server_tls(host, *port) }
        }
        #[cfg(unix)]
        Address::Unix { path } => ServerConfig::Unix { path: path.clone() },
        #[cfg(not(unix))]
        Address::Unix { .. } => return Err(refused("no Unix sockets on this platform")),
    };
    Ok(config)
}

fn connection(timing: Timing) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: timing.connect,
        // HELLO, AUTH, SELECT: they hold up everything else on the connection.
        internal_command_timeout: timing.connect,
        // A script is sent once. The session decides whether to repeat it.
        max_command_attempts: 1,
        // A bounded queue can end the client for good when the connection dies.
        max_command_buffer_len: 0,
        // fred fails the connection if CLIENT SETNAME fails; ours may fail.
        auto_client_setname: false,
        disable_cluster_health_check: true,
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(
                TcpKeepalive::new()
                    .with_time(Duration::from_secs(10))
                    .with_interval(Duration::from_secs(5)),
            ),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

#[cfg(feature = "tls")]
fn config_tls(config: &mut Config) -> Result<(), CallError> {
    use std::sync::Arc;

    use fred::rustls::crypto::ring;
    use fred::rustls::{ClientConfig, RootCertStore};
    use fred::types::config::TlsConnector;

    let mut roots = RootCertStore::empty();
    let found = fred::rustls_native_certs::load_native_certs();
    // Of hundreds of system certificates some may be unreadable; the others still count.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err(refused("the system has no root certificates for TLS"));
    }
    // The provider is named: `ClientConfig::builder()` panics in programs that also link another.
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.tls = Some(TlsConnector::from(tls).into());
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn config_tls(_config: &mut Config) -> Result<(), CallError> {
    Err(refused("rediss:// needs the feature `tls`"))
}

#[cfg(feature = "tls")]
fn server_tls(host: &str, port: u16) -> Server {
    // An IPv6 address is resolved with its brackets, but certificates name it without.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut server = Server::new(host, port);
    server.tls_server_name = Some(name.into());
    server
}

#[cfg(not(feature = "tls"))]
fn server_tls(host: &str, port: u16) -> Server {
    Server::new(host, port)
}

fn refused(text: &str) -> CallError {
    CallError::Refused(Fault(text.to_owned()))
}
