//! What one program starts for many tests, the proxies in front of it, and that nothing outlives
//! the program.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use leasehold_testbed::{Borrowed, Connection, this_program, wait_until};

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
