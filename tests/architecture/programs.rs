//! Programs that tests start see the same world however the tests were started.

use std::env;
use std::fs;
use std::path::PathBuf;

use leasehold_testbed::{command, this_program};

use crate::folder;
use crate::graph::each_file;

#[test]
fn only_the_testbed_starts_programs() {
    let suites = [
        "tests",
        "admin/tests",
        "cli/tests",
        "examples/services/tests",
        "benches/tests",
    ];
    let more = [
        "testbed/src",
        "services",
        "tools/faults/tests",
        "tools/fuzz/tests",
    ];
    let (mut found, mut files) = (Vec::new(), 0);
    // In two parts, so that this file does not contain it.
    let (start, end) = ("Command::", "new(");
    for suite in suites.iter().chain(&more) {
        each_file(&folder(suite), &mut |path, text| {
            files += 1;
            if text.contains(&format!("{start}{end}")) {
                found.push(path.to_owned());
            }
        });
    }
    assert!(files > 200, "only {files} files were found");
    assert_eq!(found, [folder("testbed/src/process/command.rs")]);
}

/// Starts the test below as a background job of a script under `nohup` starts it, with a strict
/// umask, a low limit, and settings of a user.
#[test]
#[cfg(target_os = "linux")]
fn programs_inherit_nothing() {
    let this = this_program("programs::starts_a_program");
    let arguments = this.get_args().map(|word| word.to_string_lossy());
    let script = format!(
        "trap '' HUP INT QUIT TERM USR1 TSTP; umask 077; ulimit -S -n 40; ulimit -S -f 1; exec \
         \"$0\" {}",
        arguments.collect::<Vec<_>>().join(" ")
    );
    let output = command("sh")
        .args(["-c", &script])
        .arg(this.get_program())
        .env("LANG", "de_DE.UTF-8")
        .env("TZ", "Asia/Kathmandu")
        .env("REDIS_URL", "redis://127.0.0.1:1")
        .output()
        .expect("a shell");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}", said.concat());
    assert!(said[0].contains("1 passed"), "{}", said.concat());
}

#[test]
#[ignore = "programs_inherit_nothing starts it"]
fn starts_a_program() {
    let own = fs::read_to_string("/proc/self/status").expect("Linux");
    let mask = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.expect("a line").trim(), 16).expect("bits")
    };
    assert_ne!(mask(&own, "SigIgn:") & 0b10, 0, "SIGINT is ignored here");
    let script = "cat; umask; ulimit -n; ulimit -f; pwd; env; cat /proc/self/status";
    let output = command("sh")
        .args(["-c", script])
        .output()
        .expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines();
    let mut next = || lines.next().expect("a line");
    assert_eq!(next(), "0022");
    assert!(
        next() != "40" && next() != "1",
        "limits of this process: {text}"
    );
    let place = env::temp_dir().canonicalize().expect("a folder");
    assert_eq!(PathBuf::from(next()), place);
    assert!(
        !text.contains("REDIS_URL") && !text.contains("LANG="),
        "{text}"
    );
    assert!(text.contains("\nTZ=UTC\n"), "{text}");
    // The C library has some of the further signals for itself.
    let standard = (1 << 31) - 1;
    assert_eq!(mask(&text, "SigIgn:") & standard, 0, "{text}");
    assert_eq!(mask(&text, "SigBlk:"), 0, "{text}");
}
