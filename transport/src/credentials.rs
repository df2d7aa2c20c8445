//! User and password. They are fixed, or a provider returns them at each login.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::protocol::Protocol;
use super::task::AbortOnDrop;
use crate::call_error::{CallError, Fault};

/// No message contains this many consecutive bytes of a password. A server may repeat a part of it.
const SECRET_MAX: usize = 8;

/// User and password for a server. `Debug` shows neither.
///
/// # Examples
///
/// ```
/// # mod leasehold { pub mod settings { pub use leasehold_transport::Credentials; } }
/// use std::time::Duration;
///
/// use leasehold::settings::Credentials;
///
/// let of_a_person = Credentials::new("ann", "p@ss/word"); // not percent-encoded, as in a URL
/// let of_the_default_user = Credentials::password("secret");
/// let token = Credentials::new("object-id", "eyJ0…").valid_for(Duration::from_secs(3600));
/// assert_eq!(format!("{token:?}"), "Credentials");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `None` for the server's default user.
    pub(super) user: Option<String>,
    pub(super) password: String,
    pub(super) valid_for: Option<Duration>,
}

/// Returns the credentials for each login. Use it for passwords that are rotated and tokens that
/// expire.
///
/// The provider is asked once for each new connection of the client, so three times when the client
/// connects. It is asked again for each connection before the credentials expire
/// ([`Credentials::valid_for`]).
///
/// It runs on the client's own thread, which also renews leases, so it must not block the thread.
/// The connect timeout (`ClientBuilder::connect_timeout`, 1 s by default) covers the whole
/// connection attempt, including the provider. So keep a token until it expires instead of fetching
/// it each time.
///
/// [`Credentials`] and functions are providers, too: see the example of
/// `ClientBuilder::credentials`.
pub trait CredentialsProvider: Send + Sync + 'static {
    /// The credentials for a login that begins now.
    ///
    /// # Errors
    ///
    /// An error makes this login fail, and its text becomes part of the client's
    /// `Error::Unavailable`. So the text must not contain the password. The login is tried again
    /// like a lost connection, about once a second.
    fn credentials(&self) -> CredentialsFuture<'_>;
}

/// What a [`CredentialsProvider`] returns.
pub type CredentialsFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

impl Credentials {
    /// Credentials for a user in the server's access control list.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Credentials {
            user: Some(user.into()),
            password: password.into(),
            valid_for: None,
        }
    }

    /// The password of the server's default user, as set by `requirepass`.
    pub fn password(password: impl Into<String>) -> Self {
        Credentials {
            user: None,
            password: password.into(),
            valid_for: None,
        }
    }

    /// How long the server accepts these credentials, counted from now. Default: as long as the
    /// connection lives.
    ///
    /// After three quarters of this time, the provider is asked again, and `AUTH` is sent on the
    /// open connection. If that fails, it is retried with pauses of a thirtieth of this time
    /// (between 1 s and 30 s), while the connection stays in use. If the server still refuses when
    /// the time has passed, the connection is closed, and a new one logs in.
    #[must_use = "it returns the credentials with their time"]
    pub fn valid_for(mut self, span: Duration) -> Self {
        self.valid_for = Some(span);
        self
    }

    /// The user for AUTH.
    pub(super) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("default")
    }

    /// The command AUTH. Servers that speak only RESP2 may know no users.
    pub(super) fn auth(&self, protocol: Protocol) -> Vec<&str> {
        let user = match protocol {
            Protocol::Resp3 => Some(self.user()),
            Protocol::Resp2 => self.user.as_deref(),
        };
        let words = ["AUTH"].into_iter().chain(user);
        words.chain([self.password.as_str()]).collect()
    }

    /// Removes the password from the text of an error, whether it comes from us or from the server.
    pub(super) fn hidden_in(&self, error: CallError) -> CallError {
        error.reworded(|text| without_secret(&text, &self.password))
    }
}

/// The text with `***` in place of each part that may be of the secret.
pub fn without_secret(text: &str, secret: &str) -> String {
    let length = secret.len().min(SECRET_MAX);
    if length == 0 {
        return text.to_owned();
    }
    let parts: HashSet<&[u8]> = secret.as_bytes().windows(length).collect();
    let (mut shown, mut hidden_to) = (Vec::new(), 0);
    for (at, byte) in text.bytes().enumerate() {
        if text
            .as_bytes()
            .get(at..at + length)
            .is_some_and(|part| parts.contains(part))
        {
            if hidden_to <= at {
                shown.extend(b"***");
            }
            hidden_to = at + length;
        }
        if hidden_to <= at {
            shown.push(byte);
        }
    }
    String::from_utf8_lossy(&shown).into_owned()
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl CredentialsProvider for Credentials {
    fn credentials(&self) -> CredentialsFuture<'_> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

impl<F, C> CredentialsProvider for F
where
    F: Fn() -> C + Send + Sync + 'static,
    C: Future<Output = Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    fn credentials(&self) -> CredentialsFuture<'_> {
        Box::pin(self())
    }
}

/// A provider, shared by all connections of a client.
#[derive(Clone)]
pub struct Provider(Arc<dyn CredentialsProvider>);

impl Provider {
    /// Wraps a provider so that it can be shared.
    pub fn new(provider: impl CredentialsProvider) -> Self {
        Provider(Arc::new(provider))
    }

    /// Asks the provider on a runtime that works even if the caller's runtime is blocked. The
    /// caller limits the time.
    pub(super) async fn ask(&self, runtime: &Handle) -> Result<Credentials, Fault> {
        let provider = self.0.clone();
        let asking = async move {
            let failed = |error: Box<dyn Error + Send + Sync>| error.to_string();
            provider.credentials().await.map_err(failed)
        };
        match (&mut AbortOnDrop(runtime.spawn(asking)).0).await {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(text)) => Err(Fault(format!(
                "the provider of the credentials failed: {text}"
            ))),
            Err(error) if error.is_panic() => {
                Err(Fault("the provider of the credentials panicked".into()))
            }
            Err(_) => Err(Fault("the client's thread has ended".into())),
        }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider")
    }
}
