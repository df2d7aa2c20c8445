//! Client processes, and the resource to which they write.

use std::fs;
use std::io::{BufRead as _, BufReader, Cursor, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::history::{self, Event};
use crate::peers::{Kind, Peer};

/// Longer than a busy machine delays a process.
pub(super) const LEASE: Duration = Duration::from_secs(20);

/// The arguments of all client processes.
pub(super) struct Run {
    pub(super) place: Kind,
    pub(super) url: String,
    pub(super) resource: SocketAddr,
    pub(super) seconds: u64,
    /// Separated by commas.
    pub(super) workloads: String,
    pub(super) workers: u32,
    pub(super) hold_ms: &'static str,
    pub(super) long_ms: &'static str,
    pub(super) lease: Duration,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            place: Kind::Single,
            url: String::new(),
            resource: (Ipv4Addr::LOCALHOST, 0).into(),
            seconds: 3,
            workloads: "plain".to_owned(),
            workers: 3,
            hold_ms: "10-60",
            long_ms: "50-200",
            lease: LEASE,
        }
    }
}

pub(super) struct Client {
    child: Child,
    orders: ChildStdin,
    history: JoinHandle<String>,
}

impl Client {
    pub(super) fn start(peer: &Peer, run: &Run, process: u32) -> Self {
        let mut child = peer
            .command()
            .args(["--url", &run.url, "--deployment", &run.place.name()])
            .args([
                "--process",
                &process.to_string(),
                "--workers",
                &run.workers.to_string(),
            ])
            .args(["--workloads", &run.workloads])
            .args([
                "--lease-ms",
                &run.lease.as_millis().to_string(),
                "--wait-ms",
                "1000",
            ])
            .args([
                "--hold-ms",
                run.hold_ms,
                "--long-ms",
                run.long_ms,
                "--step-ms",
                "5",
            ])
            .args(["--think-ms", "1-20", "--seed", "7"])
            .args(["--seconds", &run.seconds.to_string()])
            .args(["--resource", &run.resource.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", peer.name));
        let orders = child.stdin.take().expect("piped");
        let mut out = child.stdout.take().expect("piped");
        let history = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("text");
            text
        });
        Client {
            child,
            orders,
            history,
        }
    }

    pub(super) fn send(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("the client reads its input");
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("the client runs");
    }

    /// Whether the process was stopped by a signal.
    pub(super) fn is_stopped(&self) -> bool {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the client runs");
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('T'))
    }

    /// Waits until the process has ended. Returns its process id and its history.
    pub(super) fn history(mut self) -> (u32, Vec<Event>) {
        let ended = self.child.wait().expect("a child of this process");
        let text = self.history.join().expect("the output was read");
        assert!(ended.success(), "{ended}: {text}");
        (
            self.child.id(),
            history::read(Cursor::new(text)).expect("a history").0,
        )
    }
}

/// A resource that accepts and counts all writes.
pub(super) struct Resource {
    address: SocketAddr,
    writes: Arc<AtomicUsize>,
}

impl Resource {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("the address of the listener");
        let writes = Arc::new(AtomicUsize::new(0));
        let counter = writes.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let counter = counter.clone();
                thread::spawn(move || serve(&connection, &counter));
            }
        });
        Resource { address, writes }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

fn serve(mut connection: &TcpStream, writes: &AtomicUsize) {
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        let ["W", name, "-", worker] = words[..] else {
            panic!("not a write: {line}")
        };
        assert!(name.contains(':') && worker.contains('.'), "{line}");
        writes.fetch_add(1, Ordering::SeqCst);
        if connection.write_all(b"ok\n").is_err() {
            return;
        }
    }
}
