//! Strings that are written once, for the crates for services; no promise of stability.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use crate::error::Error;
use crate::lease::Lease;
use crate::protocol::Call;
use crate::protocol::kept::{self, there};
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;

impl Client {
    /// The string at a key.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    #[doc(hidden)]
    pub async fn kept(&self, key: &str) -> Result<Option<String>, Error> {
        self.ask_kept(key, kept::get).await
    }

    /// Writes the string at a key for a time, unless there is one: returns the one that was there.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. It is either written or not, and the same call may be made again.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the time is below [`Lease::MIN`] or above [`Lease::MAX`].
    #[doc(hidden)]
    pub async fn keep(
        &self,
        key: &str,
        value: &str,
        time: Duration,
    ) -> Result<Option<String>, Error> {
        let time = Lease::checked("keep", time)?;
        self.ask_kept(key, |key| kept::keep(key, value, time)).await
    }

    async fn ask_kept(
        &self,
        key: &str,
        call: impl FnOnce(Arc<str>) -> Call,
    ) -> Result<Option<String>, Error> {
        let calls = self.handle.calls();
        let resource = Resource::new(Kind::Lock, &calls.settings.key_prefix, key)?;
        let call = call(resource.key.clone());
        calls.ask(&resource.name, call, there).await
    }
}
