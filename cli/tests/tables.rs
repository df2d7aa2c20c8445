//! `ls`, `show`, `watch`, `break`, `bench`, on locks of this library and of others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Output, Stdio};

use leasehold_testbed::{Reply, is_missing, wait_until};

use serde_json::{Value, json};

use crate::testbed::{LATE, Runner, Testbed, await_line, bare, exit_code, stderr, stdout};

/// Threads of Java programs.
const JAVA: &str = "9f2d47a8-5b6c-4e21-8d11-0c3a5e7f9b10:1";
const OTHER: &str = "11111111-2222-4333-8444-555555555555:7";

/// Locks as Redisson and Laravel leave them in Redis, and keys that are no locks.
fn locks_of_others(bed: &Testbed) {
    let other = OTHER;
    for words in [
        &["HSET", "java:plain", JAVA, "2"][..],
        &["PEXPIRE", "java:plain", "600000"],
        &["HSET", "java:fair", JAVA, "1"],
        &["PEXPIRE", "java:fair", "600000"],
        &[
            "RPUSH",
            "redisson_lock_queue:{java:fair}",
            other,
            "11111111-2222-4333-8444-555555555555:8",
        ],
        &[
            "HSET",
            "java:write",
            "mode",
            "write",
            &format!("{JAVA}:write"),
            "1",
        ],
        &["PEXPIRE", "java:write", "600000"],
        &["HSET", "java:read", "mode", "read", JAVA, "1", other, "1"],
        &["PEXPIRE", "java:read", "600000"],
        &[
            "SET",
            &format!("{{java:read}}:{JAVA}:rwlock_timeout:1"),
            "1",
            "PX",
            "600000",
        ],
        &[
            "SET",
            &format!("{{java:read}}:{other}:rwlock_timeout:1"),
            "1",
            "PX",
            "500000",
        ],
        &[
            "SET",
            "laravel_cache_report",
            "Kq3vT8sLw0ZxYbN1",
            "PX",
            "600000",
        ],
        &["SET", "counter", "42"],
        &["HSET", "user:7", "name", "Ann"],
    ] {
        assert!(
            !matches!(bed.server.command(words), Reply::Error(_)),
            "{words:?}"
        );
    }
}

fn json(bed: &Testbed, arguments: &[&str]) -> Value {
    let output = bed.output(&[arguments, &["--json"]].concat());
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn ls_lists_the_locks_of_java_and_of_this_library() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    let file = bed.file("owner");
    let runner = bed.run(
        &["ours"],
        &format!("echo $LEASEHOLD_OWNER >{}; cat", file.display()),
    );
    let owner = await_line(&file);

    let list = json(&bed, &["ls"]);
    let seen: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|lock| {
            let holders = lock["holders"].as_array().expect("a list");
            let holds: u64 = holders
                .iter()
                .filter_map(|holder| holder["holds"].as_u64())
                .sum();
            (
                lock["name"].clone(),
                lock["kind"].clone(),
                holders.len(),
                holds,
                lock["waiters"].clone(),
            )
        })
        .collect();
    let wanted = [
        ("java:fair", "fair", 1, 1, json!(2)),
        ("java:plain", "lock", 1, 2, Value::Null),
        ("java:read", "read", 2, 2, Value::Null),
        ("java:write", "write", 1, 1, Value::Null),
        ("ours", "lock", 1, 1, Value::Null),
    ];
    let wanted = wanted.map(|(name, kind, holders, holds, waiters)| {
        (json!(name), json!(kind), holders, holds, waiters)
    });
    assert_eq!(seen, wanted);
    assert_eq!(list[4]["holders"][0]["owner"], json!(owner));
    let left = list[4]["lease_ms"].as_u64().expect("it has one");
    assert!((10_000..=30_000).contains(&left), "{left}");

    let table = stdout(&bed.output(&["ls", "java:*"]));
    let first: Vec<_> = table
        .lines()
        .map(|line| line.split_whitespace().next())
        .collect();
    let names = ["NAME", "java:fair", "java:plain", "java:read", "java:write"];
    assert_eq!(first, names.map(Some));
    assert!(!table.contains('\u{1b}'), "no colours: this is no terminal");
    assert_eq!(runner.end().0, 0);

    let none = bed.output(&["ls", "nothing:*"]);
    assert_eq!((exit_code(&none), &*stdout(&none)), (0, ""));
    assert_eq!(json(&bed, &["ls", "nothing:*"]), json!([]));
}

#[test]
fn claims_of_a_job_are_listed_as_what_they_are_when_asked_for() {
    let Some(bed) = Testbed::start() else { return };
    // Ticks of `leasehold-once`, whose own tests say how it names them, and locks with names that
    // are not quite those.
    let ticks = ["job@1764460800000:claimed", "job@1764460801000:claimed"];
    let others = ["job:claimed", "job@1764460800000", "job@noon:claimed"];
    for name in ticks.iter().chain(&others) {
        bed.server.command(&["HSET", name, OTHER, "1"]);
        bed.server.command(&["PEXPIRE", name, "600000"]);
    }
    let names = |output: &Output, kind: &str| -> Vec<_> {
        let list: Vec<Value> = serde_json::from_str(&stdout(output)).expect("JSON");
        assert!(list.iter().all(|lock| lock["kind"] == kind), "{list:?}");
        let name = |lock: &Value| lock["name"].as_str().expect("a text").to_owned();
        list.iter().map(name).collect()
    };
    let all = bed.output(&["ls", "--json"]);
    assert_eq!(names(&all, "lock"), others);
    let told = stderr(&all);
    assert!(told.contains("2 claims of leasehold-once"), "{told}");
    let asked = bed.output(&["ls", "--json", "*00:claimed"]);
    assert_eq!(names(&asked, "claim"), ticks);
    let watched = stdout(&bed.output(&["watch", "--lines", "--count", "1"]));
    assert_eq!(watched.lines().count(), others.len(), "{watched}");
}

#[test]
fn show_describes_a_lock_of_any_kind() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    let shown = json(&bed, &["show", "java:read"]);
    assert_eq!(
        (&shown["held"], &shown["kind"]),
        (&json!(true), &json!("read"))
    );
    let leases: Vec<_> = shown["holders"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|holder| holder["lease_ms"].as_u64().expect("each reader has one") / 100_000)
        .collect();
    assert!(leases.contains(&4) && leases.contains(&5), "{leases:?}");

    let text = stdout(&bed.output(&["show", "java:fair"]));
    assert!(
        text.contains("java:fair (fair) is held, 2 waiting") && text.contains(JAVA),
        "{text}"
    );
    let text = stdout(&bed.output(&["show", "laravel_cache_report"]));
    assert!(
        text.contains("Kq3vT8sLw0ZxYbN1") && text.contains("another program"),
        "{text}"
    );
    assert_eq!(stdout(&bed.output(&["show", "free"])), "free is free\n");
    assert_eq!(
        json(&bed, &["show", "free"]),
        json!({ "held": false, "name": "free" })
    );
    let odd = bed.output(&["show", "user:7"]);
    assert_eq!(exit_code(&odd), 123, "{}", stderr(&odd));

    // A name is no pattern.
    bed.server.command(&["HSET", "a*", JAVA, "1"]);
    assert_eq!(json(&bed, &["show", "a*"])["name"], json!("a*"));
    assert_eq!(json(&bed, &["show", "java:*"])["held"], json!(false));
}

/// Locks whose names are no UTF-8 or do not show what they are, and the string lock of another
/// program.
fn locks_with_odd_names(bed: &Testbed) {
    let script = r"
        redis.call('hset', 'bad\255job', ARGV[1], 1)
        redis.call('hset', 'bad\254job', ARGV[1], 1)
        redis.call('hset', 'evil\226\128\174job', ARGV[1], 1)
        redis.call('hset', 'back\\slash', ARGV[1], 1)
        redis.call('set', 'token\255', 'Kq3vT8sLw0ZxYbN1')
        redis.call('hset', 'many\255', 'mode', 'read')
        for _, owner in ipairs(ARGV) do
          redis.call('hset', 'many\255', owner, 1)
          redis.call('set', '{many\255}:' .. owner .. ':rwlock_timeout:1', 1)
        end";
    let made = bed.server.command(&["EVAL", script, "0", JAVA, OTHER]);
    assert!(!matches!(made, Reply::Error(_)), "{made:?}");
}

#[test]
fn a_name_is_taken_as_it_is_printed() {
    let Some(bed) = Testbed::start() else { return };
    locks_with_odd_names(&bed);
    let list = json(&bed, &["ls"]);
    let list = list.as_array().expect("a list").iter();
    let names: Vec<_> = list.filter_map(|lock| lock["name"].as_str()).collect();
    let printed = [
        r"back\\slash",
        r"bad\xfejob",
        r"bad\xffjob",
        r"evil\u{202e}job",
        r"many\xff",
    ];
    assert_eq!(names, printed);
    let table = stdout(&bed.output(&["ls"]));
    for name in printed {
        assert!(table.contains(&format!("\n{name} ")), "{table}");
        let shown = stdout(&bed.output(&["show", name]));
        assert!(shown.starts_with(&format!("{name} (")), "{shown}");
        assert!(
            shown.contains(") is held") && shown.contains(JAVA),
            "{shown}"
        );
        assert_eq!(json(&bed, &["show", name])["name"], json!(name));
    }
    // As bytes too.
    let mut show = bed.leasehold(&["show"]);
    let output = show.arg(OsStr::from_bytes(b"bad\xffjob")).output();
    let shown = stdout(&output.expect("started"));
    assert!(shown.contains(r"bad\xffjob (lock) is held"), "{shown}");
    let free = stdout(&bed.output(&["show", r"bad\xfd"]));
    assert_eq!(free, "bad\\xfd is free\n");
    for no_escape in [r"back\slash", r"bad\xf"] {
        let output = bed.output(&["show", no_escape]);
        assert_eq!(exit_code(&output), 64, "{}", stderr(&output));
    }
}

#[test]
fn a_lock_whose_name_is_no_text_is_broken() {
    let Some(bed) = Testbed::start() else { return };
    locks_with_odd_names(&bed);
    let broken = |name: &str, options: &[&str]| {
        let words = [&["break", name, "--yes", "--reason", "x"], options].concat();
        let output = bed.output(&words);
        (exit_code(&output), stderr(&output))
    };
    let (code, told) = broken(r"bad\xffjob", &["--owner", OTHER]);
    assert!(code == 64 && told.contains(JAVA), "{code} {told}");
    for name in [r"bad\xffjob", r"evil\u{202e}job", r"back\\slash"] {
        let (code, told) = broken(name, &[]);
        assert_eq!(code, 0, "{told}");
        assert!(
            told.contains(&format!("broke `{name}`")) && told.contains(JAVA),
            "{told}"
        );
        assert_eq!(broken(name, &[]).0, 1, "{name} is free");
    }
    // One of two readers, then the other.
    for owner in [JAVA, OTHER] {
        let (code, told) = broken(r"many\xff", &["--owner", owner]);
        assert_eq!(code, 0, "{told}");
    }
    assert_eq!(broken(r"many\xff", &[]).0, 1);
    let shown = stdout(&bed.output(&["show", r"token\xff"]));
    assert!(shown.contains("another program"), "{shown}");
    assert_eq!(broken(r"token\xff", &[]).0, 64);
    assert_eq!(broken(r"token\xff", &["--string"]).0, 0);
    let left = json(&bed, &["ls"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_eq!(left[0]["name"], json!(r"bad\xfejob"));
}

#[test]
fn a_run_takes_only_names_that_are_text() {
    let Some(bed) = Testbed::start() else { return };
    let refused = bed.output(&["run", r"bad\xff", "--", "true"]);
    assert_eq!(exit_code(&refused), 64, "{}", stderr(&refused));
    // The command can pass the name on to `show`.
    let file = bed.file("ready");
    let script = format!(
        r#"printf "%s\n" "$LEASEHOLD_NAME" >{}; cat"#,
        file.display()
    );
    let runner = bed.run(&[r"back\\slash"], &script);
    assert_eq!(await_line(&file), r"back\\slash");
    assert!(bed.is_held(r"back\slash"));
    assert_eq!(runner.end().0, 0);
}

#[test]
fn a_run_says_who_it_is_and_what_for() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("owner");
    let script = format!("echo $LEASEHOLD_OWNER >{}; cat", file.display());
    let named = ["--as", "billing@pod-7", "--purpose", "nightly invoices"];
    let runner = bed.run(&[&["job"][..], &named].concat(), &script);
    let owner = await_line(&file);
    let holder = || json(&bed, &["show", "job"])["holders"][0].clone();
    wait_until("purpose shown", LATE, || {
        holder()["purpose"] == json!("nightly invoices")
    });
    assert_eq!(
        (&holder()["owner"], &holder()["name"]),
        (&json!(owner), &json!("billing@pod-7"))
    );
    assert!(holder()["held_for_ms"].is_u64());
    assert_eq!(
        json(&bed, &["show", "job"])["addresses"],
        json!([["127.0.0.1"]])
    );
    let text = stdout(&bed.output(&["show", "job"]));
    for part in [&*owner, "billing@pod-7", "nightly invoices", "127.0.0.1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let list = stdout(&bed.output(&["ls"]));
    assert!(list.contains("billing@pod-7 (nightly invoices)"), "{list}");

    // Who waits, and gets nothing, is told who is in the way.
    let refused = bed.output(&["run", "job", "--wait", "0", "--", "true"]);
    assert_eq!(exit_code(&refused), 120);
    assert!(
        stderr(&refused).contains("billing@pod-7 (nightly invoices)"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(runner.end().0, 0);

    // By itself it says the name of its command, and not its arguments.
    let runner = bed.run(&["other"], "exec cat");
    wait_until("purpose shown", LATE, || {
        let shown = json(&bed, &["show", "other"]);
        shown["held"] == json!(true) && shown["holders"][0]["purpose"] == json!("sh")
    });
    assert_eq!(runner.end().0, 0);
}

#[test]
fn a_run_refuses_names_and_purposes_that_cannot_be_stored() {
    let Some(bed) = Testbed::start() else { return };
    for option in ["--as", "--purpose"] {
        for bad in ["", "two\nlines"] {
            let output = bed.output(&["run", "job", option, bad, "--", "true"]);
            assert_eq!(
                exit_code(&output),
                64,
                "{option} {bad:?}: {}",
                stderr(&output)
            );
        }
    }
    assert!(!bed.is_held("job"));
}

#[test]
fn waiters_are_listed() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    // Waiters of Redisson whose places are kept.
    let deadlines = "redisson_lock_timeout:{java:fair}";
    for (score, number) in [("9000000000000", 7), ("9000000000001", 8)] {
        let owner = format!("11111111-2222-4333-8444-555555555555:{number}");
        bed.server.command(&["ZADD", deadlines, score, &owner]);
    }
    let queue = json(&bed, &["show", "java:fair"])["queue"].clone();
    let owner = |number| json!(format!("11111111-2222-4333-8444-555555555555:{number}"));
    assert_eq!(queue, json!([owner(7), owner(8)]));
    let text = stdout(&bed.output(&["show", "java:fair"]));
    let places = [7, 8].map(|number| text.find(&format!("555555555555:{number}")));
    assert!(places[0].is_some() && places[0] < places[1], "{text}");

    let runner = bed.run(&["java:plain", "--wait", "1m"], "exec cat");
    let listening = || json(&bed, &["show", "java:plain"])["listening"] == json!(1);
    wait_until("listening", LATE, listening);
    assert!(stdout(&bed.output(&["show", "java:plain"])).contains("1 client listens"));
    let list = stdout(&bed.output(&["ls", "java:plain"]));
    assert!(
        list.lines()
            .last()
            .is_some_and(|line| line.trim_end().ends_with("1+")),
        "{list}"
    );
    bed.server.command(&["DEL", "java:plain"]);
    bed.server
        .command(&["PUBLISH", "redisson_lock__channel:{java:plain}", "0"]);
    assert_eq!(runner.end().0, 0);
}

#[test]
fn break_frees_a_lock_of_whatever_kind() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    for name in ["java:plain", "java:fair", "java:read", "java:write"] {
        let output = bed.output(&["break", name, "--yes", "--reason", "pod 7 is gone"]);
        assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
        let told = stderr(&output);
        assert!(
            told.contains(name) && told.contains(JAVA) && told.contains("pod 7 is gone"),
            "{told}"
        );
        assert!(!bed.is_held(name), "{name}");
        let again = bed.output(&["break", name, "--yes", "--reason", "pod 7 is gone"]);
        assert_eq!(exit_code(&again), 1, "{}", stderr(&again));
    }
}

#[test]
fn break_frees_only_what_the_given_owner_holds() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    let other = "11111111-2222-4333-8444-555555555555:7";
    let broken = |name: &str, owner: &str| {
        let words = ["break", name, "--yes", "--reason", "x", "--owner", owner];
        bed.output(&words)
    };
    for (name, owner) in [("java:plain", other), ("java:read", "nobody")] {
        let output = broken(name, owner);
        assert_eq!(exit_code(&output), 64, "{}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains(JAVA) && told.contains(owner), "{told}");
        assert!(bed.is_held(name), "{name} is as it was");
    }
    // One of two readers.
    let output = broken("java:read", JAVA);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let left = json(&bed, &["show", "java:read"]);
    assert_eq!(left["holders"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["holders"][0]["owner"], json!(other));
    for (name, owner) in [
        ("java:read", other.to_owned()),
        ("java:plain", JAVA.to_owned()),
        ("java:write", format!("{JAVA}:write")),
    ] {
        let output = broken(name, &owner);
        assert_eq!(exit_code(&output), 0, "{name}: {}", stderr(&output));
        assert!(!bed.is_held(name), "{name}");
        assert_eq!(exit_code(&broken(name, &owner)), 1, "it is free");
    }
}

#[test]
fn break_deletes_no_data() {
    let Some(bed) = Testbed::start() else { return };
    locks_of_others(&bed);
    for (name, code) in [
        ("counter", 64),
        ("laravel_cache_report", 64),
        ("user:7", 123),
    ] {
        let output = bed.output(&["break", name, "--yes", "--reason", "x"]);
        assert_eq!(exit_code(&output), code, "{name}: {}", stderr(&output));
        assert!(bed.is_held(name), "{name} is as it was");
    }
    let output = bed.output(&[
        "break",
        "laravel_cache_report",
        "--string",
        "--yes",
        "--reason",
        "x",
    ]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert!(!bed.is_held("laravel_cache_report"));
}

#[test]
fn break_needs_a_reason_and_a_confirmation() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    for arguments in [
        &["break", "job", "--yes"][..],
        &["break", "job", "--yes", "--reason", " "],
        &["break", "job", "--reason", "no terminal to ask on"],
    ] {
        let output = bed.output(arguments);
        assert_eq!(exit_code(&output), 64, "{arguments:?}: {}", stderr(&output));
    }
    assert!(bed.is_held("job"));
}

#[test]
fn watch_writes_a_line_for_each_change() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("java:job");
    let lines = bed.file("lines");
    let output = std::fs::File::create(&lines).expect("a file");
    let mut watch = bed.leasehold(&["watch", "java:*", "--interval", "100ms"]);
    let mut watch = watch
        .stdout(output)
        .stdin(Stdio::null())
        .spawn()
        .expect("started");
    let has = |part: &str| crate::testbed::text(&lines).contains(part);
    wait_until("held", LATE, || {
        has(&format!("held    java:job (lock) by {JAVA}"))
    });
    bed.server.command(&["DEL", "java:job"]);
    wait_until("free", LATE, || has("free    java:job"));
    bed.server.command(&[
        "HSET",
        "java:job",
        "11111111-2222-4333-8444-555555555555:7",
        "1",
    ]);
    wait_until("held again", LATE, || has("555555555555:7, no expiry"));
    bed.hold_by_another("java:job");
    wait_until("it has two holders", LATE, || has("changed java:job"));
    watch.kill().expect("running");
    watch.wait().expect("it ends");
    assert_eq!(crate::testbed::text(&lines).lines().count(), 4);
}

#[test]
fn watch_writes_json_and_goes_on_after_an_outage() {
    let Some(mut bed) = Testbed::start() else {
        return;
    };
    bed.hold_by_another("job");
    let output = bed.output(&["watch", "--json", "--count", "2", "--interval", "100ms"]);
    let lines: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["change"], &lines[0]["lock"]["name"]),
        (&json!("held"), &json!("job"))
    );

    let mut watch = bed.leasehold(&["watch", "--interval", "100ms"]);
    let lines = bed.file("lines");
    let [out, errors] =
        ["lines", "errors"].map(|name| std::fs::File::create(bed.file(name)).expect("a file"));
    let mut watch = watch
        .stdout(out)
        .stderr(errors)
        .stdin(Stdio::null())
        .spawn()
        .expect("started");
    await_line(&lines);
    bed.server.kill();
    await_line(&bed.file("errors"));
    bed.server.restart();
    wait_until("reported free", LATE, || {
        crate::testbed::text(&lines).contains("free    job")
    });
    watch.kill().expect("running");
    watch.wait().expect("it ends");
}

#[test]
fn bench_measures_and_leaves_nothing() {
    let Some(bed) = Testbed::start() else { return };
    let parts = json(&bed, &["bench", "--time", "200ms", "--workers", "4"]);
    let parts = parts.as_array().expect("a list");
    assert_eq!(parts.len(), 3);
    for part in parts {
        let (p50, max) = (
            part["acquire_ms"]["p50"].as_f64(),
            part["acquire_ms"]["max"].as_f64(),
        );
        assert!(
            part["rounds"].as_u64() >= Some(1) && p50 > Some(0.0) && p50 <= max,
            "{part}"
        );
        assert!(part["per_second"].as_f64() > Some(0.0), "{part}");
    }
    assert_eq!(bed.server.command(&["DBSIZE"]).int(), 0);
    let table = stdout(&bed.output(&["bench", "--time", "50ms", "--kind", "fenced"]));
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn completions_and_manual_know_every_command() {
    let output = bare(&["completions", "bash"]).output().expect("started");
    let script = stdout(&output);
    let folder = std::env::temp_dir().join(format!("leasehold-manual-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let manual = bare(&["man", "--dir", &folder.to_string_lossy()])
        .output()
        .expect("started");
    assert_eq!(exit_code(&manual), 0, "{}", stderr(&manual));
    let page = stdout(&bare(&["man"]).output().expect("started"));
    for task in [
        "run",
        "ls",
        "show",
        "break",
        "permits",
        "watch",
        "preflight",
        "bench",
        "completions",
        "man",
    ] {
        assert!(
            script.contains(&format!("leasehold__subcmd__{task}")),
            "{task} is not in the completions"
        );
        assert!(
            page.contains(&format!("leasehold\\-{task}")),
            "{task} is not in the manual: {page}"
        );
        assert!(
            folder.join(format!("leasehold-{task}.1")).exists(),
            "{task} has no page"
        );
    }
    assert!(page.contains("\\-\\-password\\-file"), "{page}");
    std::fs::remove_dir_all(&folder).expect("re-entered");
}

#[test]
fn a_password_comes_from_the_environment_or_a_file() {
    if is_missing() {
        return;
    }
    let bed = Testbed {
        server: leasehold_testbed::Server::start_with(&["--requirepass", "s e#cret"]),
    };
    let url = format!("redis://127.0.0.1:{}", bed.server.port());
    let file = bed.file("password");
    std::fs::write(&file, "s e#cret\n").expect("a file");
    let run = |name: &str, value: &str, arguments: &[&str]| {
        let arguments = [&["ls", "--url", &url], arguments].concat();
        let output = bare(&arguments).env(name, value).output().expect("started");
        (exit_code(&output), stderr(&output))
    };
    assert_eq!(run("LEASEHOLD_PASSWORD", "s e#cret", &[]).0, 0);
    assert_eq!(
        run(
            "LEASEHOLD_USER",
            "default",
            &["--password-file", &file.to_string_lossy()]
        )
        .0,
        0
    );
    let (code, told) = run("LEASEHOLD_PASSWORD", "wrong", &[]);
    assert!(
        code == 123 && told.contains("WRONGPASS") && !told.contains("wrong\""),
        "{code} {told}"
    );
    // The command line wins over both variables, LEASEHOLD_URL over REDIS_URL.
    let mut both = bare(&["ls"]);
    both.env("REDIS_URL", "redis://127.0.0.1:1")
        .env("LEASEHOLD_URL", &url);
    let output = both
        .env("LEASEHOLD_PASSWORD", "s e#cret")
        .output()
        .expect("started");
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
}

#[test]
fn ps_shows_no_password() {
    if is_missing() || !cfg!(target_os = "linux") {
        return;
    }
    let bed = Testbed {
        server: leasehold_testbed::Server::start_with(&["--requirepass", "s3cret"]),
    };
    let url = format!("redis://127.0.0.1:{}", bed.server.port());
    let file = bed.file("ready");
    let script = format!("echo $PPID >{}; read x", file.display());
    let mut run = bare(&["run", "job", "--url", &url, "--", "sh", "-c", &script]);
    let runner = Runner::start(run.env("LEASEHOLD_PASSWORD", "s3cret"));
    await_line(&file);
    for process in std::fs::read_dir("/proc").expect("Linux") {
        let line =
            std::fs::read(process.expect("an entry").path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        assert!(
            !line.contains("s3cret") || line.contains("requirepass"),
            "{line}"
        );
    }
    assert_eq!(runner.end().0, 1, "read met the end of the input");
}
