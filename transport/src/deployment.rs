//! The URL of a deployment: one server, Sentinel, or a cluster.
//!
//! | URL | meaning |
//! | --- | --- |
//! | those of [`endpoint`](super::endpoint) | one server |
//! | `redis-sentinel://[user:password@]host[:port][,host[:port]…]/master[/db][?options]` | the primary that the sentinels name |
//! | `redis-cluster://[user:password@]host[:port][,host[:port]…]` | the nodes of a cluster |
//!
//! `rediss-…` means TLS to all of them (feature `tls`); `valkey-…` and `valkeys-…` mean the same. The
//! credentials are those of the servers; `sentinel_user` and `sentinel_password` are options.

use std::fmt;

use super::address_map::AddressMap;
use super::credentials::Credentials;
use super::endpoint::{Address, Endpoint, HostPort, PORT_DEFAULT, Security, bracketed};
use super::url::{Parts, credentials, database, decode, refused};
use crate::{ConfigError, Fault};

const SENTINEL_PORT_DEFAULT: u16 = 26379;

/// The most hosts in a URL. A limit, because the client connects to each of them.
const HOSTS_MAX: usize = 64;

/// The deployment that stores the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single(Endpoint),
    /// The primary that sentinels name.
    Sentinel(SentinelDeployment),
    /// A cluster.
    Cluster(ClusterDeployment),
}

/// Sentinels, and the servers that they watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelDeployment {
    pub(super) sentinels: Vec<Endpoint>,
    /// The name by which the sentinels know the primary.
    pub(super) master: String,
    pub(super) servers: Servers,
}

/// Nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDeployment {
    pub(super) seeds: Vec<Endpoint>,
    pub(super) servers: Servers,
}

/// Settings that all servers of a deployment share.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Servers {
    security: Security,
    credentials: Option<Credentials>,
    database: Option<u8>,
}

impl SentinelDeployment {
    /// A sentinel that another sentinel has named. The error is the map's.
    pub(super) fn sentinel_at(
        &self,
        address: &HostPort,
        map: Option<&AddressMap>,
    ) -> Result<Endpoint, Fault> {
        let credentials = self
            .sentinels
            .first()
            .and_then(Endpoint::credentials)
            .cloned();
        Servers {
            security: self.servers.security,
            credentials,
            database: None,
        }
        .named(address, map)
    }
}

impl ClusterDeployment {
    pub(super) fn security(&self) -> Security {
        self.servers.security
    }
}

impl Servers {
    /// The server at an address that a server of the deployment has named. The error is the map's.
    pub(super) fn named(
        &self,
        address: &HostPort,
        map: Option<&AddressMap>,
    ) -> Result<Endpoint, Fault> {
        let reached = map.map_or(Ok(None), |map| map.reached(address))?;
        Ok(match reached {
            Some(reached) => self.at(&reached).announced_as(address),
            None => self.at(address),
        })
    }

    /// The server at this address.
    pub(super) fn at(&self, address: &HostPort) -> Endpoint {
        let host = bracketed(&address.host);
        let address = Address::of(self.security, host, address.port);
        Endpoint::new(address, self.credentials.clone(), self.database)
    }
}

impl Deployment {
    /// Whether connections to its servers use TLS.
    pub fn is_secured(&self) -> bool {
        match self {
            Deployment::Single(endpoint) => endpoint.is_secured(),
            Deployment::Sentinel(SentinelDeployment { servers, .. })
            | Deployment::Cluster(ClusterDeployment { servers, .. }) => {
                servers.security == Security::Tls
            }
        }
    }

    /// The hosts of the URL.
    #[cfg(feature = "tls")]
    pub(super) fn endpoints(&self) -> &[Endpoint] {
        match self {
            Deployment::Single(endpoint) => std::slice::from_ref(endpoint),
            Deployment::Sentinel(SentinelDeployment { sentinels, .. }) => sentinels,
            Deployment::Cluster(ClusterDeployment { seeds, .. }) => seeds,
        }
    }

    /// Whether the URL has credentials for the servers.
    pub fn has_credentials(&self) -> bool {
        match self {
            Deployment::Single(endpoint) => endpoint.credentials().is_some(),
            Deployment::Sentinel(SentinelDeployment { servers, .. })
            | Deployment::Cluster(ClusterDeployment { servers, .. }) => {
                servers.credentials.is_some()
            }
        }
    }

    /// Checks that an address map can be used for the servers.
    ///
    /// # Errors
    ///
    /// [`ConfigError::AddressMap`].
    pub fn check_map(&self, map: &AddressMap) -> Result<(), ConfigError> {
        map.check()?;
        if matches!(self, Deployment::Single(_)) {
            let reason = "a single server names no other addresses: put its address into the URL";
            return Err(ConfigError::AddressMap {
                reason: reason.to_owned(),
            });
        }
        Ok(())
    }

    /// Parses a URL without resolving names or opening connections.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Url`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let url = Parts::of(text)?;
        let Some((server, kind)) = url.scheme.split_once('-') else {
            return Endpoint::of(&url).map(Deployment::Single);
        };
        let security = match server {
            "redis" | "valkey" => Security::Plain,
            "rediss" | "valkeys" if cfg!(feature = "tls") => Security::Tls,
            "rediss" | "valkeys" => {
                let needs = format!("{server}-{kind}:// needs the feature `tls` of this crate");
                return Err(refused(needs));
            }
            _ => return Err(unknown_scheme()),
        };
        match kind {
            "sentinel" => sentinel(&url, security).map(Deployment::Sentinel),
            "cluster" => cluster(&url, security).map(Deployment::Cluster),
            _ => Err(unknown_scheme()),
        }
    }
}

fn unknown_scheme() -> ConfigError {
    refused(
        "unknown scheme; use redis://, rediss://, redis+unix://, redis-sentinel://, \
         rediss-sentinel://, redis-cluster:// or rediss-cluster://, or valkey in place of redis",
    )
}

fn endpoints(
    url: &Parts<'_>,
    port: u16,
    security: Security,
    credentials: Option<&Credentials>,
) -> Result<Vec<Endpoint>, ConfigError> {
    if url.login.contains('@') {
        return Err(refused(
            "an `@` in a user or password must be written as %40",
        ));
    }
    let hosts: Vec<_> = url.hosts.split(',').map(str::trim).collect();
    if hosts.len() > HOSTS_MAX {
        return Err(refused(format!("more than {HOSTS_MAX} hosts")));
    }
    hosts
        .iter()
        .map(|host| Endpoint::of_host(host, port, security, credentials.cloned()))
        .collect()
}

fn sentinel(url: &Parts<'_>, security: Security) -> Result<SentinelDeployment, ConfigError> {
    let path = url.path.strip_prefix('/').unwrap_or_default();
    let (master, number) = path.split_once('/').unwrap_or((path, ""));
    let master = decode(master)?;
    if master.is_empty() {
        return Err(refused(
            "the name of the master is missing; write redis-sentinel://host1,host2,host3/name",
        ));
    }
    let mut chosen = if number.is_empty() {
        None
    } else {
        Some(database(number)?)
    };
    let [number, user, password] = url.parameters(
        ["db", "sentinel_user", "sentinel_password"],
        "redis-sentinel:// takes the query parameters db, sentinel_user and sentinel_password, once each",
    )?;
    if let Some(number) = number
        && chosen.replace(database(&number)?).is_some()
    {
        return Err(refused("the database is given twice"));
    }
    let own = credentials(user.unwrap_or_default(), password.unwrap_or_default())?;
    let sentinels = endpoints(url, SENTINEL_PORT_DEFAULT, security, own.as_ref())?;
    let servers = Servers {
        security,
        credentials: url.credentials()?,
        database: chosen,
    };
    Ok(SentinelDeployment {
        sentinels,
        master,
        servers,
    })
}

fn cluster(url: &Parts<'_>, security: Security) -> Result<ClusterDeployment, ConfigError> {
    if !url.query.unwrap_or_default().is_empty() {
        return Err(refused("redis-cluster:// takes no query parameters"));
    }
    if !matches!(url.path, "" | "/" | "/0") {
        return Err(refused("a cluster has only database 0"));
    }
    let credentials = url.credentials()?;
    let seeds = endpoints(url, PORT_DEFAULT, security, credentials.as_ref())?;
    Ok(ClusterDeployment {
        seeds,
        servers: Servers {
            security,
            credentials,
            database: None,
        },
    })
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deployment::Single(endpoint) => endpoint.fmt(f),
            Deployment::Sentinel(sentinel) => sentinel.fmt(f),
            Deployment::Cluster(cluster) => cluster.fmt(f),
        }
    }
}

impl fmt::Display for SentinelDeployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = host_list(&self.sentinels);
        write!(
            f,
            "{}-sentinel://{hosts}/{}",
            scheme(self.servers.security),
            self.master
        )?;
        self.servers
            .database
            .map_or(Ok(()), |number| write!(f, "/{number}"))
    }
}

impl fmt::Display for ClusterDeployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}-cluster://{}",
            scheme(self.servers.security),
            host_list(&self.seeds)
        )
    }
}

/// Does not show credentials.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Servers {
            security, database, ..
        } = self;
        let mut shown = f.debug_struct("Servers");
        shown
            .field("security", security)
            .field("database", database)
            .finish_non_exhaustive()
    }
}

fn scheme(security: Security) -> &'static str {
    match security {
        Security::Plain => "redis",
        Security::Tls => "rediss",
    }
}

/// Sorted, so that the same deployment has the same text.
fn host_list(endpoints: &[Endpoint]) -> String {
    let mut hosts: Vec<_> = endpoints
        .iter()
        .map(|endpoint| endpoint.address().to_string())
        .collect();
    hosts.sort();
    hosts.join(",")
}

#[cfg(test)]
mod tests;
