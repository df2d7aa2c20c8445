//! What is scraped is what was done.

use leasehold::blocking::Client;
use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::http::get;
use crate::process::{Process, exists};

const PROGRAM: &str = env!("CARGO_BIN_EXE_exporting");

fn start(server: &Server, arguments: &[&str]) -> Process {
    Process::start(
        PROGRAM,
        server,
        &[&["--listen", "127.0.0.1:0"], arguments].concat(),
    )
}

/// The metrics as they are written for Prometheus.
struct Scraped(String);

impl Scraped {
    fn of(service: &Process) -> Self {
        Scraped(get(&service.value("metrics at "), "/metrics").unwrap())
    }

    /// Of the series with these labels, in any order; `None` if there is none.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut wanted: Vec<_> = labels
            .iter()
            .map(|(key, v)| format!("{key}=\"{v}\""))
            .collect();
        wanted.sort();
        self.0.lines().find_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, labels) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: Vec<_> = labels.strip_suffix('}')?.split_terminator(',').collect();
            labels.sort_unstable();
            (found == name && labels == wanted).then(|| value.parse().ok())?
        })
    }
}

const CUSTOMER: [(&str, &str); 2] = [("kind", "lock"), ("name", "customer")];
const LEDGER: [(&str, &str); 2] = [("kind", "fair"), ("name", "ledger")];

#[test]
fn a_run_is_exported_in_exact_numbers() {
    let server = Server::start();
    let arguments = [
        "--workers",
        "2",
        "--orders",
        "8",
        "--customers",
        "1",
        "--work",
        "1",
    ];
    let service = start(&server, &arguments);
    service.says("all orders are shipped");
    let scraped = Scraped::of(&service);
    // Of the numbers 0 to 7 and 1 to 8 those that four divides are in the ledger, too.
    for (lock, times) in [(CUSTOMER, 16.0), (LEDGER, 4.0)] {
        let [kind, name] = lock;
        let acquired = [kind, ("outcome", "acquired"), name];
        let released = [kind, ("end", "released"), name];
        let number = |name, labels: &[_]| scraped.value(name, labels);
        assert_eq!(
            number("leasehold_acquire_duration_seconds_count", &acquired),
            Some(times)
        );
        let all = [&acquired[..], &[("le", "+Inf")]].concat();
        assert_eq!(
            number("leasehold_acquire_duration_seconds_bucket", &all),
            Some(times)
        );
        assert_eq!(number("leasehold_acquire_calls_count", &lock), Some(times));
        assert_eq!(
            number("leasehold_hold_duration_seconds_count", &released),
            Some(times)
        );
        assert_eq!(number("leasehold_acquire_active", &lock), Some(0.0));
        assert_eq!(number("leasehold_hold_active", &lock), Some(0.0));
    }
    let at_once = scraped
        .value("leasehold_acquired_at_once_total", &[])
        .unwrap_or(0.0);
    let after_waiting = scraped
        .value("leasehold_acquired_after_waiting_total", &[])
        .unwrap_or(0.0);
    assert_eq!((at_once + after_waiting).to_string(), "20");
    let lost = scraped.value(
        "leasehold_losses_total",
        &[CUSTOMER[0], ("reason", "gone"), CUSTOMER[1]],
    );
    assert_eq!(lost, Some(0.0), "nothing was lost");
}

#[test]
fn a_wait_for_a_busy_customer_times_out() {
    let server = Server::start();
    let other = Client::connect(leasehold::Client::connect(&server.url())).unwrap();
    let guard = other.block_on(other.lock("customer:0").lock()).unwrap();
    let arguments = [
        "--workers",
        "1",
        "--orders",
        "3",
        "--customers",
        "1",
        "--wait",
        "50",
    ];
    let service = start(&server, &arguments);
    service.says("all orders are shipped");
    let scraped = Scraped::of(&service);
    let timeout = [CUSTOMER[0], ("outcome", "timeout"), CUSTOMER[1]];
    assert_eq!(
        scraped.value("leasehold_acquire_duration_seconds_count", &timeout),
        Some(3.0)
    );
    assert_eq!(scraped.value("leasehold_timed_out_total", &[]), Some(3.0));
    other.block_on(guard.unlock()).unwrap();
}

#[test]
fn a_lost_lock_is_counted_and_logged() {
    let server = Server::start();
    let mut service = start(
        &server,
        &[
            "--workers",
            "1",
            "--orders",
            "1",
            "--work",
            "60000",
            "--lease",
            "1500",
        ],
    );
    wait_until("it holds the lock", LIMIT, || exists(&server, "customer:0"));
    server.command(&["DEL", "customer:0"]);
    service.says("all orders are shipped");
    // Its holder learns of the loss a moment before the client has counted it.
    let is_counted = || Scraped::of(&service).value("leasehold_lost_total", &[]) == Some(1.0);
    wait_until("the loss is counted", LIMIT, is_counted);
    let scraped = Scraped::of(&service);
    let gone = [CUSTOMER[0], ("reason", "gone"), CUSTOMER[1]];
    assert_eq!(scraped.value("leasehold_losses_total", &gone), Some(1.0));
    let ended = [CUSTOMER[0], ("end", "gone"), CUSTOMER[1]];
    assert_eq!(
        scraped.value("leasehold_hold_duration_seconds_count", &ended),
        Some(1.0)
    );
    // Only then is all that it logged read: its log is another pipe than its output.
    service.stop();
    let logged = |text: &str| service.lines().iter().any(|line| line.text.contains(text));
    assert!(logged("WARN") && logged("the lock was lost lock.name=\"customer:0\""));
}
