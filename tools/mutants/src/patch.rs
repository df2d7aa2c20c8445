//! A fault: a patch with a head.
//!
//! ```text
//! fault: A renewal may take the whole lease instead of a third.
//! kind: all
//! test: conformance background::renewals::a_renewal_without_an_answer_leaves_time_for_another_one
//!
//! diff --git a/src/..
//! ```
//!
//! A line that begins with a blank continues the previous line.
//!
//! | key | |
//! | --- | --- |
//! | `fault` | one sentence |
//! | `kind` | the kind of lock, or the part of the library |
//! | `test` | the place of the test (`lib`, `transport`, one of `tests/`, or `model`: `transport` with `--cfg shuttle`) and its full name |
//! | `env` | `NAME=value` for the test; optional |
//! | `seconds` | how long the test may take; optional |
//! | `hangs` | `yes`: the fault is detected if the test takes longer than that |
//! | `fault run` | arguments with which `leasehold-faults` detects the fault as well; several, separated by ` \| `, are tried until one does; optional |
//! | `class` | with `fault run`: the class of faults of which this is the example |
//! | `step` | what the specification says to a step of a history with this fault, literally; optional |
//! | `judged` | with `step`: whose history that is. A conformance test by its full name, or `worlds`: those of the simulation. Without it, the own test |
//! | `shows` | with `fault run`: a literal part of the reported violation; several are separated by ` \| ` |

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::published::FaultRun;
use crate::{Result, read};

/// How long a test may take, unless the patch says otherwise.
const SECONDS: u64 = 180;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) fault: String,
    pub(crate) kind: String,
    pub(crate) test: Test,
    pub(crate) limit: Duration,
    /// Whether a timeout counts as the failure of the test.
    pub(crate) hangs: bool,
    /// How the published fault run detects the fault.
    pub(crate) fault_run: Option<FaultRun>,
    /// How the specification detects the fault.
    pub(crate) step: Option<Step>,
    /// The files that the patch changes.
    pub(crate) files: Vec<String>,
}

/// A step of a history that the specification does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it says.
    pub(crate) says: String,
    pub(crate) judged: Judged,
}

/// Whose history is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// That of the patch's own test.
    Own,
    /// That of a conformance test.
    Test(String),
    /// Those of two hundred simulated worlds.
    Worlds,
}

/// A test and how to run it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) env: Vec<(String, String)>,
}

/// The place of a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Lib,
    /// The unit tests of the transport.
    Transport,
    /// The unit tests of the transport that `shuttle` schedules.
    Model,
    /// A folder of `tests/`, or the tests of `admin`.
    Tests(String),
}

impl Place {
    /// The folder of the test's source, from the root of the repository.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Place::Lib => PathBuf::from("src"),
            Place::Transport | Place::Model => PathBuf::from("transport/src"),
            Place::Tests(name) if name == "admin" => PathBuf::from("admin/tests"),
            Place::Tests(name) => Path::new("tests").join(name),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Place::Lib => "lib",
            Place::Transport => "transport",
            Place::Model => "model",
            Place::Tests(name) => name,
        }
    }
}

/// All patches of a folder, by name.
pub(crate) fn all(folder: &Path) -> Result<Vec<Patch>> {
    let entries = folder
        .read_dir()
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension() == Some("patch".as_ref()))
        .collect();
    paths.sort();
    let patches = paths.into_iter().map(|path| {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        parse(&name, &path, &read(&path)?).map_err(|fault| format!("{}: {fault}", path.display()))
    });
    patches.collect()
}

fn parse(name: &str, path: &Path, text: &str) -> Result<Patch> {
    if !is_a_name(name) {
        return Err("a name consists of lower-case letters and digits, separated by -".into());
    }
    let (header, diff) = text.split_once("\ndiff --git ").ok_or("it has no diff")?;
    let mut header = keys(header)?;
    let mut take = |key: &str| {
        let at = header.iter().position(|(name, _)| name == key)?;
        Some(header.remove(at).1)
    };
    let mut must = |key: &str| take(key).ok_or(format!("it has no {key}"));
    let (fault, kind, which) = (must("fault")?, must("kind")?, must("test")?);
    let env = take("env").unwrap_or_default();
    let (seconds, hangs) = (take("seconds"), take("hangs"));
    let step = match (take("step"), take("judged")) {
        (Some(says), judged) => Some(Step {
            says,
            judged: match judged {
                None => Judged::Own,
                Some(worlds) if worlds == "worlds" => Judged::Worlds,
                Some(other) => Judged::Test(other),
            },
        }),
        (None, None) => None,
        (None, Some(_)) => return Err("`judged` needs a `step`".into()),
    };
    let fault_run = match (take("fault run"), take("class"), take("shows")) {
        (Some(arguments), Some(class), Some(shows)) => {
            Some(FaultRun::parse(&arguments, class, &shows)?)
        }
        (None, None, None) => None,
        (Some(_), _, _) => return Err("a fault run needs `class` and `shows`".into()),
        (None, _, _) => return Err("`class` and `shows` need a fault run".into()),
    };
    if let Some((key, _)) = header.first() {
        return Err(format!("unknown key {key}"));
    }
    if !fault.ends_with('.') {
        return Err("a fault is a sentence".into());
    }
    let (place, function) = which
        .split_once(' ')
        .ok_or("a test has a place and a name")?;
    let place = match place {
        "lib" => Place::Lib,
        "transport" => Place::Transport,
        "model" => Place::Model,
        place => Place::Tests(place.into()),
    };
    let pair = |word: &str| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_string(), value.to_string())),
        None => Err(format!("no NAME=value: {word}")),
    };
    let env = env.split_whitespace().map(pair).collect::<Result<_>>()?;
    let seconds = match seconds {
        Some(seconds) => seconds
            .parse()
            .map_err(|_| format!("no number: {seconds}"))?,
        None => SECONDS,
    };
    let hangs = match hangs.as_deref() {
        None => false,
        Some("yes") => true,
        Some(other) => return Err(format!("hangs is yes or left out: {other}")),
    };
    Ok(Patch {
        name: name.into(),
        path: path.into(),
        fault,
        kind,
        test: Test {
            place,
            name: function.trim().into(),
            env,
        },
        limit: Duration::from_secs(seconds),
        hangs,
        fault_run,
        step,
        files: files(diff),
    })
}

fn is_a_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(allowed)
}

/// The keys and values of a head. A value may continue on further lines.
fn keys(header: &str) -> Result<Vec<(String, String)>> {
    let mut keys: Vec<(String, String)> = Vec::new();
    for line in header.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with(char::is_whitespace) {
            let (_, value) = keys
                .last_mut()
                .ok_or("the first line begins with a blank")?;
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (key, value) = line.split_once(':').ok_or(format!("no key: {line}"))?;
        if keys.iter().any(|(known, _)| known == key) {
            return Err(format!("{key} is given twice"));
        }
        if value.trim().is_empty() {
            return Err(format!("{key} is empty"));
        }
        keys.push((key.into(), value.trim().into()));
    }
    Ok(keys)
}

/// The files that a diff changes.
fn files(diff: &str) -> Vec<String> {
    let changed = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    changed.map(|file| file.trim_end().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "\ndiff --git a/src/x.rs b/src/x.rs\n--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n";

    fn parsed(header: &str) -> Result<Patch> {
        parse(
            "a-fault",
            Path::new("a-fault.patch"),
            &format!("{header}{DIFF}"),
        )
    }

    #[test]
    fn a_header_is_read() {
        let header = "fault: A lock\n  opens.\nkind: fair\n\
            test: simulation seeds_hold\nenv: A=1 B=x\nseconds: 20\nhangs: yes\n";
        let patch = parsed(header).unwrap();
        assert_eq!(patch.fault, "A lock opens.");
        assert_eq!(patch.kind, "fair");
        assert_eq!(patch.test.place, Place::Tests("simulation".into()));
        assert_eq!(patch.test.name, "seeds_hold");
        let env = [("A", "1"), ("B", "x")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(patch.test.env, env);
        assert_eq!((patch.limit, patch.hangs), (Duration::from_secs(20), true));
        assert_eq!(patch.files, ["src/x.rs"]);
    }

    #[test]
    fn optional_keys_have_defaults() {
        let patch = parsed("fault: A.\nkind: all\ntest: lib a::b\n").unwrap();
        assert!(!patch.hangs);
        assert_eq!(
            (patch.limit, patch.test.env.len()),
            (Duration::from_secs(SECONDS), 0)
        );
        assert_eq!(patch.test.place, Place::Lib);
        let model = parsed("fault: A.\nkind: all\ntest: model a::b\n").unwrap();
        assert_eq!(
            (model.test.place.name(), model.test.place.folder()),
            ("model", "transport/src".into())
        );
    }

    #[test]
    fn missing_and_invalid_keys_are_named() {
        let right = "fault: A.\nkind: all\ntest: lib a::b\n";
        for (header, part) in [
            (right.replace("fault: A.\n", ""), "it has no fault"),
            (right.replace("test: lib a::b\n", ""), "it has no test"),
            (right.replace("kind: all\n", ""), "it has no kind"),
            (right.replace("kind: all", "kind:"), "kind is empty"),
            (right.replace("A.", "A"), "a fault is a sentence"),
            (right.replace("lib a::b", "lib"), "a place and a name"),
            (format!("{right}{right}"), "fault is given twice"),
            (format!("{right}colour: red\n"), "unknown key colour"),
            (format!("{right}env: A\n"), "no NAME=value: A"),
            (format!("{right}seconds: x\n"), "no number: x"),
            (format!("{right}hangs: no\n"), "hangs is yes"),
            (
                format!("{right}fault run: --fault none\n"),
                "needs `class` and `shows`",
            ),
            (format!("{right}shows: x\n"), "need a fault run"),
            (
                format!("{right}fault run: --fault none\nclass: x\nshows: x\n"),
                "no --deployment",
            ),
            (format!(" x\n{right}"), "begins with a blank"),
            (format!("{right}x\n"), "no key: x"),
        ] {
            let fault = parsed(&header).unwrap_err();
            assert!(fault.contains(part), "{header}: {fault}");
        }
        assert!(
            parse("A_b", Path::new("x"), "")
                .unwrap_err()
                .contains("lower-case letters")
        );
        assert!(
            parse("a", Path::new("x"), right)
                .unwrap_err()
                .contains("no diff")
        );
    }
}
