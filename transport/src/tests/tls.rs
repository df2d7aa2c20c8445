//! Calls and messages arrive unchanged over TLS, and outcomes are true.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, DuplexStream, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use leasehold_testbed::{Authority, Secure};

use super::*;
use crate::tls::{Tls, TlsOptions};

static LAST: Script = Script::new("last", "return ARGV[1]");

fn trusting(authority: &Authority) -> Tls {
    Tls::load_blocking(TlsOptions::new().ca_pem(authority.pem())).unwrap()
}

/// TLS that trusts the system's authorities.
pub(super) fn system() -> Tls {
    Tls::load_blocking(TlsOptions::new()).unwrap()
}

async fn connect_by(secure: &Secure, tls: &Tls) -> (Node, OwnRuntime) {
    let own = OwnRuntime::new();
    let endpoint = Endpoint::parse(&format!("rediss://localhost:{}", secure.port)).unwrap();
    let timing = Timing {
        command: SECOND * 10,
        connect: SECOND * 10,
        grace: SECOND,
    };
    let remote = Remote::new(Dial::to(&endpoint, Some(tls)).unwrap(), &endpoint, NAME);
    let events = Arc::<Recorder>::default();
    let redis = connect_to(remote, timing, events, own.handle(), IfUnreachable::Fail);
    (redis.await.unwrap(), own)
}

#[test]
fn a_secured_endpoint_is_never_reached_in_plain_text() {
    let endpoint = Endpoint::parse("rediss://localhost").unwrap();
    assert!(matches!(
        Dial::to(&endpoint, None),
        Err(CallError::Refused(_))
    ));
    assert!(matches!(
        Dial::to(&endpoint, Some(&system())),
        Ok(Dial::Tls { .. })
    ));
    let plain = Endpoint::parse("redis://localhost").unwrap();
    assert!(matches!(
        Dial::to(&plain, Some(&system())),
        Ok(Dial::Tcp { .. })
    ));
}

#[tokio::test]
async fn calls_and_messages_of_any_size_arrive() {
    needs_a_server!();
    let authority = Authority::new("authority");
    let secure = Secure::start(&authority.issue("localhost"), None);
    let (redis, own) = connect_by(&secure, &trusting(&authority)).await;
    let all = (0..1_000).map(|_| redis.call(Lane::Caller, add("n")));
    let mut received: Vec<_> = futures::future::join_all(all)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    received.sort_by_key(|value| {
        if let Value::Int(number) = value {
            *number
        } else {
            0
        }
    });
    assert_eq!(received, (1..=1_000).map(Value::Int).collect::<Vec<_>>());

    for length in [0, 1, 16_383, 16_384, 16_385, 3_000_000] {
        let text = "x".repeat(length);
        let args = vec![Arg::from(text.as_str())];
        let call = Call::new(&LAST, [], args);
        for lane in LANES {
            assert_eq!(
                redis.call(lane, call.clone()).await,
                Ok(Value::Text(text.clone()))
            );
        }
    }
    redis
        .subscribe(&Arc::from("c"), PubSub::Plain)
        .await
        .unwrap();
    assert_eq!(secure.server.command(&["PUBLISH", "c", "x"]).int(), 1);
    assert_eq!(redis.reconnects(), 0);
    redis.close().await;
    until("no task is left", || own.tasks() == 0).await;
}

/// A stream that takes a limited number of bytes. Then it fails, or takes nothing more.
struct Weak {
    stream: DuplexStream,
    room: Arc<Mutex<usize>>,
}

impl AsyncRead for Weak {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Weak {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let room = *self.room.lock();
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &written {
            *self.room.lock() -= written;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A call whose bytes were not taken is *not applied*, so its bytes must not reach the server.
#[tokio::test]
async fn a_failed_write_reports_truly_what_was_taken() {
    use futures::future::join;
    use tokio::io::AsyncWriteExt as _;

    const ALL: usize = 60_000;
    let authority = Authority::new("authority");
    let issued = authority.issue("localhost");
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (tls, runtime) = (trusting(&authority), Handle::current());
    for fails_after in (1..ALL + 1_000).step_by(499) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let room = Arc::new(Mutex::new(usize::MAX));
        let weak = Weak {
            stream: ours,
            room: room.clone(),
        };
        let connecting = tls.connect(tls.name_of("localhost").unwrap(), weak, &runtime);
        let (client, server) = join(connecting, acceptor.accept(theirs)).await;
        let (reader, mut writer) = client.unwrap();
        let mut server = server.unwrap();
        *room.lock() = fails_after;
        let (bytes, mut taken) = (vec![b'x'; ALL], 0);
        while taken < ALL
            && let Ok(more) = writer.write(&bytes[taken..]).await
        {
            taken += more;
        }
        drop((reader, writer));
        let (mut read, mut buffer) = (0, vec![0; ALL]);
        while let Ok(more @ 1..) = server.read(&mut buffer).await {
            read += more;
        }
        assert!(
            read <= taken,
            "failing after {fails_after}: read {read}, taken {taken}"
        );
    }
}

#[test]
fn unusable_texts_are_refused_with_the_reason_and_never_shown() {
    let authority = Authority::new("authority");
    let (issued, other) = (authority.issue("client"), authority.issue("client"));
    let secret = issued.key.lines().nth(1).unwrap();
    // Like a key from an environment variable that has lost its line breaks.
    let in_one_line = issued.key.replace('\n', "");
    let in_one_line_and_cut = in_one_line.replace("-----END PRIVATE KEY-----", "");
    let cut = issued.key.replace("-----END PRIVATE KEY-----", "");
    let not_base64 = issued.key.replace(secret, &format!("!{secret}"));
    let not_a_key = issued.key.replace(secret, "AAAA");
    let encrypted = issued.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let with = |key: &str| TlsOptions::new().client_certificate_pem(&issued.certificate, key);
    let cases = [
        (with(&other.key), "do not belong together"),
        (with(&issued.certificate), "no private key"),
        (with(&encrypted), "an encrypted key must be decrypted first"),
        (with(&in_one_line), "the line breaks of the text are lost"),
        (with(&in_one_line_and_cut), "is not PEM: a BEGIN line"),
        (with(&cut), "is not PEM: a section has no END line"),
        (with(&not_base64), "is not PEM: a section is not base64"),
        (with(&not_a_key), "cannot be used with the key"),
        (
            TlsOptions::new().client_certificate_pem(&issued.key, &issued.key),
            "has no certificate",
        ),
        (
            TlsOptions::new().ca_pem(""),
            "the text given to `ca_pem` has no certificate",
        ),
        (TlsOptions::new().ca_pem(&issued.key), "has no certificate"),
        (
            TlsOptions::new()
                .ca_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "cannot be an authority",
        ),
        (
            TlsOptions::new().ca_file("/nowhere/ca.pem"),
            "`/nowhere/ca.pem` cannot be read",
        ),
        (TlsOptions::new().server_name("two words"), "server_name"),
        (TlsOptions::new().server_name(""), "server_name"),
    ];
    for (options, part) in cases {
        assert!(!format!("{options:?}").contains(secret), "{options:?}");
        let refused = Tls::load_blocking(options).map(drop).unwrap_err();
        let SettingError::Tls { reason } = &refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains(part), "expected `{part}`: {reason}");
        assert!(
            !reason.contains(secret) && !reason.contains("AAAA"),
            "{reason}"
        );
    }
}
