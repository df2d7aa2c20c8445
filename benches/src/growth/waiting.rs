//! Tasks of one client that wait for names that another client holds.

use std::time::Duration;

use leasehold_testbed::Server;
use tokio::time::sleep;

use super::process::Process;
use super::{FEWEST_TO_WEIGH, Meter};
use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};

/// The holder must renew nothing meanwhile: only the waiters are measured.
const LEASE: Duration = Duration::from_secs(3_600);

pub(super) async fn measure(options: &Options, n: usize, names: usize) -> Result<Report, Failure> {
    let server = Server::start();
    let held = [
        ("n", names.to_string()),
        ("lease", LEASE.as_secs().to_string()),
        ("seconds", "0".to_owned()),
    ];
    let mut holder = Process::start(options, &server, "holds", &held)?;
    holder.until("connected").await?;
    holder.go().await?;
    holder.until("holding").await?;

    let wanted = [("n", n.to_string()), ("names", names.to_string())];
    let mut waiter = Process::start(options, &server, "waits", &wanted)?;
    waiter.until("connected").await?;
    let meter = Meter {
        server: &server,
        processes: vec![waiter.id()],
    };
    let before = meter.sample().await?;
    waiter.go().await?;
    waiter.until("waiting").await?;
    sleep(options.warmup).await;
    let begin = meter.sample().await?;
    sleep(options.measured).await;
    let end = meter.sample().await?;

    waiter.go().await?;
    holder.go().await?;
    let (holder, waiter) = (holder.report().await?, waiter.report().await?);
    let figure = |report: &Report, name| report.number(name).ok_or(format!("no {name}"));
    let last_us = figure(&waiter, "last_at_us")? - figure(&holder, "released_at_us")?;
    if last_us < 0.0 || figure(&holder, "errors")? > 0.0 {
        return Err(format!("the holder: {holder}, the last waiter after {last_us} µs").into());
    }
    let seconds = (end.at - begin.at).as_secs_f64();
    let mut figures = begin.costs_until(&end, seconds).report();
    figures.put(
        "cancelled_as_unpolled",
        figure(&waiter, "cancelled_as_unpolled")?,
    );
    figures.put("last_us", last_us);
    figures.put("acquisitions_per_s", count(n) / last_us * 1e6);
    if n >= FEWEST_TO_WEIGH {
        let each = |before: f64, after: f64| (after - before) / count(n);
        let resident = each(before.resident(), end.resident());
        figures.put("client_bytes_each", resident);
        figures.put("server_bytes_each", each(before.memory(), end.memory()));
    }
    Ok(figures)
}
