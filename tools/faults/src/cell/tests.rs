//! What only the program knows of a run, and what a cell says of it.

use std::collections::BTreeMap;

use clap::Parser;

use super::{all, rules};
use crate::history::{Event, Mode, What};
use crate::run::{Ran, RunArguments};

const MS: u64 = 1_000_000;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    run: RunArguments,
}

fn arguments(fault: &str) -> RunArguments {
    Arguments::parse_from(["run", "--fault", fault]).run
}

fn event(at: u64, process: u32, name: &str, what: What) -> Event {
    let (at, name) = (at * MS, name.to_owned());
    Event {
        at,
        wall: at,
        process,
        worker: 0,
        name,
        what,
    }
}

fn ended(process: u32, error: Option<&str>) -> Event {
    let error = error.map(str::to_owned);
    event(
        200,
        process,
        "",
        What::Ended {
            counts: BTreeMap::new(),
            error,
        },
    )
}

/// What the only cell says of a run in which the shutdown of process 1 ended with this.
fn violations(fault: &str, error: Option<&str>) -> Vec<String> {
    let mode = Mode::Exclusive;
    let asked = What::Asked {
        mode,
        fixed_ms: None,
        renewed_ms: None,
    };
    let granted = What::Granted {
        until: Some(3_010 * MS),
        token: None,
        field: None,
    };
    let history = vec![
        event(0, 1, "plain:0", asked),
        event(10, 1, "plain:0", granted),
        event(100, 1, "plain:0", What::Releasing),
        event(101, 1, "plain:0", What::Released { error: None }),
        ended(1, error),
        ended(2, None),
    ];
    let ran = Ran {
        steps: Vec::new(),
        history,
        server: String::new(),
        keys: Vec::new(),
        wrong: Vec::new(),
    };
    let arguments = arguments(fault);
    let mut cells = all(&arguments, 0, &ran, &rules(&arguments, &ran.history));
    assert_eq!(cells.len(), 1, "{cells:?}");
    cells.remove(0).violations
}

#[test]
fn a_shutdown_that_fails_is_a_violation() {
    assert_eq!(violations("none", None), [""; 0]);
    let said = "process 1 did not release everything at shutdown: Unavailable";
    assert_eq!(violations("none", Some("Unavailable")), [said]);
    assert_eq!(violations("kill-server", Some("Unavailable")), [said]);
}

#[test]
fn a_shutdown_may_fail_where_rights_are_taken_away() {
    assert_eq!(violations("acl", Some("Protocol")), [""; 0]);
    assert_eq!(violations("mixed", Some("Protocol")), [""; 0]);
}
