//! Output: tables for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::Failure;

/// Prints a line to standard error, with the name of the program.
pub(crate) fn complain(text: &str) {
    // If writing fails, there is nowhere left to report that.
    drop(writeln!(io::stderr(), "leasehold: {}", lines(text)));
}

/// Escapes control characters, and characters that are invisible or reorder the text around them.
/// Names, owners and purposes come from others, and could otherwise control the terminal or look
/// like other names.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |letter: char| {
        let is_harmful = letter.is_control() || is_invisible(letter);
        let escaped = is_harmful.then(|| letter.escape_default());
        let plain = escaped.is_none().then_some(letter);
        escaped.into_iter().flatten().chain(plain)
    };
    text.chars().flat_map(shown).collect()
}

/// Format characters, line and paragraph separators, variation selectors and tags.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The same for a text of several lines.
fn lines(text: &str) -> String {
    text.split('\n')
        .map(harmless)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Prints a line to standard output. If the reader has closed the pipe, as `head` does, the program
/// ends quietly.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("standard output")(error))
        }
        Err(_) => std::process::exit(0),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as one line of JSON.
pub(crate) fn say_json(value: &impl Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string(value).map_err(Failure::internal("JSON"))?)
}

/// Whether to print colours: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
pub(crate) fn has_colours() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// A table without borders, like those of `docker ps` and `kubectl get`.
#[derive(Debug)]
pub(crate) struct Rows {
    table: Table,
    colours: bool,
}

/// How a cell is highlighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Faint,
}

impl Rows {
    pub(crate) fn new(titles: &[&str]) -> Rows {
        let colours = has_colours();
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        let title = |title: &&str| {
            let cell = Cell::new(title);
            if colours {
                cell.add_attribute(Attribute::Bold)
            } else {
                cell
            }
        };
        table.set_header(titles.iter().map(title));
        Rows { table, colours }
    }

    pub(crate) fn add<const N: usize>(&mut self, cells: [(String, Tone); N]) {
        let cell = |(text, tone): (String, Tone)| {
            let cell = Cell::new(harmless(&text));
            match tone {
                _ if !self.colours => cell,
                Tone::Plain => cell,
                Tone::Good => cell.fg(Color::Green),
                Tone::Warning => cell.fg(Color::Yellow),
                Tone::Faint => cell.add_attribute(Attribute::Dim),
            }
        };
        let cells: Vec<_> = cells.into_iter().map(cell).collect();
        self.table.add_row(cells);
    }

    pub(crate) fn text(&mut self) -> String {
        if let Some(first) = self.table.column_mut(0) {
            first.set_padding((0, 1));
        }
        if self.colours {
            self.table.enforce_styling();
        } else {
            self.table.force_no_tty();
        }
        let lines: Vec<_> = self
            .table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }
}

/// A remaining time, rounded for people.
pub(crate) fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", span.as_secs_f64()),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        assert_eq!(harmless("orders:42 é (nightly)"), "orders:42 é (nightly)");
        let hostile = "x\u{1b}[2J\ny\u{9b}31m\r";
        assert_eq!(harmless(hostile), "x\\u{1b}[2J\\ny\\u{9b}31m\\r");
        assert_eq!(lines(hostile), "x\\u{1b}[2J\ny\\u{9b}31m\\r");
        // Shown as it is, this reads `pay-exe.txt`.
        assert_eq!(
            harmless("pay-\u{202e}txt.exe\u{200b}"),
            "pay-\\u{202e}txt.exe\\u{200b}"
        );
        let mut rows = Rows::new(&["NAME"]);
        rows.colours = false;
        rows.add([(hostile.to_owned(), Tone::Plain)]);
        let text = rows.text();
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(
            !text
                .chars()
                .any(|letter| letter.is_control() && letter != '\n'),
            "{text:?}"
        );
    }
}
