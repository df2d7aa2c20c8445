//! S10 and S11: how cost grows with distance, with names held, with waiters and with client
//! processes.
//!
//! Each client that is measured is a process of its own, a child of this one. Each measurement has
//! a server of its own.

mod client;
mod crowd;
mod held;
mod process;
mod studies;
mod waiting;

use std::ops::RangeInclusive;

use leasehold_testbed::Server;

use crate::options::Options;
use crate::report::Report;
use crate::server::Sample;
use crate::study::{Measured, Study, rounds};
use crate::{Failure, far};

const MAX: usize = 100_000;
const DISTANCES_MS: [usize; 3] = [1, 5, 20];
/// More processes than this are no use on a small machine.
const PROCESSES_MAX: usize = 64;
/// Of fewer, other memory of the process and of the server hides what each of them needs.
const FEWEST_TO_WEIGH: usize = 1_000;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Held,
    OneName,
    Names,
    Processes,
    Distance,
}

/// S10: with the distance.
pub(crate) async fn distance(options: &Options) -> Result<Report, Failure> {
    if options.url.is_some() && options.docs.is_some() {
        return Err("--docs is for the server that S10 starts: without --url".into());
    }
    study(options, &[Subject::Distance]).await
}

/// S11: with everything else, or the part of one of its clients.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    if let Some(part) = &options.part {
        return client::run(options, part).await;
    }
    if options.url.is_some() {
        return Err("S11 starts its own servers: without --url".into());
    }
    study(options, &subjects(options.table.as_deref())?).await
}

/// The table that was asked for, or all of them.
fn subjects(table: Option<&str>) -> Result<Vec<Subject>, Failure> {
    let all = [
        Subject::Held,
        Subject::OneName,
        Subject::Names,
        Subject::Processes,
    ];
    let Some(table) = table else {
        return Ok(all.to_vec());
    };
    let names = all.map(|subject| subject.study().name);
    match names.iter().position(|name| *name == table) {
        Some(position) => Ok(vec![all[position]]),
        None => Err(format!("--table is one of {}, not {table}", names.join(", ")).into()),
    }
}

async fn study(options: &Options, subjects: &[Subject]) -> Result<Report, Failure> {
    let max = options.max.map_or(MAX, usize::from);
    // All that may be wrong with the options is found before anything is measured.
    let mut plan = Vec::new();
    for subject in subjects {
        let sizes = subject.sizes(options.min..=max)?;
        plan.push((*subject, sizes, subject.study().place(options)?));
    }
    let mut figures = Report::default();
    for (subject, sizes, place) in plan {
        let mut reports: Vec<Vec<Report>> = sizes.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds(options) {
            for (size, reports) in sizes.iter().zip(&mut reports) {
                let report = subject.measure(options, *size).await;
                reports.push(report.map_err(|error| format!("{subject:?} of {size}: {error}"))?);
            }
        }
        let measured = sizes.iter().zip(&reports);
        let measured: Vec<_> = measured
            .map(|(size, reports)| Measured::of(*size, reports))
            .collect();
        let study = subject.study();
        if let Some(place) = place {
            study.write(options, &place, &measured)?;
        }
        figures.extend(study.report(&measured));
    }
    Ok(figures)
}

impl Subject {
    fn study(self) -> &'static Study {
        match self {
            Subject::Held => &studies::HELD,
            Subject::OneName => &studies::ONE_NAME,
            Subject::Names => &studies::NAMES,
            Subject::Processes => &studies::PROCESSES,
            Subject::Distance => &studies::DISTANCE,
        }
    }

    fn sizes(self, within: RangeInclusive<usize>) -> Result<Vec<usize>, Failure> {
        let (min, max) = (*within.start(), *within.end());
        let mut sizes = match self {
            Subject::Held | Subject::OneName | Subject::Names => powers(10, max),
            Subject::Processes => powers(2, max.min(PROCESSES_MAX)),
            Subject::Distance => return Ok(DISTANCES_MS.to_vec()),
        };
        sizes.retain(|size| *size >= min);
        if sizes.is_empty() {
            let name = self.study().name;
            return Err(
                format!("{name} has no size from {min} to {max}: see --min and --max").into(),
            );
        }
        Ok(sizes)
    }

    async fn measure(self, options: &Options, size: usize) -> Result<Report, Failure> {
        match self {
            Subject::Held => held::measure(options, size).await,
            Subject::OneName => waiting::measure(options, size, 1).await,
            Subject::Names => waiting::measure(options, size, size).await,
            Subject::Processes => crowd::measure(options, size).await,
            Subject::Distance => far::measure(options, size).await,
        }
    }
}

/// 1, and its multiples by `base` up to `max`.
fn powers(base: usize, max: usize) -> Vec<usize> {
    let next = |power: &usize| power.checked_mul(base);
    std::iter::successors(Some(1), next)
        .take_while(|power| *power <= max)
        .collect()
}

/// A server, and the processes of its clients that are measured.
struct Meter<'a> {
    server: &'a Server,
    processes: Vec<u32>,
}

impl Meter<'_> {
    async fn sample(&self) -> Result<Sample, Failure> {
        let address = self.server.address().to_string();
        Ok(Sample::of(&[&address], &self.processes).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Subject, powers, subjects};

    #[test]
    fn sizes_are_powers_up_to_the_greatest_one() {
        assert_eq!(powers(10, 100_000).len(), 6);
        assert_eq!(powers(10, 999), [1, 10, 100]);
        assert_eq!(powers(2, 64), [1, 2, 4, 8, 16, 32, 64]);
        let processes = Subject::Processes.sizes(16..=1_000_000).expect("some");
        assert_eq!(processes, [16, 32, 64]);
        let error = Subject::Held.sizes(11..=99).expect_err("none").to_string();
        assert_eq!(error, "held has no size from 11 to 99: see --min and --max");
        assert_eq!(powers(10, usize::MAX).first(), Some(&1));
    }

    #[test]
    fn an_unknown_table_is_an_error_that_names_the_known_ones() {
        assert_eq!(
            subjects(Some("names")).expect("it exists"),
            [Subject::Names]
        );
        assert_eq!(subjects(None).expect("all").len(), 4);
        let error = subjects(Some("x")).expect_err("unknown").to_string();
        assert_eq!(
            error,
            "--table is one of held, one-name, names, processes, not x"
        );
    }
}
