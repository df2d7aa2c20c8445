//! What one program starts for many tests, the proxies in front of it, and that nothing outlives
//! the program.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use leasehold_testbed::{Borrowed, Connection, Reply, Routes, this_program, wait_until};

const DEPLOYMENTS: [&str; 2] = ["cluster", "sentinel"];

/// This binary, run as another process with one ignored test on a deployment.
fn child(test: &str, deployment: &str) -> Child {
    let mut child = this_program(test);
    child
        .env("LEASEHOLD_DEPLOYMENT", deployment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    child.spawn().expect("our own binary runs")
}

#[test]
fn no_server_outlives_a_killed_test_program() {
    for deployment in DEPLOYMENTS {
        let mut program = child("pool::starts_and_stays", deployment);
        let lines = BufReader::new(program.stdout.take().expect("piped")).lines();
        let url = lines
            .map(|line| line.expect("text"))
            .find(|line| line.contains("redis-"));
        let url = url.expect("started");
        let hosts = url
            .split_once("://")
            .expect("a URL")
            .1
            .split('/')
            .next()
            .expect("hosts");
        let addresses: Vec<SocketAddr> = hosts
            .split(',')
            .map(|host| host.parse().expect("an address"))
            .collect();
        for address in &addresses {
            Connection::open(*address).expect("it runs, although it stands still");
        }
        program.kill().expect("running");
        program.wait().expect("it was started");
        let begin = format!("leasehold-test-{}-", program.id());
        wait_until(
            "all have ended, and their folders",
            Duration::from_secs(20),
            || {
                let folders = std::fs::read_dir(std::env::temp_dir()).expect("a folder");
                addresses
                    .iter()
                    .all(|address| Connection::open(*address).is_err())
                    && !folders
                        .flatten()
                        .any(|one| one.file_name().to_string_lossy().starts_with(&begin))
            },
        );
    }
}

#[test]
#[ignore = "another test runs it"]
fn starts_and_stays() {
    let deployment = Borrowed::take();
    deployment.pause();
    writeln!(std::io::stdout(), "\n{}", deployment.url()).expect("somebody reads");
    std::io::stdin()
        .read_line(&mut String::new())
        .expect("nothing comes");
}

#[test]
fn the_next_test_gets_an_emptied_deployment() {
    for deployment in DEPLOYMENTS {
        let program = child("pool::goes_from_test_to_test", deployment);
        let output = program.wait_with_output().expect("running");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
#[ignore = "another test runs it"]
fn goes_from_test_to_test() {
    let first = Borrowed::take();
    let url = first.url();
    assert_eq!(
        first.command(&["SET", "n", "1"]),
        Reply::Status("OK".into())
    );
    let mut stays = Routes::to(&url);
    stays.command(&["GET", "n"]);
    let second = Borrowed::take();
    assert_ne!(second.url(), url, "that is in use");
    drop(first);
    stays.rest();
    let mut third = Borrowed::take();
    assert_eq!(third.url(), url);
    assert_eq!(third.command(&["DBSIZE"]), Reply::Int(0));
    assert!(
        !third
            .command(&["INFO", "commandstats"])
            .text()
            .contains("cmdstat_get:")
    );
    third.kill();
    drop(third);
    assert_ne!(Borrowed::take().url(), url, "that is dead");
}

#[test]
fn lines_can_be_made_to_fail() {
    for deployment in DEPLOYMENTS {
        let program = child("pool::line_that_fails", deployment);
        let output = program.wait_with_output().expect("running");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
#[ignore = "another test runs it"]
fn line_that_fails() {
    let deployment = Borrowed::take();
    let line = deployment.line();
    let mut inside = Routes::to(line.url());
    for name in ["a", "b", "c", "d"] {
        assert_eq!(
            inside.command(&["SET", name, "1"]),
            Reply::Status("OK".into())
        );
        assert_eq!(deployment.command(&["INCR", name]), Reply::Int(2));
    }
    line.pass();
    assert_eq!(
        inside.command(&["INCR", "a"]),
        Reply::Int(3),
        "on a new connection"
    );
    // The addresses that the deployment announces are those of the proxies.
    let own: Vec<_> = deployment
        .url()
        .split([',', '/', ':'])
        .map(str::to_owned)
        .collect();
    if deployment.is_cluster() {
        let nodes = inside.command(&["CLUSTER", "NODES"]).text();
        assert!(
            !own.iter()
                .any(|port| port.len() == 5 && nodes.contains(&format!(":{port}@"))),
            "{nodes}"
        );
    }
}
