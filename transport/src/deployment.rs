//! The URL of a deployment: one server, Sentinel, or a cluster.
//!
//! | URL | meaning |
//! | --- | --- |
//! | those of [`endpoint`](super::endpoint) | one server |
//! | `redis-sentinel://[user:password@]host[:port][,host[:port]…]/master[/db][?options]` | the primary that the sentinels name |
//! | `redis-cluster://[user:password@]host[:port][,host[:port]…]` | the nodes of a cluster |
//!
//! `rediss-…` means TLS to all of them (feature `tls`); `valkey-…` and `valkeys-…` mean the same.
//! The credentials are those of the servers; `sentinel_user` and `sentinel_password` are options.

use std::fmt;

use super::address_map::AddressMap;
use super::credentials::Credentials;
use super::endpoint::{Address, Endpoint, PORT_DEFAULT, Security};
use super::host_port::HostPort;
use super::url::{UrlParts, credentials, database, decode, refused};
use crate::call_error::Fault;
use crate::setting_error::SettingError;

const SENTINEL_PORT_DEFAULT: u16 = 26379;

/// The most hosts in a URL. A limit, because the client connects to each of them.
const HOSTS_MAX: usize = 64;

/// The kind of deployment that stores the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeploymentKind {
    /// One server, or a deployment that looks like one behind a proxy or a load balancer.
    Single,
    /// The primary that Sentinel names.
    Sentinel,
    /// A cluster.
    Cluster,
    /// The in-memory engine in this process.
    Embedded,
}

/// The deployment that stores the locks.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub(super) kind: DeploymentKind,
    /// The hosts of the URL: one server, sentinels, or nodes of a cluster.
    pub(super) endpoints: Vec<Endpoint>,
    /// The name by which the sentinels know the primary. Empty without sentinels.
    pub(super) master: String,
    pub(super) security: Security,
    /// Those of the servers, as is `database`.
    credentials: Option<Credentials>,
    database: Option<u8>,
    address_map: Option<AddressMap>,
}

impl Deployment {
    /// Whether connections to its servers use TLS.
    pub fn is_secured(&self) -> bool {
        self.security == Security::Tls
    }

    /// Whether the URL has credentials for the servers.
    pub fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// The server at an address that a server of the deployment has named. The error is the map's.
    pub(super) fn server_at(&self, named: &HostPort) -> Result<Endpoint, Fault> {
        self.reached(named, self.credentials.as_ref(), self.database)
    }

    /// A sentinel that another sentinel has named. The error is the map's.
    pub(super) fn sentinel_at(&self, named: &HostPort) -> Result<Endpoint, Fault> {
        let own = self.endpoints.first().and_then(Endpoint::credentials);
        self.reached(named, own, None)
    }

    fn reached(
        &self,
        named: &HostPort,
        credentials: Option<&Credentials>,
        database: Option<u8>,
    ) -> Result<Endpoint, Fault> {
        let at = |to: HostPort| {
            let address = Address::of(self.security, to);
            Endpoint::new(address, credentials.cloned(), database)
        };
        let map = self.address_map.as_ref();
        Ok(match map.map_or(Ok(None), |map| map.reached(named))? {
            Some(reached) => at(reached).announced_as(named),
            None => at(named.clone()),
        })
    }

    /// Sets where the servers are reached that announce other addresses.
    ///
    /// # Errors
    ///
    /// [`SettingError::AddressMap`], if the map cannot be used, or not for this deployment.
    pub fn mapped_by(mut self, map: AddressMap) -> Result<Self, SettingError> {
        map.check()?;
        if self.kind == DeploymentKind::Single {
            let reason = "a single server names no other addresses: put its address into the URL";
            return Err(SettingError::AddressMap {
                reason: reason.to_owned(),
            });
        }
        self.address_map = Some(map);
        Ok(self)
    }

    /// Parses a URL without resolving names or opening connections.
    ///
    /// # Errors
    ///
    /// [`SettingError::Url`].
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let url = UrlParts::of(text)?;
        let Some((server, kind)) = url.scheme.split_once('-') else {
            return Endpoint::of(&url).map(Deployment::single);
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
            "sentinel" => sentinel(&url, security),
            "cluster" => cluster(&url, security),
            _ => Err(unknown_scheme()),
        }
    }

    fn single(endpoint: Endpoint) -> Self {
        let (credentials, database) = (endpoint.credentials().cloned(), endpoint.database());
        Deployment {
            kind: DeploymentKind::Single,
            security: endpoint.security(),
            endpoints: vec![endpoint],
            master: String::new(),
            credentials,
            database,
            address_map: None,
        }
    }
}

fn unknown_scheme() -> SettingError {
    refused(
        "unknown scheme; use redis://, rediss://, redis+unix://, redis-sentinel://, \
         rediss-sentinel://, redis-cluster:// or rediss-cluster://, or valkey in place of redis",
    )
}

fn endpoints(
    url: &UrlParts<'_>,
    port: u16,
    security: Security,
    credentials: Option<&Credentials>,
) -> Result<Vec<Endpoint>, SettingError> {
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

fn sentinel(url: &UrlParts<'_>, security: Security) -> Result<Deployment, SettingError> {
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
        "redis-sentinel:// takes the query parameters db, sentinel_user and sentinel_password, \
         once each",
    )?;
    if let Some(number) = number
        && chosen.replace(database(&number)?).is_some()
    {
        return Err(refused("the database is given twice"));
    }
    let own = credentials(user.unwrap_or_default(), password.unwrap_or_default())?;
    Ok(Deployment {
        kind: DeploymentKind::Sentinel,
        endpoints: endpoints(url, SENTINEL_PORT_DEFAULT, security, own.as_ref())?,
        master,
        security,
        credentials: url.credentials()?,
        database: chosen,
        address_map: None,
    })
}

fn cluster(url: &UrlParts<'_>, security: Security) -> Result<Deployment, SettingError> {
    if !url.query.unwrap_or_default().is_empty() {
        return Err(refused("redis-cluster:// takes no query parameters"));
    }
    if !matches!(url.path, "" | "/" | "/0") {
        return Err(refused("a cluster has only database 0"));
    }
    let credentials = url.credentials()?;
    Ok(Deployment {
        kind: DeploymentKind::Cluster,
        endpoints: endpoints(url, PORT_DEFAULT, security, credentials.as_ref())?,
        master: String::new(),
        security,
        credentials,
        database: None,
        address_map: None,
    })
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.security {
            Security::Plain => "redis",
            Security::Tls => "rediss",
        };
        let (hosts, master) = (host_list(&self.endpoints), &self.master);
        match self.kind {
            DeploymentKind::Single | DeploymentKind::Embedded => self.endpoints[0].fmt(f),
            DeploymentKind::Cluster => write!(f, "{scheme}-cluster://{hosts}"),
            DeploymentKind::Sentinel => {
                write!(f, "{scheme}-sentinel://{hosts}/{master}")?;
                let number = self.database.map(|number| format!("/{number}"));
                f.write_str(&number.unwrap_or_default())
            }
        }
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
