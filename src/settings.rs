//! Values for the settings of a client: what some methods of [`ClientBuilder`](crate::ClientBuilder) take.

pub use crate::client::LocalHandover;
pub use crate::durability::Durability;
pub use crate::transport::ShardedPubSub;
pub use crate::transport::redis::credentials::{
    Credentials, CredentialsFuture, CredentialsProvider,
};
#[cfg(feature = "tls")]
pub use crate::transport::redis::tls::TlsOptions;
