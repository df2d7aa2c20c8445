//! The connection to the server.

use std::env;
use std::path::Path;
use std::time::Duration;

use leasehold::settings::{AddressMap, Credentials, TlsOptions};
use leasehold::{Client, ClientBuilder};
use tokio::time::Instant;

use crate::arguments::ServerArguments;
use crate::exit::{self, Failure};

const URL: &str = "LEASEHOLD_URL";
/// Other programs read this variable too.
const SHARED_URL: &str = "REDIS_URL";
const USER: &str = "LEASEHOLD_USER";
const PASSWORD: &str = "LEASEHOLD_PASSWORD";
const ADDRESS_MAP: &str = "LEASEHOLD_ADDRESS_MAP";

/// The pauses between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl ServerArguments {
    /// Connects. Tries again only for as long as `--connect-timeout` says.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_with(None, |builder| builder, |_| ()).await
    }

    /// Connects with further settings. While the server cannot be reached, tries again for
    /// `--connect-timeout`, or else for `patience`, and reports each failure.
    pub(crate) async fn connect_with(
        &self,
        patience: Option<Duration>,
        settings: impl Fn(ClientBuilder) -> ClientBuilder + Sync,
        report: impl Fn(&Failure) + Sync,
    ) -> Result<Client, Failure> {
        let patience = self.connect_timeout.or(patience).unwrap_or_default();
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            let builder = Client::builder(&self.url()?).command_timeout(self.command_timeout);
            let builder = self.with_address_map(self.with_credentials(builder)?)?;
            let builder = settings(self.with_tls(builder));
            let failure = match builder.connect().await {
                Ok(client) => return Ok(client),
                Err(error) => Failure::from(error),
            };
            let left = patience.saturating_sub(began.elapsed());
            if failure.code != exit::UNREACHABLE || left.is_zero() {
                return Err(failure);
            }
            report(&failure);
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The variables that tell where the server is and how to log in. Of `REDIS_URL` only a
    /// password is worth keeping from the command, which may need the variable for its own work.
    pub(crate) fn credentials(&self) -> Vec<&'static str> {
        let mut names = vec![URL, USER, PASSWORD];
        let is_shared = self.url.is_none() && set(URL).is_none();
        let url = set(SHARED_URL).filter(|_| is_shared);
        names.extend(url.filter(|url| has_password(url)).map(|_| SHARED_URL));
        names
    }

    /// The server and its database, without the login.
    pub(crate) fn address(&self) -> Result<String, Failure> {
        Ok(address(&self.url()?))
    }

    fn url(&self) -> Result<String, Failure> {
        let url = self
            .url
            .clone()
            .or_else(|| set(URL))
            .or_else(|| set(SHARED_URL));
        url.ok_or_else(|| {
            Failure::usage("which server? Give --url redis://host:6379, or set LEASEHOLD_URL")
        })
    }

    fn with_credentials(&self, builder: ClientBuilder) -> Result<ClientBuilder, Failure> {
        let user = self.user.clone().or_else(|| env::var(USER).ok());
        if let Some(file) = self.password_file.clone() {
            read(&file).map_err(|error| {
                Failure::usage(format!("--password-file {}: {error}", file.display()))
            })?;
            let provider = move || {
                let (file, user) = (file.clone(), user.clone());
                async move {
                    let password = tokio::task::spawn_blocking(move || read(&file)).await??;
                    Ok(credentials(user, password))
                }
            };
            return Ok(builder.credentials(provider));
        }
        Ok(match env::var(PASSWORD) {
            Ok(password) if !password.is_empty() => {
                builder.credentials(credentials(user, password))
            }
            _ if user.is_some() => {
                return Err(Failure::usage(
                    "a user without a password: set LEASEHOLD_PASSWORD, or give --password-file",
                ));
            }
            _ => builder,
        })
    }

    fn with_address_map(&self, builder: ClientBuilder) -> Result<ClientBuilder, Failure> {
        let set = set(ADDRESS_MAP);
        let entries: Vec<&str> = match &set {
            _ if !self.address_map.is_empty() => {
                self.address_map.iter().map(String::as_str).collect()
            }
            Some(set) => set.split(',').collect(),
            None => return Ok(builder),
        };
        let pairs = entries.into_iter().map(|entry| {
            let pair = entry.trim().split_once('=');
            pair.ok_or_else(|| {
                Failure::usage(format!(
                    "an address map of `{entry}`: write FROM=TO, each HOST:PORT"
                ))
            })
        });
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        Ok(builder.address_map(AddressMap::table(pairs)))
    }

    fn with_tls(&self, builder: ClientBuilder) -> ClientBuilder {
        let mut options = TlsOptions::new();
        let mut given = false;
        if let Some(file) = &self.tls_ca {
            (options, given) = (options.ca_file(file), true);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            (options, given) = (options.client_certificate_files(certificate, key), true);
        }
        if let Some(name) = &self.tls_server_name {
            (options, given) = (options.server_name(name), true);
        }
        if given { builder.tls(options) } else { builder }
    }
}

/// The value of a variable, unless it is empty.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a URL has a password, before its hosts or as a parameter.
fn has_password(url: &str) -> bool {
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    let login = login.split_once("//").map_or(login, |(_, login)| login);
    let is_password = |(name, value): (&str, &str)| name.contains("pass") && !value.is_empty();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    login
        .split_once(':')
        .is_some_and(|(_, password)| !password.is_empty())
        || pairs.any(is_password)
}

/// A URL without its login. Of its options only the database.
fn address(url: &str) -> String {
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = rest.split_once("//").unwrap_or(("", rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let hosts = authority
        .rsplit_once('@')
        .map_or(authority, |(_, hosts)| hosts);
    let database = query.split('&').find(|option| option.starts_with("db="));
    let database = database.map_or(String::new(), |database| format!("?{database}"));
    format!("{scheme}//{hosts}{path}{database}")
}

fn credentials(user: Option<String>, password: String) -> Credentials {
    match user {
        Some(user) => Credentials::new(user, password),
        None => Credentials::password(password),
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    // Editors add a line break at the end of the file.
    std::fs::read_to_string(file).map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The time for closing a client.
pub(crate) const CLOSE: Duration = Duration::from_secs(2);

/// Shuts the client down, which releases all locks that it still holds.
pub(crate) async fn close(client: &Client) {
    close_within(client, CLOSE).await;
}

pub(crate) async fn close_within(client: &Client, limit: Duration) {
    // If a release is not confirmed, the lease ends the lock.
    drop(client.shutdown(limit).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_login() {
        for (url, expected) in [
            ("redis://ann:a@b@host:6380/3", "redis://host:6380/3"),
            ("redis://host", "redis://host"),
            (
                "redis-sentinel://:x@one,two:1/primary/2?sentinel_password=y",
                "redis-sentinel://one,two:1/primary/2",
            ),
            (
                "redis+unix:///run/a@b.sock?user=ann&pass=x&db=1",
                "redis+unix:///run/a@b.sock?db=1",
            ),
        ] {
            assert_eq!(address(url), expected);
        }
    }

    #[test]
    fn a_password_in_a_url_is_seen() {
        for url in [
            "redis://:secret@127.0.0.1:6379",
            "rediss://ann:secret@host/1?x=1",
            "redis-sentinel://host/primary?sentinel_password=secret",
            "redis+unix:///run/redis.sock?user=ann&pass=secret",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "redis://127.0.0.1:6379",
            "redis://ann@host",
            "redis://ann:@host",
            "redis+unix:///run/redis.sock?pass=",
            "redis-sentinel://host:26379,other:26379/primary?db=1",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }
}
