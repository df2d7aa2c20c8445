//! Of requests with one key one is carried out, whichever process gets them.

use std::thread;

use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::http::{post, send};
use crate::process::{Process, exists};

const PROGRAM: &str = env!("CARGO_BIN_EXE_orders_http");

fn start(server: &Server, arguments: &[&str]) -> (Process, String) {
    let database = server.folder().join("orders.db");
    let database = ["--database", database.to_str().unwrap()];
    let service = Process::start(PROGRAM, server, &[&database[..], arguments].concat());
    let address = service.value("listening on ");
    (service, address)
}

#[test]
fn an_order_that_is_sent_many_times_is_charged_once() {
    let server = Server::start();
    let mut services = [start(&server, &[]), start(&server, &[])];
    let ask = |at: usize, key: &str| {
        post(
            &services[at % 2].1,
            "/orders",
            &[&format!("idempotency-key: {key}")],
        )
        .unwrap()
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = &ask;
        let asked: Vec<_> = (0..6)
            .map(|at| scope.spawn(move || ask(at, "order-1")))
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    assert!(answers.iter().all(|answer| answer.0 == 200), "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.1 == answers[0].1),
        "{answers:?}"
    );
    assert_eq!(ask(0, "order-2").0, 200);
    for (service, _) in &mut services {
        service.stop();
    }
    let charged = |key: &str| -> usize {
        let line = format!("charging {key}");
        services
            .iter()
            .map(|(service, _)| service.count(&line))
            .sum()
    };
    assert_eq!(charged("order-1"), 1);
    assert_eq!(charged("order-2"), 1, "another key is another order");
}

#[test]
fn a_request_without_a_usable_key_is_refused() {
    let server = Server::start();
    let (mut service, address) = start(&server, &[]);
    let long = "k".repeat(129);
    for header in [None, Some(""), Some("a:b"), Some("a b"), Some(&*long)] {
        let header = header.map(|key| format!("idempotency-key: {key}"));
        let headers: Vec<_> = header.iter().map(String::as_str).collect();
        assert_eq!(
            post(&address, "/orders", &headers).unwrap().0,
            400,
            "{header:?}"
        );
    }
    service.stop();
    assert_eq!(service.count("charging"), 0);
}

#[test]
fn a_request_that_waits_for_too_long_gets_an_error() {
    let server = Server::start();
    let (slow, address) = start(&server, &["--work", "600000"]);
    let (_impatient, other) = start(&server, &["--wait", "50"]);
    let running = send(&address, "/orders", &["idempotency-key: 1"]).unwrap();
    slow.says("charging 1");
    assert_eq!(
        post(&other, "/orders", &["idempotency-key: 1"]).unwrap().0,
        423
    );
    drop(running);
}

#[test]
fn a_caller_that_hangs_up_leaves_nothing_locked() {
    let server = Server::start();
    let (service, address) = start(&server, &["--work", "600000"]);
    let running = send(&address, "/orders", &["idempotency-key: 1"]).unwrap();
    service.says("charging 1");
    assert!(exists(&server, "request:1"));
    drop(running);
    wait_until("it is released", LIMIT, || !exists(&server, "request:1"));
}
