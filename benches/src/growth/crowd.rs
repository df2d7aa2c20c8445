//! Processes with a client each. Their tasks lock and unlock names of their own, or all of them one
//! name.

use leasehold_testbed::Server;
use tokio::time::sleep;

use super::Meter;
use super::process::Process;
use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};

/// Tasks of each process.
const TASKS: usize = 4;

pub(super) async fn measure(options: &Options, processes: usize) -> Result<Report, Failure> {
    let mut figures = Report::default();
    for (prefix, names) in [("own_", TASKS), ("one_", 1)] {
        figures.extend_as(prefix, pairs(options, processes, names).await?);
    }
    Ok(figures)
}

async fn pairs(options: &Options, processes: usize, names: usize) -> Result<Report, Failure> {
    let server = Server::start();
    let mut meter = Meter {
        server: &server,
        processes: Vec::new(),
    };
    let before = meter.sample().await?;
    let mut clients = Vec::new();
    for process in 0..processes {
        let arguments = [
            ("n", TASKS.to_string()),
            ("names", names.to_string()),
            ("proc", process.to_string()),
        ];
        clients.push(Process::start(options, &server, "pairs", &arguments)?);
    }
    for client in &mut clients {
        client.until("connected").await?;
    }
    meter.processes = clients.iter().map(Process::id).collect();
    let connected = meter.sample().await?;
    for client in &mut clients {
        client.go().await?;
    }
    sleep(options.warmup).await;
    let begin = meter.sample().await?;
    sleep(options.measured).await;
    let end = meter.sample().await?;
    let (mut latencies, mut shares) = (Vec::new(), Vec::new());
    for mut client in clients {
        client.until("done").await?;
        client.go().await?;
        let own = client.report().await?.durations("latencies_s")?;
        shares.push(own.len());
        latencies.extend(own);
    }

    let pairs = latencies.len();
    if pairs == 0 {
        return Err("no pairs were counted".into());
    }
    let mut figures = begin.costs_until(&end, count(pairs)).report();
    figures.put("idle_cores", begin.idle_cores_until(&end));
    figures.put("least_share", least_share(&shares));
    let each = |bytes: f64| bytes / count(processes);
    let memory = connected.memory() - before.memory();
    figures.put("server_bytes_each", each(memory));
    figures.put("client_bytes_each", each(connected.resident()));
    figures.put_rate(pairs, end.at - begin.at);
    figures.put_latencies(latencies);
    Ok(figures)
}

/// What the least served process got, as a part of an even share.
fn least_share(shares: &[usize]) -> f64 {
    let all: usize = shares.iter().sum();
    let least = shares.iter().copied().min().unwrap_or(0);
    count(least * shares.len()) / count(all.max(1))
}

#[cfg(test)]
mod tests {
    use super::least_share;

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn the_share_of_the_least_served_process_is_a_part_of_an_even_one() {
        assert_eq!(least_share(&[10, 10, 10]), 1.0);
        assert_eq!(least_share(&[5, 10, 15]), 0.5);
        assert_eq!(least_share(&[0, 7]), 0.0);
        assert_eq!(least_share(&[]), 0.0);
    }
}
