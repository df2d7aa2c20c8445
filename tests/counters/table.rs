//! The numbers, as the lines of a file.

use std::collections::BTreeMap;
use std::fmt;

use crate::operation::Operation;

/// How much each kind of number differs from run to run, in percent.
fn noise(name: &str, what: &str) -> f64 {
    match what {
        // Chance decides which of them find room in the list, and who yields.
        _ if name.starts_with("turn among 64 clients") => 15.0,
        _ if name.starts_with("turn among 2 clients") => 2.0,
        // Half a percent was seen: ids and the seeds of hash tables are random. One command more is
        // at least 4 %.
        "instructions" => 1.5,
        // They are the same in each run, except that looking at them costs a few bytes more or
        // less, and that a fair lock looks at the server's clock. One allocation more is at least
        // 0.7 %.
        _ => 0.5,
    }
}

/// By how much less a number becomes before the file has to say it, in percent.
const MUCH: f64 = 10.0;

#[derive(Default)]
pub(crate) struct Table(BTreeMap<String, f64>);

impl Table {
    pub(crate) fn add(&mut self, operation: Operation, what: &str, number: f64) {
        self.0
            .insert(format!("{}, {what}", operation.name()), number);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (name, number) = line.rsplit_once(": ").expect("`name: number`");
            (name.to_owned(), number.parse().expect("a number"))
        };
        Table(text.lines().map(line).collect())
    }

    /// What is wrong with the newly counted numbers.
    pub(crate) fn compare(&self, counted: &Table) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, number) in &counted.0 {
            let Some(written) = self.0.get(name) else {
                wrong.push(format!("{name}: {number:.2} is not in counted.txt"));
                continue;
            };
            let what = name.rsplit(", ").next().unwrap_or_default();
            let more = (number / written - 1.0) * 100.0;
            if more > noise(name, what) {
                wrong.push(format!(
                    "{name}: {number:.2} instead of {written}: {more:.1} % more"
                ));
            } else if more < -MUCH.max(noise(name, what)) {
                wrong.push(format!(
                    "{name}: {number:.2} instead of {written}: less, which counted.txt should say"
                ));
            }
        }
        let gone = self.0.keys().filter(|name| !counted.0.contains_key(*name));
        wrong.extend(gone.map(|name| format!("{name}: is not counted")));
        wrong
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in &self.0 {
            writeln!(f, "{name}: {number:.2}")?;
        }
        Ok(())
    }
}
