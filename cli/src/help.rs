//! The sections at the end of the help and of the manual pages, and tips on bad usage.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A section: terms and what they mean. A line of the help has at most 80 letters.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [(&'static str, &'static str)],
}

const EXIT_CODES: Section = Section {
    title: "Exit codes",
    rows: &[
        (
            "64",
            "bad arguments, environment or files; nothing was sent",
        ),
        ("120", "not acquired in time; -E sets another code"),
        (
            "121",
            "the lock is lost, by this run or by the run around it",
        ),
        ("122", "the server cannot be reached"),
        (
            "123",
            "the server refuses: a password, a right, another type of key",
        ),
        (
            "125",
            "this machine refuses, for example to start a process",
        ),
        (
            "126, 127",
            "the command cannot be executed, or is not found",
        ),
        (
            "128 + n",
            "signal n ended the command, or the wait for the lock",
        ),
        (
            "others",
            "those of the command, which ran under the lock all the time",
        ),
    ],
};

const ENVIRONMENT: Section = Section {
    title: "Environment",
    rows: &[
        ("LEASEHOLD_URL, REDIS_URL", "the server, without --url"),
        ("LEASEHOLD_USER", "the user name on the server"),
        ("LEASEHOLD_PASSWORD", "the password"),
        (
            "LEASEHOLD_ADDRESS_MAP",
            "FROM=TO,FROM=TO, without --address-map",
        ),
        ("LEASEHOLD_NAME", "set for the command: the lock"),
        ("LEASEHOLD_OWNER", "set for the command: its owner"),
        (
            "LEASEHOLD_TOKEN",
            "set for the command: the token, with --fenced",
        ),
        (
            "LEASEHOLD_HELD",
            "set for runs within the command: what is held",
        ),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    rows: &[
        (
            "leasehold run nightly --wait 0 --at-least 5m -- ./nightly.sh",
            "by cron on each machine: one of them runs it",
        ),
        (
            "leasehold run deploy --wait 10m -- make deploy",
            "wait for others, for ten minutes at most",
        ),
        (
            "leasehold run encode --permits 3 -- ./encode.sh film.mkv",
            "three at once, on all machines together",
        ),
        (
            "leasehold run report --fenced -- ./upload.sh",
            "the script passes $LEASEHOLD_TOKEN to the store, which refuses older ones",
        ),
    ],
};

/// The sections of a command, by its name.
pub(crate) fn sections(command: &str) -> &'static [Section] {
    match command {
        "leasehold" => &[EXIT_CODES],
        "run" => &[EXIT_CODES, ENVIRONMENT, EXAMPLES],
        _ => &[],
    }
}

/// The sections as text for a terminal.
pub(crate) fn text(command: &str) -> String {
    let mut text = String::new();
    for Section { title, rows } in sections(command) {
        let _ = writeln!(text, "{}{title}:", if text.is_empty() { "" } else { "\n" });
        let terms = rows.iter().map(|(term, _)| term.len());
        // What an example does stands below it.
        let width = terms.max().filter(|width| *width < 30);
        for (term, meaning) in *rows {
            let _ = match width {
                Some(width) => writeln!(text, "  {term:width$}  {meaning}"),
                None => writeln!(text, "  {term}\n      {meaning}"),
            };
        }
    }
    text.trim_end().to_owned()
}

/// Adds a tip if the arguments of `run` seem to be a command without `--` before it.
pub(crate) fn add_tip(error: &mut clap::Error) {
    let is_word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => !argument.starts_with('-'),
        _ => false,
    };
    let is_run = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().contains("leasehold run"),
        _ => false,
    };
    if error.kind() == ErrorKind::UnknownArgument && is_word && is_run {
        let tip = StyledStr::from("put `--` before the command: leasehold run NAME -- COMMAND");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_of_eighty_columns_shows_each_row_on_its_lines() {
        for line in text("run").lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }
}
