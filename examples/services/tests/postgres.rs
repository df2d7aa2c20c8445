//! A private `PostgreSQL` on a free loopback port, with a data folder of its own, gone when it is
//! dropped.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use leasehold_testbed::wait_until;

use crate::LIMIT;
use crate::process::Process;

pub(crate) struct Postgres {
    server: Option<Process>,
    folder: PathBuf,
    port: u16,
}

/// It refuses to run as root: then it runs as nobody.
const NOBODY: u32 = 65_534;

impl Postgres {
    pub(crate) fn start() -> Self {
        let folder = new_folder();
        if is_root() {
            chown(&folder, Some(NOBODY), None).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = command("initdb");
        initdb.args([
            "--username",
            "shop",
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
        ]);
        initdb
            .args(["--locale", "C", "--no-sync", "--pgdata"])
            .arg(&data);
        let made = initdb.current_dir(&folder).stdout(Stdio::null()).status();
        assert!(made.expect("initdb is needed for this test").success());
        // Another process may take the free port before the server does: then try the next.
        for _ in 0..20 {
            let port = free_port();
            let mut postgres = command("postgres");
            // No fsync: what a crash of the machine loses is no part of the test.
            postgres.args(["-F", "-h", "127.0.0.1", "-p", &port.to_string()]);
            let server = Process::spawn(postgres.arg("-k").arg(&folder).arg("-D").arg(&data));
            let mut database = Postgres {
                server: Some(server),
                folder: folder.clone(),
                port,
            };
            if database.comes_up() {
                return database;
            }
            database.server = None;
            std::mem::forget(database);
        }
        panic!("PostgreSQL does not start");
    }

    fn comes_up(&mut self) -> bool {
        let server = self.server.as_mut().unwrap();
        wait_until("it is ready, or cannot have the port", LIMIT, || {
            let lines = server.lines();
            let says = |part| lines.iter().any(|line| line.text.contains(part));
            says("ready to accept connections") || says("could not create any TCP/IP sockets")
        });
        server
            .lines()
            .iter()
            .any(|line| line.text.contains("ready to accept connections"))
    }

    pub(crate) fn connection_string(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=shop dbname=postgres",
            self.port
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its children end with it; SIGKILL would leave them, and its shared memory.
        if let Some(server) = &mut self.server {
            server.signal("-QUIT");
            server.ended();
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A program of `PostgreSQL`: Debian keeps them out of the search path.
fn command(program: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let paths = versions.map(|version| version.path().join("bin").join(program));
    let newest = paths.filter(|path| path.exists()).max();
    let mut command = leasehold_testbed::command(newest.unwrap_or_else(|| program.into()));
    if is_root() {
        command.uid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    let id = leasehold_testbed::command("id")
        .arg("-u")
        .output()
        .expect("id");
    id.stdout == b"0\n"
}

fn new_folder() -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Relaxed);
    let name = format!("leasehold-postgres-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
