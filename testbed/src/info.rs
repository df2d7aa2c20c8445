//! What a server says of itself in INFO.

use std::collections::BTreeMap;

/// How often one command was called since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Includes failed calls, but not rejected ones.
    pub calls: u64,
    pub failed: u64,
    pub rejected: u64,
}

/// What a line of INFO says under this name.
pub fn info_line<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim)
}

/// Parses the text of INFO commandstats, and sums the numbers of all servers for each command. A
/// subcommand is written after its command and a `|`.
pub fn command_stats(info: &str) -> BTreeMap<String, CommandStats> {
    let mut all = BTreeMap::<_, CommandStats>::new();
    for line in info.lines() {
        let parts = line
            .strip_prefix("cmdstat_")
            .and_then(|line| line.split_once(':'));
        let Some((command, numbers)) = parts else {
            continue;
        };
        let stats = all.entry(command.to_owned()).or_default();
        for (name, number) in numbers.split(',').filter_map(|pair| pair.split_once('=')) {
            let total = match name {
                "calls" => &mut stats.calls,
                "failed_calls" => &mut stats.failed,
                "rejected_calls" => &mut stats.rejected,
                _ => continue,
            };
            *total += number.parse::<u64>().expect("a number");
        }
    }
    all
}
