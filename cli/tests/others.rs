//! Locks that the real Redisson and redis-py hold. `tests/run` builds and installs both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use leasehold_testbed::{command, wait_until};

use serde_json::{Value, json};

use crate::testbed::{LATE, Testbed, await_line, exit_code, stderr, stdout};

/// A JVM with a client of Redisson, asked one line after the other (`tests/redisson`).
struct Redisson {
    process: Child,
    input: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Redisson {
    fn start(bed: &Testbed) -> Redisson {
        let target = project().join("tests/redisson/target");
        let (classes, deps) = (target.join("classes"), target.join("deps"));
        assert!(
            deps.is_dir(),
            "run tests/run once: it builds the Redisson driver"
        );
        let path = format!("{}:{}/*", classes.display(), deps.display());
        let mut process = command("java")
            .args([
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                &path,
            ])
            .arg("leasehold.Driver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java is installed");
        let input = process.stdin.take().expect("piped");
        let replies = BufReader::new(process.stdout.take().expect("piped"));
        let mut java = Redisson {
            process,
            input,
            replies,
        };
        java.ask(&format!("connect {} 0", bed.server.url()));
        java
    }

    /// The reply, without its number.
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "1 {command}").expect("the JVM lives");
        loop {
            let mut line = String::new();
            assert!(
                self.replies.read_line(&mut line).expect("text") > 0,
                "the JVM ended"
            );
            if let Some(reply) = line.trim_end().strip_prefix("1 ") {
                return reply.to_owned();
            }
        }
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn show(bed: &Testbed, name: &str) -> Value {
    let output = bed.output(&["show", name, "--json"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn locks_of_redisson_are_listed_waited_for_and_broken() {
    let Some(bed) = Testbed::start() else { return };
    let mut java = Redisson::start(&bed);
    let kinds = ["lock", "fair", "fenced", "read", "write"];
    for kind in kinds {
        java.ask(&format!("lock t1 {kind}:java:{kind}"));
    }
    java.ask("lock t1 lock:java:lock");
    let seen = kinds.map(|kind| {
        let shown = show(&bed, &format!("java:{kind}"));
        assert_eq!(
            (&shown["held"], shown["holders"].as_array().map(Vec::len)),
            (&json!(true), Some(1))
        );
        (shown["kind"].clone(), shown["holders"][0]["holds"].clone())
    });
    // Without waiters a fair lock of Redisson looks like a plain one.
    let wanted = [
        ("lock", 2),
        ("lock", 1),
        ("fenced", 1),
        ("read", 1),
        ("write", 1),
    ];
    assert_eq!(
        seen,
        wanted.map(|(kind, holds)| (json!(kind), json!(holds)))
    );
    let list = stdout(&bed.output(&["ls", "java:*"]));
    assert_eq!(list.lines().count(), 1 + kinds.len(), "{list}");

    let busy = bed.output(&["run", "java:lock", "--wait", "0", "--", "true"]);
    assert_eq!(exit_code(&busy), 120, "{}", stderr(&busy));
    for kind in kinds {
        let output = bed.output(&[
            "break",
            &format!("java:{kind}"),
            "--yes",
            "--reason",
            "a test",
        ]);
        assert_eq!(exit_code(&output), 0, "{kind}: {}", stderr(&output));
        let answer = java.ask(&format!("islocked {kind}:java:{kind}"));
        assert!(answer.ends_with("false"), "{kind}: {answer}");
    }

    let file = bed.file("owner");
    let runner = bed.run(
        &["java:lock"],
        &format!("echo $LEASEHOLD_OWNER >{}; read x", file.display()),
    );
    await_line(&file);
    let answer = java.ask("trylock t2 lock:java:lock 0 1000");
    assert!(answer.ends_with("false"), "a run keeps Java out: {answer}");
    drop(runner.end());
    let answer = java.ask("trylock t2 lock:java:lock 0 1000");
    assert!(answer.ends_with("true"), "and lets it in: {answer}");
}

#[test]
fn locks_of_redis_py_are_shown_waited_for_and_broken() {
    let Some(bed) = Testbed::start() else { return };
    let python = project().join("target/peers/bin/python");
    assert!(
        python.exists(),
        "run `tests/run peers` once: it installs redis-py"
    );
    let script = format!(
        "import redis, sys; lock = redis.Redis(port={}).lock('py', timeout=60); assert \
         lock.acquire(blocking=False); print(lock.local.token.decode(), flush=True); \
         sys.stdin.read()",
        bed.server.port()
    );
    let mut peer = command(python);
    let mut peer = peer
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    wait_until("it holds the lock", LATE, || bed.is_held("py"));
    let mut token = String::new();
    BufReader::new(peer.stdout.take().expect("piped"))
        .read_line(&mut token)
        .expect("text");

    let shown = show(&bed, "py");
    assert_eq!(
        (&shown["kind"], &shown["holders"][0]["owner"]),
        (&json!("string"), &json!(token.trim()))
    );
    let busy = bed.output(&["run", "py", "--kind", "string", "--wait", "0", "--", "true"]);
    assert_eq!(exit_code(&busy), 120, "{}", stderr(&busy));
    let broken = bed.output(&["break", "py", "--string", "--yes", "--reason", "a test"]);
    assert_eq!(exit_code(&broken), 0, "{}", stderr(&broken));
    let free = bed.output(&["run", "py", "--kind", "string", "--wait", "0", "--", "true"]);
    assert_eq!(exit_code(&free), 0, "{}", stderr(&free));
    drop(peer.stdin.take());
    assert!(peer.wait().is_ok_and(|status| status.success()));
}
