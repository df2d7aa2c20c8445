//! One cell of the matrix: what came out of all behaviours of a kind on a server.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use crate::behaviour::{Behaviour, Cell, Fault, Outcome};

/// What came out of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    Works,
    /// It works, but not as on Redis.
    With(&'static str),
    /// The client did not connect.
    Refused(String),
    /// These behaviours failed, the first of them with these words.
    Fails(Vec<&'static str>, String),
}

/// No behaviour takes longer, by the clock of the test.
pub(crate) async fn run(behaviour: &Behaviour, cell: Cell, limit: Duration) -> Outcome {
    let outcome = timeout(limit, (behaviour.run)(cell)).await;
    outcome.unwrap_or_else(|_| Err(Fault::Later("it hangs".to_owned())))
}

/// What the outcomes come to.
pub(crate) fn sum(outcomes: impl IntoIterator<Item = (&'static str, Outcome)>) -> Result {
    let (mut refused, mut failed, mut with) = (None, Vec::new(), BTreeSet::new());
    let mut words = None;
    let mut is_first = true;
    for (behaviour, outcome) in outcomes {
        let is_first = std::mem::take(&mut is_first);
        match outcome {
            Ok(note) => with.extend(note),
            // What cannot be taken is refused as a whole. A refusal of something else is a failure.
            Err(Fault::AtStart(why)) if refused.is_some() || is_first => {
                refused = refused.or(Some(why));
            }
            Err(Fault::AtStart(why) | Fault::Later(why)) => {
                failed.push(behaviour);
                words = words.or(Some(why));
            }
        }
    }
    match (refused, words) {
        (_, Some(words)) => Result::Fails(failed, essence(&words)),
        (Some(why), None) => Result::Refused(essence(&why)),
        (None, None) => with.pop_first().map_or(Result::Works, Result::With),
    }
}

/// What the server said, without the names that differ from run to run.
fn essence(error: &str) -> String {
    let said = ["detail=`", "cause=`", "reason=`"]
        .iter()
        .find_map(|begin| {
            let (_, rest) = error.split_once(begin)?;
            rest.strip_suffix('`')
        });
    let mut said = said.unwrap_or(error);
    if let Some((_, rest)) = said.split_once("redis://127.0.0.1:") {
        said = rest.split_once(": ").map_or(rest, |(_, rest)| rest);
    }
    if let Some((_, rest)) = said.split_once("embedded-") {
        said = rest.split_once(": ").map_or(rest, |(_, rest)| rest);
    }
    said = said.strip_prefix("cannot connect: ").unwrap_or(said);
    let ends = [
        ", with args beginning",
        " script: ",
        ": the server is a node",
    ];
    let ends = ends.iter().filter_map(|end| said.find(end));
    said[..ends.min().unwrap_or(said.len())].to_owned()
}

/// One word for the table.
impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Result::Works => "works",
            Result::With(with) => with,
            Result::Refused(_) => "refused",
            Result::Fails(..) => "fails",
        })
    }
}
