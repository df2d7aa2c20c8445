//! The connection to the server.

use std::env;
use std::path::Path;
use std::time::Duration;

use leasehold::settings::{AddressMap, Credentials, TlsOptions};
use leasehold::{Client, ClientBuilder};
use tokio::time::Instant;

use crate::arguments::ServerArguments;
use crate::exit::{self, Failure};

/// The variables of this program that tell where the server is and how to log in.
pub(crate) const CREDENTIALS: [&str; 3] = [URL, USER, PASSWORD];
const URL: &str = "LEASEHOLD_URL";
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

    /// Connects with further settings. While the server cannot be reached, tries again for `--connect-timeout`, or else
    /// for `patience`, and reports each failure.
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

    fn url(&self) -> Result<String, Failure> {
        let url = self
            .url
            .clone()
            .or_else(|| set(URL))
            .or_else(|| set("REDIS_URL"));
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
