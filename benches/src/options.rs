//! The command line: pairs of `--name value`, of which the last one counts.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::Failure;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) peer: String,
    pub(crate) proc: String,
    pub(crate) scenario: String,
    pub(crate) url: Option<String>,
    pub(crate) tasks: usize,
    pub(crate) n: usize,
    /// `None`: as many as the scenario has by default.
    pub(crate) rounds: Option<usize>,
    /// `None`: one worker thread for each core.
    pub(crate) threads: Option<usize>,
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
    pub(crate) hold: Duration,
    /// Unix time in milliseconds.
    pub(crate) start_at: Option<u64>,
    pub(crate) verify: bool,
    pub(crate) described: bool,
    pub(crate) fenced: bool,
    /// The least size of S11.
    pub(crate) min: usize,
    /// The greatest size of S11; `None`: its default.
    pub(crate) max: Option<NonZeroUsize>,
    /// The one of S11's tables that is measured; `None`: all of them.
    pub(crate) table: Option<String>,
    /// What a client of S11 does. The program that starts it says so.
    pub(crate) part: Option<String>,
    /// Over how many names the tasks of such a client are spread; `None`: each has its own.
    pub(crate) names: Option<NonZeroUsize>,
    /// S11: of the names held.
    pub(crate) lease: Option<Duration>,
    /// The folder of the pages that S9 to S11 write their results into.
    pub(crate) docs: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, Failure> {
        let given = Given::collect(arguments)?;
        let seconds = |name, default| {
            given
                .or(name, default)
                .and_then(|s| Ok(Duration::try_from_secs_f64(s)?))
        };
        Ok(Options {
            peer: given.or("peer", "ours".to_owned())?,
            proc: given.or("proc", String::new())?,
            scenario: given.or("scenario", "S1".to_owned())?,
            url: given.get("url")?,
            tasks: given.or("tasks", 64)?,
            n: given.or("n", 10_000)?,
            rounds: given.get("rounds")?,
            threads: given.get("threads")?,
            warmup: seconds("warmup", 3.0)?,
            measured: seconds("seconds", 5.0)?,
            hold: Duration::from_millis(given.or("hold-ms", 5)?),
            start_at: given.get("start-at")?,
            verify: given.or("verify", false)?,
            described: given.or("described", false)?,
            fenced: given.or("fenced", false)?,
            min: given.or("min", 1)?,
            max: given.get("max")?,
            table: given.get("table")?,
            part: given.get("part")?,
            names: given.get("names")?,
            lease: given
                .get("lease")?
                .map(Duration::try_from_secs_f64)
                .transpose()?,
            docs: given.get("docs")?,
        })
    }

    pub(crate) fn url(&self) -> &str {
        self.url.as_deref().unwrap_or("redis://127.0.0.1:7399")
    }

    /// Host and port of each server of the URL.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        let url = self.url();
        let hosts = url.split_once("://").map_or(url, |(_, hosts)| hosts);
        hosts.trim_end_matches('/').split(',').collect()
    }

    /// The first of them.
    pub(crate) fn address(&self) -> &str {
        self.addresses()[0]
    }
}

/// The values by name. Names that mean nothing here (`--pool`) are for other programs: ignored.
struct Given(HashMap<String, String>);

impl Given {
    fn collect(mut arguments: impl Iterator<Item = String>) -> Result<Given, Failure> {
        let mut values = HashMap::new();
        while let Some(flag) = arguments.next() {
            let name = flag
                .strip_prefix("--")
                .ok_or(format!("expected --name, got {flag}"))?;
            let value = arguments.next().ok_or(format!("{flag} needs a value"))?;
            values.insert(name.to_owned(), value);
        }
        Ok(Given(values))
    }

    fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("--{name} cannot be {text}").into()),
        }
    }

    fn or<T: FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        Ok(self.get(name)?.unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        let words = line.split_whitespace().map(str::to_owned);
        Options::parse(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let options = parse("--scenario S11 --lease 3 --max 10 --max 1000").expect("valid");
        assert_eq!(options.max.map(usize::from), Some(1_000));
        assert_eq!(options.lease, Some(Duration::from_secs(3)));
        assert_eq!(options.table, None);
    }

    #[test]
    fn a_bad_value_is_named_with_its_option() {
        for (line, error) in [
            ("--max 0", "--max cannot be 0"),
            ("--max many", "--max cannot be many"),
            ("--names -1", "--names cannot be -1"),
            ("--max", "--max needs a value"),
            ("max 1", "expected --name, got max"),
        ] {
            assert_eq!(parse(line).expect_err(line), error);
        }
        assert!(parse("--lease -1").is_err());
        assert!(parse("--seconds -1").is_err());
    }
}
