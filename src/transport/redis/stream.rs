//! A stream of bytes to a server and back, and how TCP makes one.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::task::AbortOnDrop;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// So that a router which forgets silent connections does not forget ours.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long an address of a host may be silent before the next one is tried beside it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Resolves the host on a blocking thread of `resolver`, and connects.
pub(super) async fn tcp(host: &str, port: u16, resolver: &Handle) -> io::Result<TcpStream> {
    // An IPv6 address has brackets in a URL, and none where names are resolved.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let resolve = async move { lookup_host((host, port)).await.map(Vec::from_iter) };
    let addresses = (&mut AbortOnDrop(resolver.spawn(resolve)).0).await??;
    let stream = connect_first(addresses.into_iter()).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// Connects to the first address that answers. Tried one after the other, a dead address would use
/// up the time of all.
pub(super) async fn connect_first(
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> io::Result<TcpStream> {
    let mut connecting = FuturesUnordered::new();
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        connecting.extend(next.map(TcpStream::connect));
        tokio::select! {
            biased;
            outcome = connecting.next() => match outcome {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(failed)) => error = failed,
                None => return Err(error),
            },
            () = sleep(NEXT_ADDRESS_AFTER), if !is_last => {}
        }
    }
}
