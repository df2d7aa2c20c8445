//! A private server on a free loopback port, without persistence, gone when it is dropped.
//!
//! `LEASEHOLD_SERVER` names another binary, for example `valkey-server`. Where there is none, tests
//! that ask `is_missing` are left out, and say so; if it is set, or `LEASEHOLD_REQUIRE_SERVERS` as
//! by `tests/run`, they fail. With `LEASEHOLD_PROTOCOL=2`, every server refuses HELLO, so that
//! clients speak RESP2.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::command::command;
use super::keeper;
use super::port::Port;
use super::resp::{Connection, Reply};
use super::waiting::wait_until;

/// A running (or stopped, or killed) server.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: Port,
    /// Where the nodes of a cluster talk to each other.
    bus: Option<Port>,
    /// With TLS, if the arguments have a certificate.
    tls: Option<Port>,
    is_dead: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
    password: Option<String>,
}

#[derive(Clone, Copy)]
enum Role {
    Alone,
    /// Of a cluster: it has a bus as well.
    Node,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments of the server: `["--requirepass", "x"]`.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(&[], arguments)
    }

    /// With further variables in its environment.
    pub fn start_in(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let environment: Vec<_> = environment.iter().map(pair).collect();
        Self::launch(Role::Alone, new_folder(), environment, arguments)
    }

    /// A node that knows no others yet.
    pub fn start_node(arguments: &[&str]) -> Self {
        let node = [
            "--cluster-enabled",
            "yes",
            "--cluster-config-file",
            "nodes.conf",
        ];
        let arguments = [&node, arguments].concat();
        Self::launch(Role::Node, new_folder(), Vec::new(), &arguments)
    }

    /// A sentinel, which begins with this configuration and writes on in its file.
    pub fn start_sentinel(configuration: &str) -> Self {
        Self::start_sentinel_with(configuration, &[])
    }

    pub fn start_sentinel_with(configuration: &str, arguments: &[&str]) -> Self {
        let folder = new_folder();
        let file = folder.join("sentinel.conf");
        fs::write(&file, configuration).expect("its file");
        let file = file.to_string_lossy();
        let sentinel = [&file, "--sentinel"];
        let arguments = [&sentinel, arguments].concat();
        Self::launch(Role::Alone, folder.clone(), Vec::new(), &arguments)
    }

    fn launch(
        role: Role,
        folder: PathBuf,
        environment: Vec<(String, String)>,
        arguments: &[&str],
    ) -> Self {
        let mut arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        match std::env::var("LEASEHOLD_PROTOCOL").as_deref() {
            Ok("2") => arguments.extend(["--rename-command", "HELLO", ""].map(str::to_owned)),
            Ok(other) => panic!("LEASEHOLD_PROTOCOL: servers cannot be limited to {other}"),
            Err(_) => {}
        }
        let password = arguments
            .iter()
            .position(|word| word == "--requirepass")
            .map(|at| arguments[at + 1].clone());
        let has = |wanted: &str| arguments.iter().any(|word| word == wanted);
        let has_tls = has("--tls-cert-file") && !has("--tls-port");
        // Another process may take the free port before the server does: then try the next.
        for _ in 0..20 {
            let (port, bus) = match role {
                Role::Alone => (Port::reserve(), None),
                Role::Node => Port::reserve_with_bus(),
            };
            let (tls, mut arguments) = (has_tls.then(Port::reserve), arguments.clone());
            if let Some(tls) = &tls {
                arguments.extend(["--tls-port".to_owned(), tls.number().to_string()]);
                let bus = bus
                    .iter()
                    .flat_map(|bus| ["--cluster-port".to_owned(), bus.number().to_string()]);
                arguments.extend(bus);
            }
            let mut process = spawn(port.number(), &arguments, &environment, &folder);
            if comes_up(&mut process, port.number()) {
                return Server {
                    process,
                    port,
                    bus,
                    tls,
                    is_dead: false,
                    arguments,
                    environment,
                    folder,
                    password,
                };
            }
            end(&mut process);
        }
        panic!("the server does not start: {} {arguments:?}", binary());
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Of the bus, if it is a node of a cluster.
    pub fn bus_port(&self) -> Option<u16> {
        self.bus.as_ref().map(Port::number)
    }

    /// Where it speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls
            .as_ref()
            .expect("its arguments have a certificate")
            .number()
    }

    /// It was neither paused nor killed.
    pub fn is_up(&self) -> bool {
        !self.is_dead && !self.paused().exists()
    }

    /// With the password, if it was given as `--requirepass`.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port()),
            None => format!("redis://127.0.0.1:{}", self.port()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The server's own folder: for sockets and certificates.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new connection, logged in if there is a password.
    pub fn connection(&self) -> Connection {
        let mut connection = Connection::open(self.address()).expect("the server accepts");
        if let Some(password) = &self.password {
            connection
                .command(&["AUTH", password])
                .expect("the server answers AUTH");
        }
        connection
    }

    /// One command on a new connection.
    pub fn command(&self, words: &[&str]) -> Reply {
        // A server whose role changes ends its connections. A question may be asked again.
        let questions = [
            "ROLE", "INFO", "CLUSTER", "SENTINEL", "EXISTS", "KEYS", "DBSIZE",
        ];
        let is_question = questions.contains(&words[0]) || words.starts_with(&["CLIENT", "LIST"]);
        let again = is_question && !words.contains(&"FAILOVER");
        for _ in 0..if again { 20 } else { 0 } {
            if let Ok(reply) = self.connection().command(words) {
                return reply;
            }
        }
        self.connection()
            .command(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The lines of CLIENT LIST that contain `part`.
    pub fn clients(&self, part: &str) -> Vec<String> {
        let list = self.command(&["CLIENT", "LIST"]).text();
        list.lines()
            .filter(|line| line.contains(part))
            .map(str::to_owned)
            .collect()
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn pause(&self) {
        fs::write(self.paused(), "").expect("its folder");
        self.signal("-STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal("-CONT");
        self.is_paused_no_more();
    }

    /// The file that marks a paused server. `tests/stress` does not continue such a server.
    fn paused(&self) -> PathBuf {
        self.folder.join("paused")
    }

    fn is_paused_no_more(&self) {
        drop(fs::remove_file(self.paused()));
    }

    /// SIGKILL: all connections break, the port refuses.
    pub fn kill(&mut self) {
        if !self.is_dead {
            self.is_dead = true;
            end(&mut self.process);
        }
    }

    /// A new server on the same port, empty but for what its configuration says.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..20 {
            self.process = spawn(
                self.port.number(),
                &self.arguments,
                &self.environment,
                &self.folder,
            );
            if comes_up(&mut self.process, self.port.number()) {
                self.is_paused_no_more();
                self.is_dead = false;
                return;
            }
            end(&mut self.process);
        }
        panic!("the server does not restart on port {}", self.port.number());
    }

    fn signal(&self, signal: &str) {
        let done = command("kill")
            .arg(signal)
            .arg(self.pid().to_string())
            .status();
        assert!(done.is_ok_and(|status| status.success()), "kill {signal}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Whether there is no server here, so that the test is to be left out.
pub fn is_missing() -> bool {
    static MISSING: LazyLock<bool> = LazyLock::new(|| {
        let wanted = ["LEASEHOLD_SERVER", "LEASEHOLD_REQUIRE_SERVERS"];
        if wanted.iter().any(|name| std::env::var_os(name).is_some())
            || command(binary()).arg("--version").output().is_ok()
        {
            return false;
        }
        // Not by `eprintln!`, whose output is kept from who runs the tests.
        let told = "skipped: no redis-server, tests on a server are left out\n";
        io::stderr().write_all(told.as_bytes()).expect("stderr");
        true
    });
    *MISSING
}

pub(super) fn new_folder() -> PathBuf {
    static FOLDERS: AtomicU64 = AtomicU64::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(format!("{}-{number}", keeper::folders()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// From now on each server runs as a user of its own, whose number is its port: so a firewall tells
/// them from each other. Only root may do that.
pub fn run_as_users() {
    USERS.store(true, Ordering::SeqCst);
}

static USERS: AtomicBool = AtomicBool::new(false);

/// Gives a folder with its files to a user, if servers run as users.
fn give_away(folder: &Path, command: &mut Command, user: u32) -> io::Result<()> {
    if USERS.load(Ordering::SeqCst) {
        for file in fs::read_dir(folder)? {
            chown(file?.path(), Some(user), None)?;
        }
        chown(folder, Some(user), None)?;
        command.uid(user);
    }
    Ok(())
}

fn binary() -> String {
    std::env::var("LEASEHOLD_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

fn spawn(
    port: u16,
    arguments: &[String],
    environment: &[(String, String)],
    folder: &Path,
) -> Child {
    let (file, arguments) = match arguments {
        [file, rest @ ..] if !file.starts_with("--") => (Some(file), rest),
        _ => (None, arguments),
    };
    let mut command = command(binary());
    give_away(folder, &mut command, u32::from(port)).expect("root may");
    let process = command
        .args(file)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        // What a replica got once would be there again after a restart.
        .args(["--rdb-del-sync-files", "yes"])
        .arg("--dir")
        .arg(folder)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{} is needed for this test: {error}", binary()));
    keeper::keep(process.id());
    process
}

pub(super) fn end(process: &mut Child) {
    keeper::forget(process.id());
    drop(process.kill());
    drop(process.wait());
}

/// Waits for an answer to PING, which may be an error (NOAUTH).
fn comes_up(process: &mut Child, port: u16) -> bool {
    let mut ended = false;
    let pid = process.id();
    wait_until("the server answers PING", Duration::from_secs(10), || {
        ended = process.try_wait().is_ok_and(|status| status.is_some());
        ended || answers(port, pid).unwrap_or(false)
    });
    !ended && process.try_wait().is_ok_and(|status| status.is_none())
}

/// Whether a process answers there. Somebody else's server may have the port, and ours be about to
/// end.
fn answers(port: u16, pid: u32) -> io::Result<bool> {
    let mut connection = Connection::open((Ipv4Addr::LOCALHOST, port).into())?;
    let is_loading = connection.command(&["PING"])?.text().starts_with("LOADING");
    let info = connection.command(&["INFO", "server"])?.text();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    // A server that wants a login does not answer INFO here.
    Ok(!is_loading && name.is_none_or(|name| name == pid.to_string()))
}
