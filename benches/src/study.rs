//! A study measures the same for several sizes, in rounds. Its results are a table and a picture of
//! `docs/dev/growth.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::Failure;
use crate::machine::cores;
use crate::options::Options;
use crate::page::Place;
use crate::plot::{Look, Plot, Scale, Series};
use crate::report::Report;
use crate::spread::Spread;
use crate::table::{Table, grouped, rounded};

const PAGE: &str = "growth.md";
const ROUNDS: usize = 3;

#[derive(Debug)]
pub(crate) struct Study {
    /// Also the end of the file name of its picture.
    pub(crate) name: &'static str,
    /// What runs it, and what the page names as its writer.
    pub(crate) arguments: &'static str,
    /// What the sizes are.
    pub(crate) sizes: &'static str,
    pub(crate) rows: &'static [Row],
    pub(crate) picture: Picture,
}

/// A figure of the reports, and how it is shown.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) figure: &'static str,
    /// From the unit of the figure to that of the table.
    pub(crate) times: f64,
}

#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) title: &'static str,
    pub(crate) upwards: &'static str,
    pub(crate) axis: Axis,
    /// With the colour of each.
    pub(crate) curves: &'static [(Row, &'static str)],
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Axis {
    Linear,
    Logarithmic,
}

/// The figures of one size in all rounds.
#[derive(Debug)]
pub(crate) struct Measured {
    size: usize,
    figures: BTreeMap<String, Spread>,
}

impl Measured {
    pub(crate) fn of(size: usize, rounds: &[Report]) -> Self {
        let mut all = BTreeMap::<String, Vec<f64>>::new();
        for (name, figure) in rounds.iter().flat_map(Report::numbers) {
            all.entry(name.to_owned()).or_default().push(figure);
        }
        let figures = all.into_iter();
        Measured {
            size,
            figures: figures
                .map(|(name, figures)| (name, Spread::of(figures)))
                .collect(),
        }
    }

    fn figure(&self, row: &Row) -> Option<Spread> {
        let spread = self.figures.get(row.figure)?;
        Some(spread.map(|figure| figure * row.times))
    }

    fn to_json(&self) -> Value {
        let figures = self.figures.iter();
        let figures: Map<_, _> = figures
            .map(|(name, spread)| (name.clone(), spread.to_json()))
            .collect();
        figures.into()
    }

    fn head(&self) -> String {
        grouped(self.size as u64)
    }
}

pub(crate) fn rounds(options: &Options) -> usize {
    options.rounds.unwrap_or(ROUNDS).max(1)
}

impl Study {
    /// Where its results go; found before anything is measured.
    pub(crate) fn place(&self, options: &Options) -> Result<Option<Place>, Failure> {
        let docs = options.docs.as_deref();
        docs.map(|docs| Place::find(docs, PAGE, self.arguments))
            .transpose()
    }

    pub(crate) fn write(
        &self,
        options: &Options,
        place: &Place,
        measured: &[Measured],
    ) -> Result<(), Failure> {
        place.fill(&format!(
            "{}\n\n{}\n![{}.]({})",
            caption(options)?,
            self.table(measured),
            self.picture.title,
            self.file()
        ))?;
        let file = place.folder().join(self.file());
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        Ok(fs::write(file, self.svg(measured))?)
    }

    pub(crate) fn report(&self, measured: &[Measured]) -> Report {
        let mut report = Report::default();
        for one in measured {
            report.put(&format!("{}_{}", self.name, one.size), one.to_json());
        }
        report
    }

    fn file(&self) -> String {
        format!("pictures/growth-{}.svg", self.name)
    }

    /// Of many sizes, every second one and the last. The picture has all.
    fn table(&self, measured: &[Measured]) -> String {
        let step = if measured.len() > 4 { 2 } else { 1 };
        let shown = (0..measured.len()).filter(|at| at % step == 0 || at + 1 == measured.len());
        let shown: Vec<_> = shown.map(|at| &measured[at]).collect();
        let mut table = Table::new(self.sizes, &shown, |one| one.head());
        for row in self.rows {
            table.row(row.what, |one| {
                let figure = one.figure(row);
                figure.map_or("–".to_owned(), |spread| rounded(spread.median))
            });
        }
        table.into_text()
    }

    fn svg(&self, measured: &[Measured]) -> String {
        let series: Vec<_> = (self.picture.curves.iter())
            .map(|(row, colour)| Series {
                name: row.what,
                look: Look::Curve(colour),
                values: measured.iter().map(|one| one.figure(row)).collect(),
            })
            .collect();
        let values = series.iter().flat_map(|series| &series.values).flatten();
        let ends: Vec<_> = values
            .flat_map(|spread| [spread.least, spread.greatest])
            .collect();
        Plot {
            title: self.picture.title,
            across: self.sizes,
            columns: measured.iter().map(Measured::head).collect(),
            upwards: self.picture.upwards,
            scale: match self.picture.axis {
                Axis::Linear => Scale::linear(ends.into_iter()),
                Axis::Logarithmic => Scale::logarithmic(ends.into_iter()),
            },
            series,
        }
        .svg()
    }
}

fn caption(options: &Options) -> Result<String, Failure> {
    let cores = cores()?;
    let threads = match options.threads {
        Some(threads) => threads.to_string(),
        None => "one per core".to_owned(),
    };
    let seconds = options.measured.as_secs_f64();
    let rounds = match rounds(options) {
        1 => format!("One round of {seconds} s"),
        many => format!(
            "Medians of {many} rounds of {seconds} s; the bars of the picture are the least and \
             the greatest"
        ),
    };
    Ok(format!(
        "{rounds}. Cores: {cores}, worker threads of each client: {threads}."
    ))
}

#[cfg(test)]
mod tests;
