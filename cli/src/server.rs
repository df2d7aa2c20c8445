//! The connection to the server.

use std::env;
use std::path::Path;
use std::time::Duration;

use leasehold::settings::{Credentials, TlsOptions};
use leasehold::{Client, ClientBuilder};

use crate::arguments::ServerArguments;
use crate::exit::Failure;

impl ServerArguments {
    /// Connects, without retries.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_with(|builder| builder).await
    }

    /// Connects with further settings.
    pub(crate) async fn connect_with(
        &self,
        settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, Failure> {
        let builder = Client::builder(&self.url()?).command_timeout(self.command_timeout);
        let builder = settings(self.with_tls(self.with_credentials(builder)?));
        Ok(builder.connect().await?)
    }

    fn url(&self) -> Result<String, Failure> {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let url = self
            .url
            .clone()
            .or_else(|| set("LEASEHOLD_URL"))
            .or_else(|| set("REDIS_URL"));
        url.ok_or_else(|| {
            Failure::usage("which server? Give --url redis://host:6379, or set LEASEHOLD_URL")
        })
    }

    fn with_credentials(&self, builder: ClientBuilder) -> Result<ClientBuilder, Failure> {
        let user = self
            .user
            .clone()
            .or_else(|| env::var("LEASEHOLD_USER").ok());
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
        Ok(match env::var("LEASEHOLD_PASSWORD") {
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
