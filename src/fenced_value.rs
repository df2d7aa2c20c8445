//! A string in Redis that checks the fencing token of its users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ConfigError, Error};
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::protocol::fenced::{self, Found};
use crate::protocol::keys::KeyName;
use crate::protocol::replies;
use crate::protocol::resource::Resource;
use crate::session::Handle;

/// A string in Redis for the holders of a fenced lock: it refuses a holder once a later one was there.
///
/// [`Client::fenced_value`](crate::Client::fenced_value) makes it. Only this type and
/// [`Client::set_fenced`](crate::Client::set_fenced) may write the string.
///
/// # Examples
///
/// The first step of each holder is [`get`](FencedValue::get): from then on, nobody changes what it has read.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::embedded();
/// let balance = client.fenced_value("account:7:balance");
/// let guard = client.fenced_lock("account:7").lock().await?;
/// let before = balance.get(guard.token()).await?;
/// let before: i64 = before.map_or(0, |text| text.parse().unwrap_or_default());
/// balance.set(guard.token(), &(before + 10).to_string()).await?;
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FencedValue {
    handle: Arc<Handle>,
    resource: Result<Resource, ConfigError>,
    keep: Option<Duration>,
}

/// What a call sends: the value, where its highest token is kept, the token, and for how long.
struct Checked<'a> {
    resource: &'a Resource,
    fence: Arc<str>,
    token: i64,
    keep: Duration,
}

impl FencedValue {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        FencedValue {
            handle,
            resource,
            keep: None,
        }
    }

    /// Sets how long Redis keeps the string after it was set, with its highest token. Default: for ever.
    ///
    /// A holder that was paused for longer than this finds no later token, and may set the string. From
    /// [`Lease::MIN`] to [`Lease::MAX`].
    #[must_use = "the value is moved into the returned one"]
    pub fn with_keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Shuts the holders of earlier tokens out, and then reads the string; `None` if it was never set.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Earlier tokens are either shut out or not, and the same token may read again.
    ///
    /// # Errors
    ///
    /// - [`Error::StaleToken`]: a later token was there. Nothing changed; stop the work.
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer, or refused
    ///   the call.
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the key or the keep time cannot be used, or the token is below 1.
    pub async fn get(&self, token: FencingToken) -> Result<Option<String>, Error> {
        let checked = self.checked(token)?;
        let resource = checked.resource;
        let key = resource.key.clone();
        let call = fenced::get(key, checked.fence, checked.token, checked.keep);
        let answer = self.handle.calls().ask(&resource.name, call, fenced::found);
        match answer.await? {
            Found::Value(value) => Ok(value),
            Found::Stale => Err(stale(resource, token)),
        }
    }

    /// Sets the string, unless a holder with a later token has read or set it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The string is either set or not, and the same token may set it again.
    ///
    /// # Errors
    ///
    /// See [`get`](FencedValue::get).
    pub async fn set(&self, token: FencingToken, value: &str) -> Result<(), Error> {
        let checked = self.checked(token)?;
        let resource = checked.resource;
        let key = resource.key.clone();
        let call = fenced::set(key, checked.fence, checked.token, value, checked.keep);
        let answer = self
            .handle
            .calls()
            .ask(&resource.name, call, replies::yes_or_no);
        if answer.await? {
            return Ok(());
        }
        Err(stale(resource, token))
    }

    fn checked(&self, token: FencingToken) -> Result<Checked<'_>, ConfigError> {
        if token.value() < 1 {
            return Err(ConfigError::out_of_range("token", token, "at least 1"));
        }
        let resource = self.resource.as_ref().map_err(Clone::clone)?;
        let keep = self.keep.map(|keep| Lease::checked("keep", keep));
        Ok(Checked {
            resource,
            fence: KeyName::Ours("leasehold_fence").of(&resource.key),
            token: token.value(),
            keep: keep.transpose()?.unwrap_or_default(),
        })
    }
}

fn stale(resource: &Resource, token: FencingToken) -> Error {
    Error::StaleToken {
        key: resource.name.clone(),
        token,
    }
}

impl fmt::Debug for FencedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.resource.as_ref().map(|resource| &resource.name);
        f.debug_struct("FencedValue")
            .field("key", &key)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
