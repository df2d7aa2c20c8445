//! Ends the servers of a test program that has gone without ending them: killed, or by `exit`,
//! which drops nothing that is static.
//!
//! One `sh` for each program reads which servers run. When its input ends the program has gone: the
//! writing end is in no other process.

use std::io::Write as _;
use std::process::{ChildStdin, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::command::command;

/// It lives on when the terminal, or who runs the tests, ends all processes of the group: some
/// servers may stand still, and do not notice.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
servers=' '
while read -r change pid; do
  case $change in
    +) servers="$servers$pid " ;;
    -) servers="${servers%% $pid *} ${servers#* $pid }" ;;
  esac
done
for pid in $servers; do kill -9 "$pid"; done
rm -rf "$0"-*
"#;

#[expect(
    clippy::zombie_processes,
    reason = "it ends after this program, and is not waited for"
)]
static KEEPER: LazyLock<Mutex<ChildStdin>> = LazyLock::new(|| {
    let mut keeper = command("sh")
        .args(["-c", SCRIPT])
        .arg(folders())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    Mutex::new(keeper.stdin.take().expect("piped"))
});

/// What the folders of this program's servers begin with.
pub(super) fn folders() -> String {
    let folder = std::env::temp_dir().join(format!("leasehold-test-{}", std::process::id()));
    folder.to_string_lossy().into_owned()
}

/// From now on this process ends when the program does.
pub fn keep(pid: u32) {
    tell(&format!("+ {pid}\n"));
}

/// It is about to be waited for: its id may soon be another's.
pub fn forget(pid: u32) {
    tell(&format!("- {pid}\n"));
}

fn tell(change: &str) {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    keeper
        .write_all(change.as_bytes())
        .expect("the keeper reads");
}
