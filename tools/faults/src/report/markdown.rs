//! Helpers that write GitHub-flavored Markdown.

use crate::report::file_name;

/// Escapes foreign text for a sentence or a table cell.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let inside_a_word =
            before.is_alphanumeric() && letters.peek().is_some_and(|c| c.is_alphanumeric());
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '#' => out.extend(['\\', letter]),
            '_' if !inside_a_word => out.push_str("\\_"),
            _ if letter.is_control() => out.push(' '),
            _ => out.push(letter),
        }
        before = letter;
    }
    out
}

/// A code span. Backticks become apostrophes, and pipes are escaped, so that the span works in a
/// table as well.
pub(super) fn code(text: &str) -> String {
    let text = text
        .replace('`', "'")
        .replace('|', "\\|")
        .replace(char::is_control, " ");
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

pub(super) fn link(text: &str, to: &str) -> String {
    format!("[{text}]({to})")
}

pub(super) fn list(sentences: &[String]) -> String {
    let lines: Vec<_> = sentences
        .iter()
        .map(|sentence| format!("- {}\n", escaped(sentence)))
        .collect();
    lines.concat()
}

/// The file of a deployment's page.
pub(super) fn page(deployment: &str) -> String {
    format!("{}.md", file_name(deployment))
}

/// A table. The heads and the cells must be Markdown already.
pub(super) fn table(heads: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); heads.len()];
    let mut text = line(heads) + &line(&rule);
    for row in rows {
        text += &line(&row);
    }
    text + "\n"
}

pub(super) fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `1,234,567`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 overlap`, `2 overlaps`.
pub(super) fn count(times: u64, singular: &str) -> String {
    let plural = if times == 1 { "" } else { "s" };
    format!("{} {singular}{plural}", number(times))
}

/// Formats thousandths: `1.2 %`.
pub(super) fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Formats seconds since 1970: `2026-11-22 03:04 UTC`.
pub(super) fn time(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years start in March here, so that a leap day is the last day of its year (Howard Hinnant's
    // algorithm).
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month < 3);
    let (hour, minute) = (of_day / 3_600, of_day / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// `12 ms`, `3.4 s`, `5 min`.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 if ms % 1_000 < 100 => format!("{} s", ms / 1_000),
        1_000..100_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        100_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{}.{} h", ms / 3_600_000, ms % 3_600_000 / 360_000),
    }
}
