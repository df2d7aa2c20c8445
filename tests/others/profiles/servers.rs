//! The rows of the table, and what comes out of their cells.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use leasehold::EmbeddedRedis;
use leasehold::test_util::Profile;
use leasehold_testbed::PROFILES;
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::behaviour::{ASKS, Behaviour, Cell};
use crate::cell::{self, Result};
use crate::columns::{Column, columns};
use crate::real::{REAL, Real};
use crate::stalls::Stalls;

/// Nothing takes longer in paused time: some behaviours wait for more than a day.
const LIMIT: Duration = Duration::from_secs(40 * 3600);
/// Nothing takes longer on a real server.
const LIMIT_OF_REAL: Duration = Duration::from_secs(60);
/// How often a behaviour runs at most, if the machine stands still each time.
const ATTEMPTS: u32 = 4;

/// A row.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    Data(Profile),
    Real(Real),
}

/// The data, each with the real one below it if there is one, and then the other real ones.
pub(crate) fn servers() -> impl Iterator<Item = Server> {
    let is_of = |real: &Real, profile: &Profile| real.name.starts_with(profile.name);
    let data = PROFILES.iter().flat_map(move |profile| {
        let real = REAL.iter().filter(move |real| is_of(real, profile));
        let real = real.copied().map(Server::Real);
        [Server::Data(*profile)].into_iter().chain(real)
    });
    let others = REAL.iter().filter(move |real| {
        let mut profiles = PROFILES.iter();
        !profiles.any(|profile| is_of(real, profile))
    });
    data.chain(others.copied().map(Server::Real))
}

impl Server {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Server::Data(profile) => profile.name,
            Server::Real(real) => real.name,
        }
    }

    pub(crate) fn source(&self) -> &'static str {
        match self {
            Server::Data(profile) => profile.source,
            Server::Real(real) => real.source,
        }
    }
}

/// Runs each behaviour on an engine of its own, in paused time.
pub(crate) fn on_engines(profile: Profile, column: Column) -> Result {
    let one = |behaviour: &Behaviour| {
        let cell = || Cell {
            backend: Backend::Engine(EmbeddedRedis::with_profile(profile)),
            kind: column.kind,
            name: "orders".to_owned(),
        };
        let paused = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let outcome = paused.block_on(async { cell::run(behaviour, cell(), LIMIT).await });
        (behaviour.name, outcome)
    };
    cell::sum(column.behaviours.iter().map(one))
}

/// The cells of a real server, which all behaviours share. `None` if it is not installed.
pub(crate) fn on_real(real: &Real) -> Option<Vec<(&'static str, Result)>> {
    let running = Arc::new(real.start()?);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let stalls = Stalls::none();
    let behaviours = columns().flat_map(|column| {
        let of_real = column.of_real.iter();
        of_real.map(move |behaviour| (column, behaviour))
    });
    let outcomes = behaviours.map(|(column, behaviour)| {
        let running = running.clone();
        let attempt = move |number: u32| {
            let cell = Cell {
                backend: Backend::Real(running.clone()),
                kind: column.kind,
                name: format!("{}, {}, {number}", column.name, behaviour.name),
            };
            cell::run(behaviour, cell, LIMIT_OF_REAL)
        };
        let stalls = &stalls;
        async move {
            let mut number = 0;
            loop {
                number += 1;
                let began = Instant::now();
                let outcome = attempt(number).await;
                // On a busy machine the connection may be replaced just when the one message comes.
                let was_replaced = number == 1 && outcome == Ok(Some(ASKS));
                let is_void = was_replaced || stalls.any_since(began);
                if !is_void || number == ATTEMPTS {
                    return (column.name, (behaviour.name, outcome));
                }
            }
        }
    });
    // In their order, so that the first failure of a cell is always the same.
    let outcomes = futures::stream::iter(outcomes).buffered(real.at_a_time);
    let outcomes: Vec<_> = runtime.block_on(stalls.watch(outcomes.collect()));
    let cells = columns().map(|column| {
        let own = outcomes.iter().filter(|(name, _)| *name == column.name);
        let result = cell::sum(own.map(|(_, outcome)| outcome.clone()));
        (column.name, result)
    });
    Some(cells.collect())
}
