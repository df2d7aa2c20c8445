//! A TCP proxy in front of a server, with switches for what networks do to connections.
//!
//! Two threads for each connection, blocking I/O with short time-outs: the proxy works whatever
//! the runtime under test does. Switches apply to open and to new connections.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::port::listen;
use super::server::Server;

/// A proxy on a free loopback port; it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    swallow_requests: AtomicBool,
    swallow_replies: AtomicBool,
    swallow_messages: AtomicBool,
    refuse: AtomicBool,
    stopped: AtomicBool,
    /// Requests stay here, and are delivered when this ends: also those of connections that are
    /// gone by then.
    hold_requests: AtomicBool,
    /// Pause before each piece of a reply is passed on.
    delay_ms: AtomicU64,
    /// Up to so much more, each time another.
    jitter_ms: AtomicU64,
    /// If it is not 0, replies are passed on in pieces of so many bytes, a millisecond apart.
    piece: AtomicUsize,
    accepted: AtomicU64,
    /// Connections up to this number are silent for ever.
    silenced: AtomicU64,
    request_bytes: AtomicU64,
    reply_bytes: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
    /// Where connections lead, in turn.
    servers: Mutex<Vec<SocketAddr>>,
    /// Ports that servers tell, and those of the proxies in front of them.
    renamed: Vec<(u16, u16)>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug)]
enum Way {
    Requests,
    Replies,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Self {
        Self::start_at(listen(), server, Vec::new())
    }

    /// A proxy at this address, which must be free.
    pub fn start_on(address: SocketAddr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        Self::start_at(listener, server, Vec::new())
    }

    /// One proxy in front of each server. Where a server names the port of another one, the proxy's
    /// port is put in: a client that connects through one proxy reaches all servers through
    /// proxies.
    pub fn start_for_all(servers: &[SocketAddr]) -> Vec<Self> {
        let listeners: Vec<_> = servers.iter().map(|_| listen()).collect();
        let ports = listeners
            .iter()
            .map(|one| one.local_addr().expect("its address").port());
        let renamed: Vec<_> = servers.iter().map(SocketAddr::port).zip(ports).collect();
        let start = |(listener, server): (_, &SocketAddr)| {
            Self::start_at(listener, *server, renamed.clone())
        };
        listeners.into_iter().zip(servers).map(start).collect()
    }

    fn start_at(listener: TcpListener, server: SocketAddr, renamed: Vec<(u16, u16)>) -> Self {
        let address = listener.local_addr().expect("its address");
        let servers = Mutex::new(vec![server]);
        let shared = Arc::new(Shared {
            servers,
            renamed,
            ..Shared::default()
        });
        let own = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if own.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let number = own.accepted.fetch_add(1, Ordering::SeqCst) + 1;
                if own.refuse.load(Ordering::SeqCst) {
                    continue;
                }
                let server = {
                    let servers = own.servers.lock().expect("no panic while locked");
                    let turn = usize::try_from(number - 1).expect("a small number");
                    servers[turn % servers.len()]
                };
                if let Ok(upstream) = TcpStream::connect(server) {
                    drop(join(&own, number, client, upstream));
                }
            }
        });
        Proxy { address, shared }
    }

    /// New connections lead to these servers in turn, as behind a balancer.
    pub fn lead_to(&self, servers: &[&Server]) {
        *self.shared.servers.lock().expect("no panic while locked") =
            servers.iter().map(|server| server.address()).collect();
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything passes again, for open connections, too. What was swallowed stays lost.
    pub fn flow(&self) {
        for switch in [
            &self.shared.swallow_requests,
            &self.shared.swallow_replies,
            &self.shared.swallow_messages,
            &self.shared.hold_requests,
            &self.shared.refuse,
        ] {
            switch.store(false, Ordering::SeqCst);
        }
        self.delay_replies(Duration::ZERO);
        self.jitter(Duration::ZERO);
        self.shared.piece.store(0, Ordering::SeqCst);
    }

    /// Everything passes again, on new connections: the open ones are cut.
    pub fn pass(&self) {
        // In this order: a reply that is just arriving must not slip through.
        self.cut();
        self.flow();
    }

    /// Requests reach the server, its replies do not come back.
    pub fn swallow_replies(&self) {
        self.shared.swallow_replies.store(true, Ordering::SeqCst);
    }

    /// Nothing comes back on connections that have subscribed; all others are as they were.
    pub fn swallow_messages(&self) {
        self.shared.swallow_messages.store(true, Ordering::SeqCst);
    }

    /// Requests do not reach the server.
    pub fn swallow_requests(&self) {
        self.shared.swallow_requests.store(true, Ordering::SeqCst);
    }

    /// Connections stay open (new ones are accepted, too), nothing passes either way.
    pub fn half_open(&self) {
        self.swallow_requests();
        self.swallow_replies();
    }

    /// New connections are closed at once.
    pub fn refuse(&self) {
        self.shared.refuse.store(true, Ordering::SeqCst);
    }

    /// Requests are kept, and carried out later: when everything [flows](Proxy::flow) again.
    pub fn hold_requests(&self) {
        self.shared.hold_requests.store(true, Ordering::SeqCst);
    }

    pub fn delay_replies(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).expect("a short delay");
        self.shared.delay_ms.store(delay, Ordering::SeqCst);
    }

    /// Each piece of a reply is delayed by up to so much more.
    pub fn jitter(&self, up_to: Duration) {
        let up_to = u64::try_from(up_to.as_millis()).expect("a short delay");
        self.shared.jitter_ms.store(up_to, Ordering::SeqCst);
    }

    /// Replies are passed on in pieces of so many bytes, a millisecond apart.
    pub fn trickle(&self, piece: usize) {
        self.shared.piece.store(piece, Ordering::SeqCst);
    }

    /// Nothing passes any more on the connections that are open now; new ones are as always. So a
    /// router forgets connections.
    pub fn silence(&self) {
        self.shared
            .silenced
            .store(self.accepted(), Ordering::SeqCst);
    }

    /// Cuts all open connections now.
    pub fn cut(&self) {
        for stream in self
            .shared
            .open
            .lock()
            .expect("no panic while locked")
            .drain(..)
        {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Connections accepted so far, refused ones included.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Bytes that arrived from clients, swallowed ones included.
    pub fn request_bytes(&self) -> u64 {
        self.shared.request_bytes.load(Ordering::SeqCst)
    }

    /// Bytes that arrived from the server, swallowed ones included.
    pub fn reply_bytes(&self) -> u64 {
        self.shared.reply_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn join(
    shared: &Arc<Shared>,
    number: u64,
    client: TcpStream,
    upstream: TcpStream,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let mut open = shared.open.lock().expect("no panic while locked");
    open.push(client.try_clone()?);
    open.push(upstream.try_clone()?);
    drop(open);
    let requests = (client.try_clone()?, upstream.try_clone()?);
    let subscribed = Arc::new(AtomicBool::new(false));
    for (way, (from, to)) in [
        (Way::Requests, requests),
        (Way::Replies, (upstream, client)),
    ] {
        let (shared, subscribed) = (shared.clone(), subscribed.clone());
        thread::spawn(move || copy(&shared, (number, &subscribed), way, from, to));
    }
    Ok(())
}

fn copy(
    shared: &Shared,
    (number, subscribed): (u64, &AtomicBool),
    way: Way,
    mut from: TcpStream,
    mut to: TcpStream,
) {
    let (swallow, bytes) = match way {
        Way::Requests => (&shared.swallow_requests, &shared.request_bytes),
        Way::Replies => (&shared.swallow_replies, &shared.reply_bytes),
    };
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        bytes.fetch_add(length as u64, Ordering::SeqCst);
        if matches!(way, Way::Replies) {
            let [delay, jitter] =
                [&shared.delay_ms, &shared.jitter_ms].map(|span| span.load(Ordering::SeqCst));
            let mixed = bytes
                .load(Ordering::SeqCst)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                >> 32;
            thread::sleep(Duration::from_millis(delay + mixed % (jitter + 1)));
        }
        let is_held = || shared.hold_requests.load(Ordering::SeqCst);
        while matches!(way, Way::Requests) && is_held() {
            thread::sleep(Duration::from_millis(1));
        }
        let is_silent = number <= shared.silenced.load(Ordering::SeqCst);
        if is_silent || swallow.load(Ordering::SeqCst) {
            continue;
        }
        match way {
            Way::Requests => {
                let orders = buffer[..length].windows(9).any(|word| word == b"SUBSCRIBE");
                subscribed.fetch_or(orders, Ordering::SeqCst);
            }
            Way::Replies => {
                let deaf = shared.swallow_messages.load(Ordering::SeqCst);
                if deaf && subscribed.load(Ordering::SeqCst) {
                    continue;
                }
                rename(&shared.renamed, &mut buffer[..length]);
            }
        }
        if pass_on(shared, way, &mut to, &buffer[..length]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

fn pass_on(shared: &Shared, way: Way, to: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let piece = shared.piece.load(Ordering::SeqCst);
    if piece == 0 || matches!(way, Way::Requests) {
        return to.write_all(bytes);
    }
    for part in bytes.chunks(piece) {
        to.write_all(part)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// All ports that systems give by themselves have five digits: no length changes.
fn rename(ports: &[(u16, u16)], reply: &mut [u8]) {
    for (old, new) in ports {
        let (old, new) = (old.to_string(), new.to_string());
        let width = old.len();
        if width != new.len() || reply.len() < width {
            continue;
        }
        for at in 0..=reply.len() - width {
            let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
            let is_part =
                is_digit(reply.get(at.wrapping_sub(1))) || is_digit(reply.get(at + width));
            if !is_part && reply[at..at + width] == *old.as_bytes() {
                reply[at..at + width].copy_from_slice(new.as_bytes());
            }
        }
    }
}
