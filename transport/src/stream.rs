//! Byte streams to servers, and how TCP connections are made.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::Shared;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::sync::Mutex;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Keeps routers from dropping our idle connections.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);

/// If an address of a host has not answered after this time, the next one is tried as well. It is less if there would
/// be no time left for the last address.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The addresses of a host. Their ports have no meaning.
type Addresses = Result<Vec<SocketAddr>, String>;

/// Running look-ups by host. A look-up keeps its thread until the system answers, even if nobody waits any more. So the
/// next attempt waits for the same answer instead of using another thread.
static LOOK_UPS: LazyLock<Mutex<BTreeMap<String, Shared<oneshot::Receiver<Addresses>>>>> =
    LazyLock::new(Mutex::default);

/// Resolves the host on a blocking thread of `resolver`, and connects, to `peer` first if the host still has that
/// address. A name may have moved while the former server goes on, for example as a replica.
pub(super) async fn tcp(
    host: &str,
    port: u16,
    peer: Option<SocketAddr>,
    (resolver, limit): (&Handle, Duration),
) -> io::Result<TcpStream> {
    let mut addresses = addresses(host, port, resolver).await?;
    // Stable, so the others keep the order of the resolver.
    addresses.sort_by_key(|address| Some(*address) != peer);
    let stream = connect_first(addresses, limit).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// The addresses of a host at present.
pub(super) async fn addresses(
    host: &str,
    port: u16,
    resolver: &Handle,
) -> io::Result<Vec<SocketAddr>> {
    // An IPv6 address has brackets in a URL, but the resolver expects none.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) => look_up(host, resolver, ask_the_system).await?,
    };
    for address in &mut addresses {
        address.set_port(port);
    }
    Ok(addresses)
}

/// Resolves a host. If a look-up of the host is running, its answer is shared.
///
/// CANCEL: the look-up continues without its future, and removes its entry when it ends.
pub(super) async fn look_up(
    host: &str,
    resolver: &Handle,
    ask: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let (answer, answered) = oneshot::channel();
    let answered = answered.shared();
    let under_way = LOOK_UPS
        .lock()
        .entry(host.to_owned())
        .or_insert_with(|| answered.clone())
        .clone();
    if under_way.ptr_eq(&answered) {
        let under_way = UnderWay(host.to_owned());
        // Not under the lock: a runtime that was shut down drops the closure at once, which takes the lock.
        resolver.spawn_blocking(move || {
            let addresses = ask(&under_way.0).map_err(|error| error.to_string());
            drop(under_way);
            drop(answer.send(addresses));
        });
    }
    match under_way.await {
        Ok(addresses) => addresses.map_err(io::Error::other),
        Err(_) => Err(io::Error::other(
            "the client that asked for the name has ended",
        )),
    }
}

/// The entry of a look-up. Dropping it removes the entry, however the look-up ends.
struct UnderWay(String);

impl Drop for UnderWay {
    fn drop(&mut self) {
        LOOK_UPS.lock().remove(&self.0);
    }
}

fn ask_the_system(host: &str) -> io::Result<Vec<SocketAddr>> {
    (host, 0).to_socket_addrs().map(Vec::from_iter)
}

/// Connects to the first address that answers. Attempts overlap, because otherwise a dead address would use
/// up the time of the others. The caller allows `limit` for all of them.
pub(super) async fn connect_first(
    addresses: Vec<SocketAddr>,
    limit: Duration,
) -> io::Result<TcpStream> {
    let shares = u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
    let next_after = NEXT_ADDRESS_AFTER.min(limit / shares);
    let mut addresses = addresses.into_iter();
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
            () = sleep(next_after), if !is_last => {}
        }
    }
}
