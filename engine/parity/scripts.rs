//! What the head of each script says about its keys and arguments.

use std::sync::OnceLock;

/// One line of the head: `-- ARGV[2]  lease_ms  integer > 0`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// `2`, `1..n`, `2i-1`, `4..`
    pub(crate) index: String,
    /// The name of an argument, the type of a key.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Parts that occur once, and parts that may be repeated.
pub(crate) type Parts = (Vec<Part>, Vec<Part>);

#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) keys: Parts,
    pub(crate) args: Parts,
}

/// The heads of all scripts.
pub(crate) fn headers() -> &'static [Header] {
    static HEADERS: OnceLock<Vec<Header>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        let scripts = leasehold::test_util::scripts().into_iter();
        scripts
            .map(|(name, text, _)| Header {
                name,
                text,
                keys: parts(head(name, text), "-- KEYS["),
                args: parts(head(name, text), "-- ARGV["),
            })
            .collect()
    })
}

/// The text from the script's own first line, because other scripts may precede it.
fn head<'a>(name: &str, text: &'a str) -> &'a str {
    let first = format!("-- {name}: ");
    &text[text
        .find(&first)
        .expect("a script begins with what it does")..]
}

fn parts(text: &str, prefix: &str) -> Parts {
    let found = text.lines().filter_map(|line| {
        let (index, rest) = line.strip_prefix(prefix)?.split_once(']')?;
        let name = rest.split_whitespace().next()?;
        Some(Part {
            index: index.to_owned(),
            name: name.to_owned(),
            text: rest.to_owned(),
        })
    });
    found.partition(|part| part.index.parse::<u32>().is_ok())
}

#[test]
fn every_script_says_what_it_takes() {
    for header in headers() {
        // A search finds its keys.
        let known =
            !header.keys.0.is_empty() || !header.keys.1.is_empty() || header.name == "locks_scan";
        assert!(known, "{} names no keys in its head", header.name);
    }
}
