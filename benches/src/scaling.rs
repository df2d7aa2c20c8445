//! S9: S2 against clusters of one, two and three masters, in turns, and what bounds each.
//!
//! The clusters are those of the tests: servers of its own on loopback, which end with this
//! program.

mod model;
mod show;

use std::fs;
use std::thread;

use leasehold_testbed::{Cluster, Shape};

use serde_json::json;

use crate::Failure;
use crate::loops;
use crate::machine::cores;
use crate::options::Options;
use crate::page::Place;
use crate::report::{Report, count};
use crate::spread::Spread;
use model::{Costs, Setting};

const MASTERS: [usize; 3] = [1, 2, 3];
const ROUNDS: usize = 5;

/// What was measured with so many masters.
#[derive(Debug)]
struct Measured {
    masters: usize,
    pairs_per_s: Spread,
    client_us: Spread,
    server_us: Spread,
    /// The rate of each round, as a part of what the model says by the costs of that round.
    of_model: Spread,
    /// Cores that nobody used meanwhile.
    idle: Spread,
}

impl Measured {
    fn of(masters: usize, runs: &[Run], setting: Setting) -> Self {
        let of_model = |run: &Run| run.pairs_per_s / setting.bounds(masters, run.costs).rate();
        let of = |figure: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(figure).collect());
        Measured {
            masters,
            pairs_per_s: of(&|run| run.pairs_per_s),
            client_us: of(&|run| run.costs.client_us),
            server_us: of(&|run| run.costs.server_us),
            of_model: of(&of_model),
            idle: of(&|run| run.idle),
        }
    }

    fn costs(&self) -> Costs {
        Costs {
            client_us: self.client_us.median,
            server_us: self.server_us.median,
        }
    }
}

pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    if options.url.is_some() && options.docs.is_some() {
        return Err("--docs is for the clusters that S9 starts: without --url".into());
    }
    let place = (options.docs.as_deref())
        .map(|docs| Place::find(docs, "benchmarks.md", "--scenario S9"))
        .transpose()?;
    let clusters = if options.url.is_none() {
        start_clusters()
    } else {
        Vec::new()
    };
    let mut subjects: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            (
                cluster.shards(),
                Options {
                    url: Some(cluster.url()),
                    ..options.clone()
                },
            )
        })
        .collect();
    if subjects.is_empty() {
        subjects.push((options.addresses().len(), options.clone()));
    }
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let mut runs: Vec<Vec<Run>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, options), runs) in subjects.iter().zip(&mut runs) {
            runs.push(Run::of(options).await?);
        }
    }
    let setting = Setting {
        threads: threads(options)?,
        cores: cores()?,
    };
    let measured = subjects.iter().zip(&runs);
    let measured: Vec<_> = measured
        .map(|((masters, _), runs)| Measured::of(*masters, runs, setting))
        .collect();
    if let (Some(place), Some(docs)) = (place, &options.docs) {
        let caption = format!(
            "{} tasks of one client, worker threads: {}, cores: {}, rounds: {rounds} of {} s.",
            options.tasks,
            setting.threads,
            setting.cores,
            options.measured.as_secs_f64()
        );
        let (table, nodes) = (show::table(&measured, setting), show::nodes(&measured));
        place.fill(&format!("{caption}\n\n{table}\n{nodes}"))?;
        let picture = docs.join("diagrams/cluster-throughput.svg");
        fs::write(picture, show::svg(&measured, setting))?;
    }
    Ok(report(options, &measured, setting))
}

fn report(options: &Options, measured: &[Measured], setting: Setting) -> Report {
    let mut report = Report::default();
    report.put("threads_or_tasks", options.tasks);
    for one in measured {
        let bounds = setting.bounds(one.masters, one.costs());
        let figures = json!({
            "pairs_per_s": one.pairs_per_s.to_json(),
            "client_cpu_us": one.client_us.to_json(),
            "redis_cpu_us": one.server_us.to_json(),
            "of_model": one.of_model.to_json(),
            "idle_cores": one.idle.to_json(),
            "bound_client": bounds.client,
            "bound_servers": bounds.servers,
            "bound_cores": bounds.cores,
        });
        report.put(&format!("masters_{}", one.masters), figures);
    }
    report
}

/// One run of S2.
struct Run {
    pairs_per_s: f64,
    costs: Costs,
    idle: f64,
}

impl Run {
    async fn of(options: &Options) -> Result<Run, Failure> {
        let figures = loops::own_keys(options, options.tasks).await?;
        let figure = |name| {
            figures
                .number(name)
                .ok_or(format!("no {name} was measured"))
        };
        if figure("errors")? + figure("stuck_tasks")? > 0.0 {
            return Err(format!("pairs failed: {figures}").into());
        }
        let (client_us, server_us) = (figure("client_cpu_us")?, figure("redis_cpu_us")?);
        let costs = Costs {
            client_us,
            server_us,
        };
        Ok(Run {
            pairs_per_s: figure("ops_per_s")?,
            costs,
            idle: figure("idle_cores")?,
        })
    }
}

fn start_clusters() -> Vec<Cluster> {
    let start = |masters| {
        Cluster::start_with(Shape {
            masters,
            replicas: 0,
            ..Shape::default()
        })
    };
    thread::scope(|scope| {
        let starting = MASTERS.map(|masters| scope.spawn(move || start(masters)));
        starting
            .map(|cluster| cluster.join().expect("it starts"))
            .into()
    })
}

/// Worker threads of the client.
fn threads(options: &Options) -> Result<f64, Failure> {
    match options.threads {
        Some(threads) => Ok(count(threads)),
        None => Ok(cores()?),
    }
}
