//! Explores a model exhaustively.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// A model whose states can be told apart, kept and shown.
pub(crate) trait Explorable:
    Model<
        State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
        Action: Clone + Debug + PartialEq + Send + Sync + 'static,
    > + Send
    + Sync
    + 'static
{
}

impl<M> Explorable for M
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
}

/// What an exploration has found.
#[derive(Debug)]
pub(crate) struct Explored {
    /// Different states that were reached.
    pub(crate) states: usize,
    /// The invariant that does not hold, and the steps to a state that breaks it.
    pub(crate) broken: Option<(&'static str, Vec<String>)>,
    /// What should happen in some state, and happens in none.
    pub(crate) unreached: Vec<&'static str>,
}

/// Goes through every state that the model can reach, and ends at the first one that breaks an
/// invariant.
pub(crate) fn explore(model: impl Explorable, threads: usize) -> Explored {
    let checker = model
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut found = checker.discoveries();
    let mut explored = Explored {
        states: checker.unique_state_count(),
        broken: None,
        unreached: Vec::new(),
    };
    for property in checker.model().properties() {
        match (property.expectation, found.remove(property.name)) {
            (Expectation::Always, Some(path)) if explored.broken.is_none() => {
                let steps = path
                    .into_actions()
                    .iter()
                    .map(|step| format!("{step:?}"))
                    .collect();
                explored.broken = Some((property.name, steps));
            }
            (Expectation::Sometimes, None) => explored.unreached.push(property.name),
            _ => {}
        }
    }
    explored
}
