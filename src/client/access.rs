//! How a client gets access to its servers: TLS and logins, checked before anything is sent.

use tokio::runtime::Handle;

use super::builder::ClientBuilder;
use super::streams::Streams;
use crate::error::ConfigError;
use crate::transport::{Deployment, Tls};

impl ClientBuilder {
    /// Refuses TLS options and credentials that the deployment does not need.
    pub(super) fn check_access(&self) -> Result<(), ConfigError> {
        // A bad URL is refused when the client connects.
        let Ok(deployment) = &self.deployment else {
            return Ok(());
        };
        let has_its_own = matches!(self.streams, Streams::Engine(_) | Streams::Custom(_));
        #[cfg(feature = "tls")]
        if self.tls.is_some() && (has_its_own || !deployment.is_secured()) {
            let reason = if has_its_own {
                "the embedded engine has no TLS, and connections of another client have their own"
            } else {
                "they need a URL with rediss://"
            };
            return Err(ConfigError::Tls {
                reason: reason.to_owned(),
            });
        }
        if self.credentials.is_some() && (has_its_own || deployment.has_credentials()) {
            let reason = if has_its_own {
                "the embedded engine has no users, and connections of another client log in \
                 themselves"
            } else {
                "given twice: take the user and password out of the URL"
            };
            return Err(ConfigError::Credentials { reason });
        }
        Ok(())
    }

    /// TLS for the servers of a deployment. Certificates and keys are read on `runtime`.
    #[cfg(feature = "tls")]
    pub(super) async fn shared_tls(
        &self,
        deployment: &Deployment,
        runtime: &Handle,
    ) -> Result<Option<Tls>, ConfigError> {
        if !deployment.is_secured() || !matches!(self.streams, Streams::Sockets) {
            return Ok(None);
        }
        let options = self.tls.clone().unwrap_or_default();
        let tls = Tls::load(options, runtime).await;
        let named = tls.and_then(|tls| tls.can_name_all(deployment).map(|()| tls));
        named.map(Some).map_err(ConfigError::of_transport)
    }

    #[cfg(not(feature = "tls"))]
    #[expect(
        clippy::unused_async,
        reason = "the same call with and without the feature"
    )]
    pub(super) async fn shared_tls(
        &self,
        _: &Deployment,
        _: &Handle,
    ) -> Result<Option<Tls>, ConfigError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::client::Client;
    use crate::error::Error;
    #[cfg(feature = "tls")]
    use crate::transport::TlsOptions;
    use crate::transport::{AddressMap, Credentials};

    /// Tries to connect, and returns the error that must come before anything is sent.
    async fn refusal(url: &str, set: impl FnOnce(ClientBuilder) -> ClientBuilder) -> ConfigError {
        // A client of another test may look for a dead server at 127.0.0.1, whatever its port is
        // now.
        let own = TcpListener::bind("127.0.0.2:0");
        let listener = own.or_else(|_| TcpListener::bind("127.0.0.1:0")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let url = url.replace("127.0.0.1:PORT", &address.to_string());
        let builder = set(Client::builder(
            &url.replace("PORT", &address.port().to_string()),
        ));
        let refused = builder
            .connect()
            .await
            .map(drop)
            .expect_err("it cannot be used");
        assert!(listener.accept().is_err(), "somebody connected: {refused}");
        let shown = format!("{refused} {refused:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        match refused {
            Error::Config(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn credentials_are_given_once() {
        let given = |builder: ClientBuilder| builder.credentials(Credentials::password("hunter2"));
        for url in [
            "redis://:x@127.0.0.1:PORT",
            "redis+unix:///x?pass=x",
            "redis-sentinel://ann:x@127.0.0.1:PORT/primary",
            "redis-cluster://:x@127.0.0.1:PORT",
        ] {
            let refused = refusal(url, given).await.to_string();
            assert!(refused.contains("out of the URL"), "{refused}");
        }
        // The sentinels have users of their own.
        let sentinel = "redis-sentinel://127.0.0.1/primary?sentinel_password=x";
        assert!(given(Client::builder(sentinel)).check_access().is_ok());
        let builder = given(Client::builder("redis://127.0.0.1"));
        assert!(builder.check_access().is_ok());
        assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
    }

    #[tokio::test]
    #[cfg(feature = "embedded")]
    async fn the_embedded_engine_has_no_tls_and_no_credentials() {
        let builder = || crate::EmbeddedRedis::new().builder();
        let refused = builder()
            .credentials(Credentials::password("x"))
            .check_access();
        assert!(matches!(refused, Err(ConfigError::Credentials { .. })));
        #[cfg(feature = "tls")]
        assert!(matches!(
            builder().tls(TlsOptions::new()).check_access(),
            Err(ConfigError::Tls { .. })
        ));
    }

    #[tokio::test]
    async fn an_address_map_is_for_servers_that_name_others() {
        let with =
            |entry| move |builder: ClientBuilder| builder.address_map(AddressMap::table([entry]));
        for (url, entry, part) in [
            ("redis://127.0.0.1:PORT", ("a:1", "b:1"), "a single server"),
            (
                "redis-cluster://127.0.0.1:PORT",
                ("a", "b:1"),
                "`a`: write host:port",
            ),
            (
                "redis-sentinel://127.0.0.1:PORT/m",
                ("a:1", ":1"),
                "`:1`: it needs a host",
            ),
        ] {
            let refused = refusal(url, with(entry)).await.to_string();
            assert!(
                refused.contains("address map") && refused.contains(part),
                "{refused}"
            );
        }
        for url in ["redis-cluster://x", "redis-sentinel://x/m"] {
            let builder = with(("a:1", "b:1"))(Client::builder(url));
            assert!(builder.check_access().is_ok(), "{url}");
        }
    }

    #[tokio::test]
    #[cfg(feature = "tls")]
    async fn tls_options_are_for_a_secured_url() {
        for url in [
            "redis://127.0.0.1:PORT",
            "redis+unix:///x",
            "redis-cluster://127.0.0.1:PORT",
        ] {
            let refused = refusal(url, |builder| builder.tls(TlsOptions::new()))
                .await
                .to_string();
            assert!(refused.contains("rediss://"), "{refused}");
        }
        for url in [
            "rediss://x",
            "rediss-sentinel://x/primary",
            "rediss-cluster://x",
        ] {
            assert!(
                Client::builder(url)
                    .tls(TlsOptions::new())
                    .check_access()
                    .is_ok(),
                "{url}"
            );
        }
    }

    #[tokio::test]
    #[cfg(feature = "tls")]
    async fn a_host_that_no_certificate_can_name_is_refused_before_anything_is_sent() {
        for url in [
            "rediss://256.256.256.256:PORT",
            "rediss://a_%5f%20b:PORT",
            "rediss-sentinel://127.0.0.1:PORT,%01:PORT/primary",
            "rediss-cluster://127.0.0.1:PORT,-%01:PORT",
        ] {
            let refused = refusal(url, |builder| builder).await;
            let ConfigError::Url { reason } = refused else {
                panic!("{refused:?}")
            };
            assert!(reason.contains("certificate"), "{reason}");
        }
    }

    #[tokio::test]
    #[cfg(feature = "tls")]
    async fn options_that_cannot_be_used_are_refused_before_anything_is_sent() {
        let missing = TlsOptions::new().ca_file("/nowhere/ca.pem");
        let refused = refusal("rediss://127.0.0.1:PORT", |builder| builder.tls(missing)).await;
        let ConfigError::Tls { reason } = refused else {
            panic!("{refused:?}")
        };
        assert!(
            reason.contains("`/nowhere/ca.pem` cannot be read"),
            "{reason}"
        );
    }
}
