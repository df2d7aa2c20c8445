//! The same commands on a cluster, by sentinels, and over TLS.

use std::process::{Output, Stdio};

use leasehold_testbed::{Certificate, Cluster, Sentinels, Server, Shape, is_missing};

use crate::testbed::{PROGRAM, bare, exit_code, stderr, stdout};

fn output(url: &str, words: &[&str]) -> Output {
    let mut command = bare(words);
    command
        .env("LEASEHOLD_URL", url)
        .stdin(Stdio::null())
        .output()
        .expect("started")
}

/// A run inside a run for each name: the innermost command sees all of these locks. Afterwards
/// there are none.
fn holds_and_lists(url: &str, options: &[&str], names: &[String]) {
    let mut words = [&["ls"], options].concat();
    for name in names {
        words = [
            &["run", name],
            options,
            &["--as", "me@here", "--", PROGRAM],
            &words,
        ]
        .concat();
    }
    let done = output(url, &words);
    assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    let list = stdout(&done);
    assert!(
        names.iter().all(|name| list.contains(name.as_str())),
        "{list}"
    );
    assert_eq!(stdout(&output(url, &[&["ls"], options].concat())), "");

    for name in names {
        let show = [&["show", name], options].concat();
        let run = [&["run", name], options, &["--", PROGRAM], &show].concat();
        let shown = stdout(&output(url, &run));
        assert!(shown.contains(&format!("{name} (lock) is held")), "{shown}");
        assert!(
            shown.contains("127.0.0.1"),
            "the host of the holder: {shown}"
        );
    }
}

#[test]
fn locks_on_each_shard_of_a_cluster() {
    if is_missing() {
        return;
    }
    let cluster = Cluster::start();
    let names: Vec<_> = (0..3).map(|shard| cluster.name_in(shard, "job")).collect();
    holds_and_lists(&cluster.url(), &[], &names);
}

#[test]
fn locks_on_a_node_that_announces_an_address_which_nobody_can_use() {
    if is_missing() {
        return;
    }
    let cluster = Cluster::start_with(Shape {
        masters: 1,
        replicas: 0,
        ..Shape::default()
    });
    let words = ["CONFIG", "SET", "cluster-announce-port", "1"];
    assert_eq!(cluster.node(0).command(&words).text(), "OK");
    let (url, real) = (cluster.url(), cluster.node(0).address());
    let unreachable = output(&url, &["ls"]);
    assert_eq!(exit_code(&unreachable), 122, "{}", stderr(&unreachable));
    // Runs inside use the same map, so it is in the environment.
    let map = format!("10.0.0.1:1={real},127.0.0.1:1={real}");
    let ls = [PROGRAM, "ls"];
    let run = [&["run", "job", "--"], &ls[..]].concat();
    let mut command = bare(&run);
    command
        .env("LEASEHOLD_URL", &url)
        .env("LEASEHOLD_ADDRESS_MAP", &map);
    let done = command.stdin(Stdio::null()).output().expect("started");
    assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    assert!(stdout(&done).contains("job"), "{}", stdout(&done));

    let given = output(&url, &["ls", "--address-map", &map]);
    assert_eq!(exit_code(&given), 0, "{}", stderr(&given));
    for (bad, part) in [("127.0.0.1:1", "FROM=TO"), ("a=b:1", "host:port")] {
        let refused = output(&url, &["ls", "--address-map", bad]);
        assert_eq!(exit_code(&refused), 64, "{}", stderr(&refused));
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
    let single = output("redis://127.0.0.1:1", &["ls", "--address-map", &map]);
    assert_eq!(exit_code(&single), 64, "{}", stderr(&single));
}

#[test]
fn locks_on_the_primary_that_sentinels_name() {
    if is_missing() {
        return;
    }
    let sentinels = Sentinels::start();
    holds_and_lists(
        &sentinels.url(),
        &[],
        &["job".to_owned(), "other".to_owned()],
    );
}

#[test]
fn locks_on_a_server_with_a_certificate() {
    if is_missing() {
        return;
    }
    let certificate = Certificate::new("cli");
    let arguments = certificate.arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let server = Server::start_with(&arguments);
    let url = format!("rediss://127.0.0.1:{}", server.tls_port());
    let authority = certificate.folder.join("ca.pem");
    let authority = authority.to_string_lossy();
    holds_and_lists(&url, &["--tls-ca", &authority], &["job".to_owned()]);
    // Without it the server is nobody's.
    let refused = output(&url, &["ls"]);
    assert_ne!(exit_code(&refused), 0);
    assert!(
        stderr(&refused).contains("certificate"),
        "{}",
        stderr(&refused)
    );
}
