//! A table of a page: a column for each size, a row for each figure.

use std::fmt::Write as _;

#[derive(Debug)]
pub(crate) struct Table<'a, T> {
    columns: &'a [T],
    text: String,
}

impl<'a, T> Table<'a, T> {
    /// `what` the heads of the columns are.
    pub(crate) fn new(what: &str, columns: &'a [T], head: impl Fn(&T) -> String) -> Self {
        let mut table = Table {
            columns,
            text: String::new(),
        };
        table.row(what, head);
        table.row("---", |_| "---".to_owned());
        table
    }

    pub(crate) fn row(&mut self, what: &str, cell: impl Fn(&T) -> String) {
        let cells: Vec<_> = self.columns.iter().map(cell).collect();
        let cells = cells.join(" | ");
        writeln!(self.text, "| {what} | {cells} |").expect("a text takes everything");
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

/// With three digits that count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure is not negative, and far below 2^64"
)]
pub(crate) fn rounded(figure: f64) -> String {
    let digits = if figure < 0.9995 { 3 } else { 2 };
    match figure.abs() {
        0.0 => "0".to_owned(),
        few if few < 10.0 => format!("{figure:.digits$}"),
        few if few < 100.0 => format!("{figure:.1}"),
        many => {
            let unit = 10_f64.powf(many.log10().floor() - 2.0);
            grouped(((many / unit).round() * unit).round() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, grouped, rounded};

    #[test]
    fn a_table_has_a_column_for_each_size() {
        let mut table = Table::new("names", &[1, 10], ToString::to_string);
        table.row("twice", |size| (2 * size).to_string());
        assert_eq!(
            table.into_text(),
            "| names | 1 | 10 |\n| --- | --- | --- |\n| twice | 2 | 20 |\n"
        );
    }

    #[test]
    fn digits_are_in_groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn figures_have_three_digits() {
        for (figure, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.9999, "1.00"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1_234.5, "1,230"),
            (99_960.0, "100,000"),
        ] {
            assert_eq!(rounded(figure), text);
        }
    }
}
