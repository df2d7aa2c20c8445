//! The login of a connection: who logs in, and how a login is renewed on a living connection.
//!
//! | state | event | what follows |
//! | --- | --- | --- |
//! | valid | three quarters of the validity have passed | the provider is asked, AUTH is sent |
//! | renewing | the server answers OK | valid, for as long as the new credentials |
//! | renewing | the connection takes no AUTH: it carries subscriptions in RESP2 | the connection is replaced |
//! | renewing | the provider fails, the server refuses or does not answer | another attempt after a pause |
//! | renewing | the server refuses, and the credentials have expired | the connection is given up |
//!
//! A server that refuses new credentials continues to serve the connection, until it decides to
//! close it. So the connection is useful at least until the old credentials expire.

use std::future::pending;

use tokio::runtime::Handle;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use super::connection::Connection;
use super::credentials::{Credentials, Provider};
use crate::call_error::{CallError, Fault};

/// Pauses between attempts to renew a login.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The shortest assumed validity, so that credentials that expire at once do not cause renewals all
/// the time.
const VALID_MIN: Duration = Duration::from_millis(100);

/// Credentials that are valid for longer count as valid forever, because tokio's timers do not
/// reach that far.
const VALID_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const REPLACED: &str =
    "in RESP2, a connection with subscriptions is replaced before its login expires";

/// Who logs in on the connections to a server.
#[derive(Clone)]
pub(super) enum Login {
    /// The user of the URL, or the default user without a password.
    Fixed(Option<Credentials>),
    Provider(Provider),
}

/// Since when and for how long the credentials of a connection are valid, if their validity is
/// limited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validity(Option<(Instant, Duration)>);

impl Login {
    /// The credentials for one login, and for how long they are valid from now on.
    pub(super) async fn credentials(
        &self,
        runtime: &Handle,
    ) -> Result<(Option<Credentials>, Validity), Fault> {
        let credentials = match self {
            Login::Fixed(credentials) => credentials.clone(),
            Login::Provider(provider) => Some(provider.ask(runtime).await?),
        };
        let span = credentials
            .as_ref()
            .and_then(|credentials| credentials.valid_for);
        let span = span.filter(|span| *span < VALID_MAX);
        Ok((
            credentials,
            Validity(span.map(|span| (Instant::now(), span))),
        ))
    }

    /// Renews the login of a connection in time. Returns only when the server does not accept the
    /// credentials any more, or another connection must log in, with the reason.
    ///
    /// Waits at most `limit` for the provider, and as long for the answer of the server.
    pub(super) async fn keep(
        &self,
        connection: &Connection,
        mut validity: Validity,
        runtime: &Handle,
        limit: Duration,
    ) -> Fault {
        loop {
            let Validity(Some((since, span))) = validity else {
                return pending().await;
            };
            sleep_until(since + (span / 4 * 3).max(VALID_MIN)).await;
            validity = loop {
                match timeout(limit, self.renew(connection, runtime)).await {
                    Ok(Ok(Some(validity))) => break validity,
                    Ok(Ok(None)) => return Fault(REPLACED.into()),
                    Ok(Err(CallError::Refused(fault))) if since.elapsed() >= span => {
                        return Fault(format!("the login was not renewed: {fault}"));
                    }
                    Ok(Err(_)) | Err(_) => sleep((span / 30).clamp(PAUSE_MIN, PAUSE_MAX)).await,
                }
            };
        }
    }

    /// `None` if the connection takes no AUTH.
    async fn renew(
        &self,
        connection: &Connection,
        runtime: &Handle,
    ) -> Result<Option<Validity>, CallError> {
        let given = self.credentials(runtime).await;
        let (credentials, validity) = given.map_err(CallError::NotApplied)?;
        let Some(credentials) = credentials else {
            return Ok(Some(validity));
        };
        if connection.takes_subscriptions_only() {
            return Ok(None);
        }
        let words = credentials.auth(connection.protocol);
        let words: Vec<_> = words.into_iter().map(str::as_bytes).collect();
        let answer = connection.command(&words)?;
        let ended = |_| {
            Err(CallError::NotApplied(Fault(
                "the connection has ended".into(),
            )))
        };
        let outcome = answer.await.unwrap_or_else(ended);
        outcome
            .map(|_| Some(validity))
            .map_err(|error| credentials.hidden_in(error))
    }
}
