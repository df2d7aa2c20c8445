//! Names that one client holds.

use std::time::Duration;

use leasehold_testbed::Server;
use tokio::time::sleep;

use super::process::Process;
use super::{FEWEST_TO_WEIGH, Meter};
use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};
use crate::server::Probe;

/// The library's default. On a busy machine, a hundred thousand names are not taken within a much
/// shorter one.
const LEASE: Duration = Duration::from_secs(30);
/// A hold is renewed so often in a lease.
const RENEWALS: u32 = 3;

pub(super) async fn measure(options: &Options, n: usize) -> Result<Report, Failure> {
    let lease = options.lease.unwrap_or(LEASE);
    let server = Server::start();
    let arguments = [
        ("n", n.to_string()),
        ("lease", lease.as_secs_f64().to_string()),
    ];
    let mut client = Process::start(options, &server, "holds", &arguments)?;
    client.until("connected").await?;
    let meter = Meter {
        server: &server,
        processes: vec![client.id()],
    };
    let before = meter.sample().await?;
    client.go().await?;
    client.until("holding").await?;
    sleep(options.warmup).await;
    let begin = meter.sample().await?;
    sleep(whole_renewals(options.measured, lease)).await;
    let end = meter.sample().await?;
    let held = Probe::open(&server.address().to_string())
        .await?
        .ask("DBSIZE")
        .await?;
    client.go().await?;
    let own = client.report().await?;
    let faults = own.number("lost").unwrap_or(0.0) + own.number("errors").unwrap_or(0.0);
    if usize::try_from(held) != Ok(n) || faults > 0.0 {
        return Err(format!("{held} names were held: {own}").into());
    }

    let seconds = (end.at - begin.at).as_secs_f64();
    let mut figures = begin.costs_until(&end, seconds).report();
    figures.extend(own);
    if n >= FEWEST_TO_WEIGH {
        let each = |before: f64, after: f64| (after - before) / count(n);
        let resident = each(before.resident(), end.resident());
        figures.put("client_bytes_each", resident);
        figures.put("server_bytes_each", each(before.memory(), end.memory()));
    }
    Ok(figures)
}

/// As long, and so much longer that every hold is renewed equally often.
fn whole_renewals(measured: Duration, lease: Duration) -> Duration {
    let period = lease / RENEWALS;
    let periods = (measured.as_secs_f64() / period.as_secs_f64()).ceil();
    period.mul_f64(periods.max(1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::whole_renewals;

    #[test]
    fn every_hold_is_renewed_equally_often_while_it_is_measured() {
        let seconds = Duration::from_secs;
        assert_eq!(whole_renewals(seconds(5), seconds(6)), seconds(6));
        assert_eq!(whole_renewals(seconds(6), seconds(6)), seconds(6));
        assert_eq!(whole_renewals(seconds(0), seconds(3)), seconds(1));
    }
}
