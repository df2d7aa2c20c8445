//! The command line arguments. Help, completions and manual pages are generated from this file.
#![expect(
    clippy::doc_markdown,
    reason = "these comments are the texts of the help"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::help;
use crate::name::{Name, TextName, any_name, text_name};

/// Distributed locks on Redis and Valkey: run a command under a lock, look at locks, free them.
///
/// Works with the locks of the library leasehold and of Java's Redisson, and with the string locks
/// of Laravel, redsync, redis-py and others. The server is given by --url, or else by
/// LEASEHOLD_URL, or else by REDIS_URL.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    max_term_width = 100,
    after_long_help = help::text("leasehold")
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArguments {
    /// The server: redis://host:6379, rediss://…, redis+unix://…, redis-sentinel://…,
    /// redis-cluster://…
    ///
    /// Default: LEASEHOLD_URL, then REDIS_URL. `ps` shows a password in this argument to other
    /// users: set a variable or use --password-file instead.
    #[arg(long, global = true)]
    pub(crate) url: Option<String>,
    /// The user name on the server. Default: LEASEHOLD_USER, then the server's default user.
    #[arg(long, global = true)]
    pub(crate) user: Option<String>,
    /// A file with the password, read again for each login. Default: the password in
    /// LEASEHOLD_PASSWORD.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities to trust, instead of the system's.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// A PEM file with the client certificate.
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of the client certificate.
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have. Default: the host of the URL.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// Where to connect to, in place of an address that the servers announce: HOST:PORT=HOST:PORT.
    /// May be repeated, or several with commas between them. Default: LEASEHOLD_ADDRESS_MAP.
    ///
    /// For redis-cluster:// and redis-sentinel://, through tunnels or NAT.
    #[arg(long, global = true, value_name = "FROM=TO", value_delimiter = ',')]
    pub(crate) address_map: Vec<String>,
    /// How long to try again while the server cannot be reached. Default: for `run` the time of
    /// --wait, otherwise one attempt.
    #[arg(long, global = true, value_parser = span, value_name = "TIME")]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long to wait for the reply to a call.
    #[arg(long, global = true, value_parser = span, default_value = "1s", value_name = "TIME")]
    pub(crate) command_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command while a lock is held.
    ///
    /// Takes the lock, runs the command in a new process group, and releases the lock.
    ///
    /// Passes standard input, signals and the terminal on to the command. If the lock is lost, the
    /// command gets SIGTERM, and then SIGKILL before the lease can end. The environment of the
    /// command contains LEASEHOLD_NAME, LEASEHOLD_OWNER and, with --fenced, LEASEHOLD_TOKEN. A
    /// nested `leasehold run` with the same name uses the lock that is already held.
    #[command(after_long_help = help::text("run"))]
    Run(RunArguments),
    /// List the locks that are held.
    Ls(ListArguments),
    /// Show one lock: who holds it, how often, for how long.
    Show(ShowArguments),
    /// Free a lock by force.
    ///
    /// Frees a lock by force, whoever holds it, or only if --owner holds it.
    ///
    /// A holder with this library gets a message, and reports within milliseconds that you freed
    /// the lock, and why. One in Java notices the loss at its next renewal, within a third of its
    /// lease. It continues to work until then. Stop the holder first if two at once would do harm.
    /// On a terminal, asks for confirmation; elsewhere --yes is required. Exit code 1: the lock was
    /// free.
    Break(BreakArguments),
    /// Set how many permits a semaphore has.
    ///
    /// Sets the total, held permits included, and creates the semaphore if there is none. If more
    /// are held than the new total, nobody gets a permit until enough are given back. Redisson does
    /// not store who holds the permits of a semaphore, so permits that Java holds do not count. The
    /// total is kept as a limit, so `ls` and `show` know the semaphore while it is idle. `run
    /// --permits` and programs that declare a limit apply their own number again.
    Permits(PermitsArguments),
    /// Watch locks change: a live table on a terminal, otherwise a line for each change.
    ///
    /// Polls the server. Each poll searches all keys of the database, like `ls`.
    Watch(WatchArguments),
    /// Check whether locks on this server are safe, and what can break them.
    ///
    /// Writes nothing to the server. Exit code 1: locks on this server do not work, or are lost in
    /// normal operation.
    Preflight(PreflightArguments),
    /// Measure how fast locks are acquired and released on this server.
    ///
    /// Uses one client on one thread: first one task, then many tasks with a lock each, then many
    /// tasks that contend for one lock. The locks have unique names, and are released at the end.
    Bench(BenchArguments),
    /// Print completions for a shell.
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or write the pages of all commands to a folder.
    Man {
        /// The folder to write to.
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The name of the lock. A backslash is written `\\`, because `ls` prints escapes.
    #[arg(value_parser = text_name())]
    pub(crate) name: TextName,
    /// Give up after this time; 0 tries once. Default: wait without limit.
    ///
    /// The time includes connecting. Without --wait, a server that cannot be reached at the start
    /// is an error.
    #[arg(long, short, value_parser = span, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
    /// How long the lock stays locked if `leasehold` dies. Renewed after every third of it. At
    /// least 100ms.
    #[arg(long, value_parser = span, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// The kind of lock.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// Allow this many runs at once, with a semaphore. Each run applies its number, and says so if
    /// it replaces another one; runs with different numbers enter by their own.
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["kind", "fenced"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) permits: Option<u32>,
    /// Set LEASEHOLD_TOKEN to a fencing token. The same as --kind fenced.
    #[arg(long, conflicts_with = "kind")]
    pub(crate) fenced: bool,
    /// Keep the lock for at least this time after the acquisition, for cron on several machines.
    ///
    /// The lock stays locked in Redis after `leasehold` has ended. With --permits or --kind read,
    /// `leasehold` waits instead.
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub(crate) at_least: Option<Duration>,
    /// The holder's name that others see, such as `billing@pod-7`. Default: user and host.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// The purpose that others see. Default: the name of the command.
    #[arg(long, value_name = "TEXT")]
    pub(crate) purpose: Option<String>,
    /// The time between SIGTERM and SIGKILL. Default: a sixth of the lease, but at most 10s.
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub(crate) grace: Option<Duration>,
    /// The exit code if the lock is not acquired in time, instead of 120.
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Do not pass LEASEHOLD_URL, LEASEHOLD_USER and LEASEHOLD_PASSWORD on to the command, nor
    /// REDIS_URL if it is the server's URL and has a password.
    ///
    /// A nested `leasehold run` then needs its own.
    #[arg(long)]
    pub(crate) no_credentials: bool,
    /// Say what the run waits for, and when that changes. Without it, a run that waits for two
    /// seconds says so once.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// A kind of lock. All users of a name must use the same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One holder. Redisson: getLock.
    #[default]
    Lock,
    /// First come, first served, across all machines. Redisson: getFairLock.
    Fair,
    /// Each holder gets a higher number, which the protected resource can check. Redisson:
    /// getFencedLock.
    Fenced,
    /// Waiters poll instead of subscribing. Redisson: getSpinLock.
    Spin,
    /// A string set by SET NX PX, as in Laravel, redsync, redis-py and others.
    String,
    /// The read side of a read/write lock. Redisson: getReadWriteLock.
    Read,
    /// The write side of a read/write lock.
    Write,
}

/// A kind of lock or synchronizer, or another use of the server, that has rights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Checked {
    /// Plain, non-reentrant, spin and multi locks.
    #[value(alias = "spin")]
    Lock,
    /// Fair locks.
    Fair,
    /// Fenced locks.
    Fenced,
    /// Read/write locks.
    #[value(aliases = ["read", "write"])]
    ReadWrite,
    /// String locks.
    String,
    /// Semaphores, as with `run --permits`.
    Semaphore,
    /// Permit-expirable semaphores of the library.
    Permits,
    /// Count-down latches of the library.
    Latch,
    /// `ls`, `show`, `watch` and `break`.
    List,
    /// The names and purposes of holders, as `run` writes them.
    Holders,
}

/// The pattern of all names.
pub(crate) const EVERY: &str = "*";

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The names to show: `*` is any text, `?` any byte, `[ab]` one of these characters.
    #[arg(default_value = EVERY)]
    pub(crate) pattern: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The name of the lock, with the escapes that `ls` prints: \xff for a byte that is not UTF-8,
    /// \u{202e} for a character, `\\` for a backslash.
    #[arg(value_parser = any_name())]
    pub(crate) name: Name,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BreakArguments {
    /// The name of the lock, with the escapes that `ls` prints: \xff for a byte that is not UTF-8,
    /// \u{202e} for a character, `\\` for a backslash.
    #[arg(value_parser = any_name())]
    pub(crate) name: Name,
    /// The reason, in up to 256 bytes. The holder reads it with your name, and it is written to
    /// standard error, for your logs.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
    /// Free only what this owner holds, as `show` prints it. Also for one reader of many, or one
    /// holder of permits.
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Allow to delete a string that leasehold did not write. It may be a lock, such as Laravel's,
    /// or any other data.
    #[arg(long)]
    pub(crate) string: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PermitsArguments {
    /// The name of the semaphore. A backslash is written `\\`, because `ls` prints escapes.
    #[arg(value_parser = text_name())]
    pub(crate) name: TextName,
    /// The total number of permits.
    #[arg(value_name = "N")]
    pub(crate) permits: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// The names to show: `*` is any text, `?` any byte, `[ab]` one of these characters.
    #[arg(default_value = EVERY)]
    pub(crate) pattern: String,
    /// The time between two polls. At least 100ms.
    #[arg(long, value_parser = span, default_value = "1s", value_name = "TIME")]
    pub(crate) interval: Duration,
    /// End after this many polls.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print lines, even on a terminal.
    #[arg(long)]
    pub(crate) lines: bool,
    /// Print a JSON object for each change.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PreflightArguments {
    /// The kinds in use, several with commas between them. The user needs the rights for these
    /// only. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) kind: Vec<Checked>,
    /// The name of a lock with which the user's permissions are checked.
    #[arg(long, value_name = "NAME", default_value = "preflight")]
    pub(crate) name: String,
    /// The lease of your locks, for comparison with the time of a failover.
    #[arg(long, value_parser = span, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// How long each of the three parts takes.
    #[arg(long, value_parser = span, default_value = "2s", value_name = "TIME")]
    pub(crate) time: Duration,
    /// The number of concurrent tasks.
    #[arg(
        long,
        default_value_t = 16,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub(crate) workers: u32,
    /// The kind of lock.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a reason, which must not be blank. The holder's log gets it.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.len() {
        0 => Err("it is empty".to_owned()),
        1..=256 if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        1..=256 => Err("it has a control character, such as a line break".to_owned()),
        bytes => Err(format!("it has {bytes} bytes; 256 are allowed")),
    }
}

/// Parses `1m 30s`, `250ms`, or a number of seconds.
fn span(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}
