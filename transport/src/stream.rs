//! Byte streams to servers, and how TCP connections are made.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::call_error::Fault;
use crate::host_port::HostPort;
use crate::sync::Mutex;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The end of a stream that was in use.
pub(super) fn lost(error: &io::Error) -> Fault {
    Fault(format!("the connection was lost: {error}"))
}

/// Keeps routers from dropping our idle connections.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// If an address of a host has not answered after this time, the next one is tried as well. It is
/// less if there would be no time left for the last address.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How long an attempt waits for a name. With dead name servers, systems take five to ten seconds.
pub(super) const LOOK_UP_MAX: Duration = Duration::from_secs(10);

/// How long an answer is kept that nobody has waited for.
const UNREAD: Duration = Duration::from_secs(60);

/// How long an answer that was read is good enough for other connections to the same server.
pub(super) const SHARED: Duration = Duration::from_secs(5);

/// The addresses of a host. Their ports have no meaning.
type Addresses = Result<Vec<SocketAddr>, String>;

/// Look-ups by host, under way or answered in the last [`UNREAD`]. A look-up keeps its thread until
/// the system answers, even if nobody waits any more. So the next attempt gets the same answer
/// instead of using another thread.
static LOOK_UPS: LazyLock<Mutex<BTreeMap<String, LookUp>>> = LazyLock::new(Mutex::default);

struct LookUp {
    answer: future::Shared<oneshot::Receiver<Addresses>>,
    /// When the answer came, or was first read. `None` while the look-up is under way.
    since: Option<Instant>,
    is_read: bool,
}

impl LookUp {
    /// Whether its answer is used, if one that was read before may have this age.
    fn serves(&self, age_max: Duration) -> bool {
        let age_max = if self.is_read { age_max } else { UNREAD };
        self.since.is_none_or(|since| since.elapsed() < age_max)
    }
}

/// Connects to the first of these addresses that answers.
pub(super) async fn tcp(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let stream = connect_first(addresses.to_vec(), limit).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// The addresses of a host, which another connection may have learned up to `age_max` ago. Hosts
/// are resolved on a blocking thread of `resolver`.
pub(super) async fn addresses(
    at: &HostPort,
    resolver: &Handle,
    age_max: Duration,
) -> io::Result<Vec<SocketAddr>> {
    let HostPort { host, port } = at;
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, *port).into()],
        Err(_) => look_up(host, resolver, age_max, ask_the_system).await?,
    };
    for address in &mut addresses {
        address.set_port(*port);
    }
    Ok(addresses)
}

/// Resolves a host. If a look-up of the host is under way, or was answered less than `age_max` ago,
/// its answer is shared. An answer that nobody has read yet may be older.
///
/// CANCEL: the look-up continues without its future, and its answer is kept for the next one.
pub(super) async fn look_up(
    host: &str,
    resolver: &Handle,
    age_max: Duration,
    ask: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let (answer, answered) = oneshot::channel();
    let answered = answered.shared();
    let under_way = {
        let mut look_ups = LOOK_UPS.lock();
        look_ups
            .retain(|name, look_up| look_up.serves(if name == host { age_max } else { SHARED }));
        let begun = || LookUp {
            answer: answered.clone(),
            since: None,
            is_read: false,
        };
        let look_up = look_ups.entry(host.to_owned()).or_insert_with(begun);
        look_up.answer.clone()
    };
    if under_way.ptr_eq(&answered) {
        let under_way = RunningLookUp(host.to_owned());
        // Not under the lock: a runtime that was shut down drops the closure at once, which takes
        // the lock.
        resolver.spawn_blocking(move || {
            let addresses = ask(&under_way.0).map_err(|error| error.to_string());
            if addresses.is_ok() {
                change(&under_way.0, |look_up| look_up.since = Some(Instant::now()));
            }
            drop(under_way);
            drop(answer.send(addresses));
        });
    }
    let answer = under_way.await;
    change(host, |look_up| {
        // Another look-up may be under way by now, because this one has failed.
        if look_up.since.is_some() && !std::mem::replace(&mut look_up.is_read, true) {
            look_up.since = Some(Instant::now());
        }
    });
    match answer {
        Ok(addresses) => addresses.map_err(io::Error::other),
        Err(_) => Err(io::Error::other(
            "the client that asked for the name has ended",
        )),
    }
}

fn change(host: &str, change: impl FnOnce(&mut LookUp)) {
    LOOK_UPS.lock().get_mut(host).map(change);
}

/// The entry of a look-up. Dropping it removes the entry, unless the system has answered.
struct RunningLookUp(String);

impl Drop for RunningLookUp {
    fn drop(&mut self) {
        let mut look_ups = LOOK_UPS.lock();
        if look_ups
            .get(&self.0)
            .is_some_and(|look_up| look_up.since.is_none())
        {
            look_ups.remove(&self.0);
        }
    }
}

fn ask_the_system(host: &str) -> io::Result<Vec<SocketAddr>> {
    (host, 0).to_socket_addrs().map(Vec::from_iter)
}

/// Connects to the first address that answers. Attempts overlap, because otherwise a dead address
/// would use up the time of the others. The caller allows `limit` for all of them.
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
