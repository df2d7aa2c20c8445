//! Values for the settings of a client: what some methods of
//! [`ClientBuilder`](crate::ClientBuilder) take.

pub use crate::client::LocalHandover;
pub use crate::durability::Durability;
#[cfg(feature = "tls")]
#[doc(inline)]
pub use crate::transport::TlsOptions;
#[doc(inline)]
pub use crate::transport::{
    AddressMap, Credentials, CredentialsFuture, CredentialsProvider, ShardedPubSub,
};
pub use crate::wake::Wake;
