//! A node that redirects everybody to itself, like a node that does not know its slots yet: other
//! clients flood it. And a node that redirects everybody to ever new addresses.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, HoldState, Lease, Lock};
use leasehold_testbed::{
    Cluster, LIMIT, Shape, eventually, keyslot, take_and_release, until_certain,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The maximum number of sends of one call: the first, and five after a redirect.
const SENDS_MAX: u64 = 6;

/// The pauses of one call between its sends: 2, 4, 8, 16 and 32 ms.
const PAUSES: Duration = Duration::from_millis(62);

/// The shortest pause of a caller between two failed calls.
const BETWEEN_CALLS: Duration = Duration::from_millis(40);

/// The shortest pause between two queries of the layout, which are two commands each.
const BETWEEN_LAYOUTS: Duration = Duration::from_millis(25);

/// Callers of each sort.
const CALLERS: u32 = 7;

/// A proxy in front of a node. While it is wrong, each script is answered with MOVED to this
/// address.
struct Misled {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_wrong: AtomicBool,
    /// The addresses that it names in turn, if not its own.
    others: Mutex<Vec<SocketAddr>>,
    /// The number of scripts that were answered so.
    misled: AtomicU64,
    /// The number of all commands.
    commands: AtomicU64,
}

impl Misled {
    fn before(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        thread::spawn(move || {
            // Ends with the test program.
            for client in listener.incoming().flatten() {
                let shared = own.clone();
                if let Ok(node) = TcpStream::connect(node) {
                    drop(join(client, node, shared, address));
                }
            }
        });
        Misled { address, shared }
    }

    fn go_wrong(&self) {
        self.shared.is_wrong.store(true, SeqCst);
    }

    fn scatter(&self, others: Vec<SocketAddr>) {
        *self.shared.others.lock().expect("nobody panics") = others;
        self.go_wrong();
    }

    fn go_right(&self) {
        self.shared.is_wrong.store(false, SeqCst);
    }

    fn misled(&self) -> u64 {
        self.shared.misled.load(SeqCst)
    }

    fn commands(&self) -> u64 {
        self.shared.commands.load(SeqCst)
    }
}

fn join(
    client: TcpStream,
    node: TcpStream,
    shared: Arc<Shared>,
    address: SocketAddr,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let (mut replies, mut to_client) = (node.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        drop(io::copy(&mut replies, &mut to_client));
        drop(to_client.shutdown(std::net::Shutdown::Both));
    });
    thread::spawn(move || {
        let mut requests = BufReader::new(client);
        let mut node = node;
        while let Ok(request) = read_request(&mut requests) {
            shared.commands.fetch_add(1, SeqCst);
            let is_script = request[0].starts_with(b"EVAL");
            let sent = if is_script && shared.is_wrong.load(SeqCst) {
                shared.misled.fetch_add(1, SeqCst);
                // The node itself answers in the right order.
                let slot = slot_of(&request);
                let other = shared.others.lock().expect("nobody panics").pop();
                let address = other.unwrap_or(address);
                let answer = format!("return redis.error_reply('MOVED {slot} {address}')");
                node.write_all(&encoded(&[
                    b"EVAL".to_vec(),
                    answer.into_bytes(),
                    b"0".to_vec(),
                ]))
            } else {
                node.write_all(&encoded(&request))
            };
            if sent.is_err() {
                break;
            }
        }
        drop(node.shutdown(std::net::Shutdown::Both));
    });
    Ok(())
}

/// The slot of a script, whose keys are declared or passed as arguments after their number.
fn slot_of(script: &[Vec<u8>]) -> u16 {
    let key = if script[2] == b"0" {
        &script[4]
    } else {
        &script[3]
    };
    keyslot(&String::from_utf8_lossy(key))
}

fn read_request(from: &mut impl io::BufRead) -> io::Result<Vec<Vec<u8>>> {
    let mut number = |kind: char| {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let number = line
            .strip_prefix(kind)
            .and_then(|rest| rest.trim_end().parse().ok());
        let number: usize = number.ok_or(io::ErrorKind::InvalidData)?;
        let mut word = vec![0; if kind == '$' { number + 2 } else { 0 }];
        from.read_exact(&mut word)?;
        word.truncate(number);
        Ok::<_, io::Error>((number, word))
    };
    let (words, _) = number('*')?;
    (0..words).map(|_| Ok(number('$')?.1)).collect()
}

fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn spawn_each<F>(client: &Client, names: &str, work: impl Fn(Lock) -> F) -> Vec<JoinHandle<()>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let locks = (0..CALLERS).map(|number| client.lock(format!("{names}:{number}")));
    locks.map(|lock| tokio::spawn(work(lock))).collect()
}

/// A cluster of one node, which is announced at the address of the proxy.
async fn misled_cluster() -> (Cluster, Misled, Client) {
    let cluster = Cluster::start_with(Shape {
        masters: 1,
        replicas: 0,
        ..Shape::default()
    });
    let misled = Misled::before(cluster.node(0).address());
    let port = misled.address.port().to_string();
    let words = ["CONFIG", "SET", "cluster-announce-port", &port];
    assert_eq!(cluster.node(0).command(&words).text(), "OK");
    let builder = Client::builder(&format!("redis-cluster://{}", misled.address));
    // On a stalled machine a reply is late, but not lost.
    let builder = builder.connect_timeout(LIMIT).command_timeout(LIMIT / 6);
    let builder = builder.lease(Duration::from_secs(6));
    let client = builder.connect().await.expect("connects");
    (cluster, misled, client)
}

/// A known complaint: 150 000 requests for one lock in five seconds to a server that answers MOVED,
/// and "MOVED redirection loop detected" for calls and renewals long after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "measured rates are shown with --nocapture"
)]
async fn a_node_that_sends_everybody_to_itself_is_asked_with_pauses() {
    let (cluster, misled, client) = misled_cluster().await;
    let held = client.lock("held").lock().await.expect("free");
    eventually("renewed", async || client.stats().renewed > 0).await;

    let (span, misled_at) = (Duration::from_secs(2), misled.address);
    let (calls, commands, since) = (client.stats().calls, misled.commands(), Instant::now());
    misled.go_wrong();
    let at_once = spawn_each(&client, "once", move |lock: Lock| async move {
        while since.elapsed() < span {
            let refused = lock.try_lock_now(Lease::Renewed).await.expect_err("misled");
            let Error::Unavailable { cause, .. } = &refused else {
                panic!("{refused:?}")
            };
            let text = cause.to_string();
            assert!(text.contains(&misled_at.to_string()), "which node: {text}");
        }
    });
    let for_a_while = spawn_each(&client, "while", move |lock: Lock| async move {
        while since.elapsed() < span {
            let wait = Duration::from_millis(700);
            let refused = lock
                .try_lock(wait, Lease::Renewed)
                .await
                .expect_err("misled");
            // A call may be in flight when the wait ends.
            assert!(refused.is_retryable(), "{refused:?}");
        }
    });
    let for_ever = spawn_each(&client, "ever", |lock: Lock| async move {
        take_and_release(&lock).await;
    });
    for calling in at_once.into_iter().chain(for_a_while) {
        calling.await.expect("no panic");
    }
    eventually("it has been renewed in vain", async || {
        held.state() == HoldState::Uncertain
    })
    .await;
    let took = since.elapsed();
    let calls = client.stats().calls - calls;
    let (sent, commands) = (misled.misled(), misled.commands() - commands);
    eprintln!(
        "{} callers, {took:?}: {calls} calls, {sent} sends, {commands} commands",
        3 * CALLERS
    );
    assert!(sent <= calls * SENDS_MAX, "{sent} sends of {calls} calls");
    let sends = |pause: Duration| (took.as_secs_f64() / pause.as_secs_f64() + 1.0) * 6.0;
    // Two of three callers pause between calls. So do the renewals and the safety poll.
    let callers = f64::from(CALLERS);
    let scripts = callers * sends(PAUSES) + (2.0 * callers + 2.0) * sends(PAUSES + BETWEEN_CALLS);
    let layouts = 2.0 * took.as_secs_f64() / BETWEEN_LAYOUTS.as_secs_f64();
    let most = scripts + layouts;
    let commands = u32::try_from(commands).expect("some thousands");
    assert!(
        f64::from(commands) < most,
        "{commands} commands in {took:?}, more than {most:.0}"
    );

    misled.go_right();
    until_certain(&held).await;
    for waiting in for_ever {
        timeout(LIMIT, waiting)
            .await
            .expect("it goes on")
            .expect("no panic");
    }
    take_and_release(&client.lock("once:0")).await;
    held.unlock().await.expect("held");
    assert_eq!(cluster.node(0).command(&["DBSIZE"]).int(), 0);
}

/// A server that accepts every connection and says nothing.
struct Silent {
    listener: TcpListener,
    open: Vec<TcpStream>,
}

impl Silent {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("permitted");
        Silent {
            listener,
            open: Vec::new(),
        }
    }

    /// The number of connections that the other side has not closed.
    fn open(&mut self) -> usize {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("permitted");
            self.open.push(stream);
        }
        self.open.retain_mut(|stream| {
            let waits = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
            let mut said = [0; 1024];
            loop {
                match stream.read(&mut said) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return waits(error),
                }
            }
        });
        self.open.len()
    }
}

/// Each address becomes a node whose connections are retried, until a layout says that there is no
/// such node.
#[tokio::test]
async fn a_node_that_names_ever_new_addresses_costs_no_more_than_some() {
    const ADDRESSES: usize = 100;
    // How many nodes that no layout names are kept. None answers, so only the first connection of
    // each is made.
    const MOST: usize = 16;

    let (_cluster, misled, client) = misled_cluster().await;
    let mut silent: Vec<_> = (0..ADDRESSES).map(|_| Silent::listen()).collect();
    let addresses = silent
        .iter()
        .map(|one| one.listener.local_addr().expect("an address"));
    misled.scatter(addresses.collect());
    let calls = (0..ADDRESSES).map(|number| {
        let lock = client.lock(format!("scattered:{number}"));
        tokio::spawn(async move { lock.try_lock_now(Lease::Renewed).await.expect_err("misled") })
    });
    let calls: Vec<_> = calls.collect();
    for call in calls {
        call.await.expect("no panic");
    }
    let mut open = || silent.iter_mut().map(Silent::open).sum::<usize>();
    eventually("most connections are closed again", async || open() <= MOST).await;
    assert!(misled.misled() >= ADDRESSES as u64, "each was named");

    misled.go_right();
    let lock = client.lock("scattered:0");
    eventually("answered again", async || {
        lock.try_lock_now(Lease::Renewed).await.is_ok()
    })
    .await;
}
