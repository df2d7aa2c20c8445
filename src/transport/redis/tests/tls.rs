//! TLS with a server of its own certificate: good certificates are accepted, others refused.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, DuplexStream, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::super::tls::Tls;
use super::*;

static LAST: Script = Script::new("last", "return ARGV[1]");

// Made once with rcgen, as valid as its default is: from 1975 to 4096. They are two authorities, whose keys
// are gone, what the server shows (for `localhost`, signed by the first of them), and the server's key.
const AUTHORITY: &str = include_str!("tls/authority.pem");
const STRANGER: &str = include_str!("tls/stranger.pem");
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &str = include_str!("tls/key.pem");

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Trust in one authority.
fn roots(authority: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority)).unwrap();
    roots
}

/// A server that speaks TLS on another port.
struct Secure {
    server: Server,
    port: u16,
}

impl Secure {
    /// Its certificate is for `localhost`.
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("leasehold-tls-{}", fastrand::u64(..)));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name).to_str().unwrap().to_owned()
        };
        let certificate = file("certificate.pem", CERTIFICATE);
        let key = file("key.pem", KEY);
        let port = free_port();
        let server = Server::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &certificate,
            "--tls-auth-clients",
            "no",
        ]);
        remove(&folder);
        Secure { server, port }
    }

    async fn connect(
        &self,
        name: &str,
        roots: RootCertStore,
    ) -> Result<(Node, OwnRuntime), CallError> {
        let own = OwnRuntime::new();
        let tls = Tls::new(name, roots)?;
        let dial = Dial::Tls { host: "localhost".to_owned(), port: self.port, tls };
        let endpoint = Endpoint::parse(&format!("rediss://localhost:{}", self.port)).unwrap();
        let timing = Timing { command: SECOND * 10, connect: SECOND * 10 };
        let events = Arc::<Recorder>::default();
        let (absent, at) = (IfUnreachable::Fail, own.handle());
        let node = Remote::new(dial, &endpoint, NAME);
        let redis = connect_to(node, timing, events, at, absent).await?;
        Ok((redis, own))
    }
}

/// The server has read its files by now.
fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn calls_and_messages_of_any_size_arrive() {
    needs_a_server!();
    let secure = Secure::start();
    let (redis, own) = secure.connect("localhost", roots(AUTHORITY)).await.unwrap();
    let all = (0..1_000).map(|_| redis.call(Lane::Caller, add("n")));
    let mut received: Vec<_> =
        futures::future::join_all(all).await.into_iter().map(Result::unwrap).collect();
    received.sort_by_key(|value| if let Value::Int(number) = value { *number } else { 0 });
    assert_eq!(received, (1..=1_000).map(Value::Int).collect::<Vec<_>>());

    for length in [0, 1, 16_383, 16_384, 16_385, 3_000_000] {
        let text = "x".repeat(length);
        let args = vec![Arg::from(text.as_str())];
        let call = Call { script: &LAST, keys: vec![], args };
        for lane in LANES {
            assert_eq!(redis.call(lane, call.clone()).await, Ok(Value::Text(text.clone())));
        }
    }
    redis.subscribe(&Arc::from("c"), PubSub::Plain).await.unwrap();
    assert_eq!(secure.server.command(&["PUBLISH", "c", "x"]).int(), 1);
    assert_eq!(redis.reconnects(), 0);
    redis.close().await;
    until("no task is left", || own.tasks() == 0).await;
}

#[tokio::test]
async fn a_certificate_of_another_name_or_of_nobody_we_trust_is_not_accepted() {
    needs_a_server!();
    let secure = Secure::start();
    let cases = [
        ("elsewhere.example", roots(AUTHORITY), "not valid for name"),
        ("localhost", roots(STRANGER), "UnknownIssuer"),
    ];
    for (name, roots, part) in cases {
        let error = secure.connect(name, roots).await.map(drop).unwrap_err();
        let received = matches!(&error, CallError::NotApplied(fault) if fault.0.contains(part));
        assert!(received, "{name}: {error:?}");
    }
}

/// A stream that takes so many bytes and then fails, or takes nothing more.
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

/// Calls whose bytes were not taken end as *not applied*, so the server must not have those bytes.
#[tokio::test]
async fn a_write_that_fails_says_truly_what_was_taken() {
    use futures::future::join;
    use tokio::io::AsyncWriteExt as _;

    const ALL: usize = 60_000;
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate(CERTIFICATE)], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let tls = Tls::new("localhost", roots(AUTHORITY)).unwrap();
    for fails_after in (1..ALL + 1_000).step_by(499) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let room = Arc::new(Mutex::new(usize::MAX));
        let weak = Weak { stream: ours, room: room.clone() };
        let (client, server) = join(tls.connect(weak), acceptor.accept(theirs)).await;
        let (reader, mut writer) = super::super::tls::split(client.unwrap());
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
        assert!(read <= taken, "failing after {fails_after}: read {read}, taken {taken}");
    }
}
