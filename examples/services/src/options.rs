//! What the programs are told: on their command lines, and by signals.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use leasehold::{Client, ClientBuilder};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why a program ends with an error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The value after `--name`, if it is there.
///
/// # Errors
///
/// A value that is missing, or that is none of its type.
pub fn option<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, Failure> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    if arguments.next().is_none() {
        return Ok(None);
    }
    let value = arguments
        .next()
        .ok_or_else(|| format!("{name} needs a value"))?;
    value
        .parse()
        .map(Some)
        .map_err(|error| format!("{name} {value}: {error}").into())
}

/// As [`option`], for one that must be there.
///
/// # Errors
///
/// Those of [`option`], and that it is not there.
pub fn required<T: FromStr<Err: Display>>(name: &str) -> Result<T, Failure> {
    option(name)?.ok_or_else(|| format!("{name} is missing").into())
}

/// As [`option`], for milliseconds.
///
/// # Errors
///
/// Those of [`option`].
pub fn millis(name: &str, default: u64) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(option(name)?.unwrap_or(default)))
}

/// The URL of the server: `REDIS_URL`.
///
/// # Errors
///
/// That it is not set.
pub fn server() -> Result<String, Failure> {
    std::env::var("REDIS_URL").map_err(|_| "REDIS_URL is not set".into())
}

/// The settings of a client of the server that `REDIS_URL` names, with the lease that `--lease`
/// gives.
///
/// # Errors
///
/// That there is no `REDIS_URL`, and those of [`option`].
pub fn client() -> Result<ClientBuilder, Failure> {
    Ok(Client::builder(&server()?).lease(millis("--lease", 30_000)?))
}

/// SIGTERM, from now on. It no longer ends the process by itself.
#[derive(Debug)]
pub struct Terminated(Signal);

impl Terminated {
    /// Listens. To be called before there is anything to clean up.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn listen() -> Result<Self, Failure> {
        Ok(Terminated(signal(SignalKind::terminate())?))
    }

    /// Waits for the signal. Cancel safe.
    pub async fn wait(&mut self) {
        self.0.recv().await;
    }
}
