//! The same figure of several rounds.

use std::fmt;

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    /// Of at least one round.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_unstable_by(f64::total_cmp);
        let last = figures.len() - 1;
        let median = f64::midpoint(figures[last / 2], figures[last.div_ceil(2)]);
        Spread {
            least: figures[0],
            median,
            greatest: figures[last],
        }
    }

    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        let Spread {
            least,
            median,
            greatest,
        } = self;
        Spread {
            least: change(least),
            median: change(median),
            greatest: change(greatest),
        }
    }

    pub(crate) fn to_json(self) -> Value {
        json!({ "least": self.least, "median": self.median, "greatest": self.greatest })
    }
}

/// `median (least–greatest)`, with as many digits as are asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Spread {
            least,
            median,
            greatest,
        } = self;
        write!(
            f,
            "{median:.digits$} ({least:.digits$}–{greatest:.digits$})"
        )
    }
}
