//! What is asked: the declaration from which help, completions and the manual page are made.
#![expect(
    clippy::doc_markdown,
    reason = "these comments are the texts of the help"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "Exit codes: 120 not acquired in time, 121 lost, 122 server unreachable, 123 refused by the \
    server, 124 bad usage, 125 internal, 126 the command cannot be executed, 127 it is not found; otherwise of `run` \
    that of the command, or 128 and the number of the signal that ended it.";

/// Distributed locks on Redis and Valkey: run a command under a lock, look at locks, free them.
///
/// Locks are those of the library leasehold, of Java's Redisson, and string locks of Laravel, redsync, redis-py and
/// others. The server is that of --url, else of LEASEHOLD_URL, else of REDIS_URL.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, after_long_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArguments {
    /// The server: redis://host:6379, rediss://…, redis+unix://…, redis-sentinel://…, redis-cluster://…
    ///
    /// Else LEASEHOLD_URL, else REDIS_URL. A password in it is seen by `ps`: take the environment or a file.
    #[arg(long, global = true)]
    pub(crate) url: Option<String>,
    /// The user of the server's access control list. Else LEASEHOLD_USER, else the default user.
    #[arg(long, global = true)]
    pub(crate) user: Option<String>,
    /// A file with the password, read again for each login. Else LEASEHOLD_PASSWORD has the password itself.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// The authorities to trust, PEM, in place of the system's.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The certificate to show to the server, PEM.
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, PEM.
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not the host of the URL.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// How long one call may take before its reply counts as lost.
    #[arg(long, global = true, value_parser = span, default_value = "1s", value_name = "TIME")]
    pub(crate) command_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command while a lock is held.
    ///
    /// Takes the lock, runs the command in a process group of its own, and releases the lock.
    ///
    /// Standard input, signals and the terminal are passed on. If the lock is lost the command gets SIGTERM, and SIGKILL
    /// before the lease can end. The command finds LEASEHOLD_NAME, LEASEHOLD_OWNER and with --fenced LEASEHOLD_TOKEN in
    /// its environment; a `leasehold run` of the same name in it runs under the lock that is held already.
    Run(RunArguments),
    /// List the locks that are held.
    Ls(ListArguments),
    /// Show one lock: who holds it, how often, for how long.
    Show(ShowArguments),
    /// Free a lock by force.
    ///
    /// Frees a lock by force, whoever holds it.
    ///
    /// Its holder learns of it at its next renewal, within a third of its lease, and goes on until then: stop it first if
    /// two at once would do harm. Asks on a terminal; elsewhere --yes is needed. Exit code 1: the lock was free.
    Break(BreakArguments),
    /// Watch locks change: a live table on a terminal, else a line for each change.
    ///
    /// Looks at the server again and again, as `ls` does: each look searches all keys of the database.
    Watch(WatchArguments),
    /// Ask the server whether locks on it are safe, and what can break them.
    ///
    /// Nothing is written. Exit code 1: locks on this server do not work, or are lost in normal operation.
    Preflight(PreflightArguments),
    /// Measure acquisitions and releases on this server, on locks of its own.
    ///
    /// One client with its connections, on one thread: first one lock after the other, then many side by side, then many
    /// that want one lock. The locks have names that nobody else has, and are released.
    Bench(BenchArguments),
    /// Print completions for a shell.
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or write the pages of all commands into a folder.
    Man {
        /// Where to.
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The lock.
    pub(crate) name: String,
    /// Give up after this time; 0 asks once. Without it there is no end.
    #[arg(long, short, value_parser = span, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
    /// How long the lock outlives a runner that died; renewed every third of it. From 100ms.
    #[arg(long, value_parser = span, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// Which lock.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// At most this many at once: a semaphore. The first run of a name sets the number.
    #[arg(long, value_name = "N", conflicts_with_all = ["kind", "fenced"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// With a fencing token in LEASEHOLD_TOKEN: the same as --kind fenced.
    #[arg(long, conflicts_with = "kind")]
    pub(crate) fenced: bool,
    /// Keep the lock for this time since it was acquired, if the command was faster: for cron on several machines.
    ///
    /// Redis keeps it: the runner may end, or die. With --permits and --kind read the runner stays instead.
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub(crate) at_least: Option<Duration>,
    /// What others see as the holder: `billing@pod-7`. Default: user and host.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// What others see as the purpose. Default: the name of the command.
    #[arg(long, value_name = "TEXT")]
    pub(crate) purpose: Option<String>,
    /// The time between SIGTERM and SIGKILL. Default: a sixth of the lease, 10s at most.
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub(crate) grace: Option<Duration>,
    /// The exit code if the lock is not acquired in time, in place of 120.
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// A kind of lock. All who use one name must use the same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One holder. Redisson: getLock.
    #[default]
    Lock,
    /// First come, first served over all machines. Redisson: getFairLock.
    Fair,
    /// With a growing number for the resource to check. Redisson: getFencedLock.
    Fenced,
    /// Its waiters ask again instead of listening. Redisson: getSpinLock.
    Spin,
    /// SET NX PX, as in Laravel, redsync, redis-py and others.
    String,
    /// The read side of a read/write lock. Redisson: getReadWriteLock.
    Read,
    /// The write side of a read/write lock.
    Write,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Which names: `*` is any text, `?` any letter, `[ab]` one of the letters.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The lock.
    pub(crate) name: String,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BreakArguments {
    /// The lock.
    pub(crate) name: String,
    /// Why. It is written to standard error, for the log of whoever runs this.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Needed for a string that this library did not write, as Laravel's: it is deleted, and may be any data.
    #[arg(long)]
    pub(crate) string: bool,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// Which names: `*` is any text, `?` any letter, `[ab]` one of the letters.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The time between two looks. From 100ms.
    #[arg(long, value_parser = span, default_value = "1s", value_name = "TIME")]
    pub(crate) interval: Duration,
    /// End after so many looks.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Lines, on a terminal too.
    #[arg(long)]
    pub(crate) lines: bool,
    /// A JSON object for each change.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PreflightArguments {
    /// A lock for which the user's rights are asked.
    #[arg(long, value_name = "NAME", default_value = "preflight")]
    pub(crate) name: String,
    /// The lease of the locks: a failover is compared with it.
    #[arg(long, value_parser = span, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// The time of each of the three parts.
    #[arg(long, value_parser = span, default_value = "2s", value_name = "TIME")]
    pub(crate) time: Duration,
    /// How many are side by side.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    /// Which lock.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A text that says something.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        Err("it is empty".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// "1m 30s", "250ms", or a number of seconds.
fn span(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}
