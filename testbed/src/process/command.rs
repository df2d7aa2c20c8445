//! Programs that tests start. They see the same world however the tests were started: in the
//! background of a script, under `nohup`, with an empty environment, with other limits.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};

/// The variables that a program inherits: where it finds programs and libraries, and where it may
/// write.
const INHERITED: [&str; 5] = ["PATH", "HOME", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH"];

/// A program with default signal dispositions, an empty signal mask, an environment and a working
/// directory of its own, and no input. The caller spawns it on the thread that calls this.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    static NEUTRAL: LazyLock<()> = LazyLock::new(make_neutral);
    LazyLock::force(&NEUTRAL);
    // A child inherits the mask of the thread that starts it.
    SigSet::empty().thread_set_mask().expect("a signal mask");
    let mut command = Command::new(program);
    command.env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null());
    command
}

/// This test program, to run one of its ignored tests in a process of its own, with the settings of
/// the tests.
pub fn this_program(test: &str) -> Command {
    let mut command = command(std::env::current_exe().expect("the path of this program"));
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    let settings = std::env::vars_os();
    command.envs(settings.filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_")));
    command
}

/// Gives this process what its children are to inherit.
fn make_neutral() {
    // A signal that is ignored here would be ignored in every child. A signal with a handler has
    // its default disposition in a child, and a handler that does nothing ignores it here.
    for signal in ignored() {
        let nothing = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, nothing).expect("a handler");
    }
    umask(Mode::from_bits_truncate(0o022));
    for resource in [Resource::RLIMIT_NOFILE, Resource::RLIMIT_FSIZE] {
        let (_, most) = getrlimit(resource).expect("a limit");
        // Fails where the kernel allows less than the limit says. Then the limit stays as it is.
        let _ = setrlimit(resource, most, most);
    }
}

/// The signals that this process ignores, where Linux says so. Rust ignores SIGPIPE, and restores
/// it in children.
fn ignored() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let bits = bits.unwrap_or(0);
    let all = 1..=31;
    all.filter(|signal| bits & (1 << (signal - 1)) != 0)
        .filter(|signal| *signal != nix::libc::SIGPIPE)
        .filter(|signal| !signal_hook::consts::FORBIDDEN.contains(signal))
        .collect()
}
