//! What a SIGTERM leaves behind, and what a SIGKILL does.

use std::net::TcpStream;
use std::thread;

use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::http::post;
use crate::process::{Process, exists};

const PROGRAM: &str = env!("CARGO_BIN_EXE_graceful");
const JOB: &str = "job:reindex";

fn start(server: &Server, arguments: &[&str]) -> (Process, String) {
    let service = Process::start(PROGRAM, server, arguments);
    let address = service.value("listening on ");
    (service, address)
}

#[test]
fn requests_under_way_are_served_and_everything_is_given_back() {
    let server = Server::start();
    let (mut service, address) = start(&server, &[]);
    service.says("the job begins");
    assert!(exists(&server, JOB));
    thread::scope(|scope| {
        let request = scope.spawn(|| post(&address, "/orders/3/ship?work=2000", &[]));
        service.says("shipping 3");
        assert_eq!(
            post(&address, "/orders/3/ship", &[]).unwrap().0,
            423,
            "it is being shipped"
        );
        service.signal("-TERM");
        service.says("the job is given back");
        wait_until("nobody listens", LIMIT, || {
            TcpStream::connect(&address).is_err()
        });
        assert_eq!(
            request.join().unwrap().unwrap(),
            (200, "3 is shipped\n".to_owned())
        );
    });
    assert!(service.ended().success());
    assert_eq!(
        (
            service.count("all is done"),
            service.count("nothing is locked")
        ),
        (1, 1)
    );
    assert!(!exists(&server, JOB) && !exists(&server, "orders:3"));
}

#[test]
fn a_request_that_takes_too_long_loses_its_lock_before_the_process_ends() {
    let server = Server::start();
    let (mut service, address) = start(&server, &["--grace", "300"]);
    thread::scope(|scope| {
        let request = scope.spawn(|| post(&address, "/orders/3/ship?work=600000", &[]));
        service.says("shipping 3");
        service.signal("-TERM");
        assert!(service.ended().success());
        // Long before the end of its lease.
        assert!(!exists(&server, "orders:3"));
        // Answered 503, if the answer left in time.
        let answered = request.join().unwrap();
        assert!(
            answered.as_ref().map_or(true, |answer| answer.0 == 503),
            "{answered:?}"
        );
    });
    assert_eq!(service.count("the grace is over"), 1);
    assert_eq!(service.count("nothing is locked"), 1);
}

#[test]
fn the_next_process_goes_on_with_the_job_at_once() {
    let server = Server::start();
    let (mut first, _) = start(&server, &[]);
    first.says("the job begins");
    let (mut next, _) = start(&server, &[]);
    let told = first.signal("-TERM");
    let taken = next.says("the job begins").at - told;
    println!("SIGTERM to the next holder of the job: {taken:?}");
    assert!(first.ended().success());
    next.signal("-TERM");
    assert!(next.ended().success());
    assert!(!exists(&server, JOB));
}

#[test]
fn a_process_that_is_killed_leaves_its_locks_to_their_leases() {
    let server = Server::start();
    let (mut service, _) = start(&server, &["--lease", "3000"]);
    service.says("the job begins");
    service.kill();
    assert!(exists(&server, JOB), "nobody has released it");
    wait_until("its lease ends", LIMIT, || !exists(&server, JOB));
}
