//! Masters that change because servers decided so, whether or not a fault was meant to bring it about: each one is in
//! the history, as a fault of its own.
//!
//! An election is on from the last time at which the new master said that it followed another one, until no more
//! servers say that they are master than there are to be. A server that stands still says nothing, and believes what it
//! believed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasehold_testbed::{Connection, Deployment, Reply, Server};

use crate::clients::History;
use crate::clock;
use crate::history::{Event, Scope, What};
use crate::world::slots_of;

/// What it is called in histories.
pub(crate) const NAME: &str = "election";
/// Between two questions to a server.
const AGAIN: Duration = Duration::from_millis(100);

/// Asks all servers of a deployment who they are, until it is dropped.
#[derive(Debug)]
pub(crate) struct Elections {
    is_over: Arc<AtomicBool>,
    asking: Vec<JoinHandle<()>>,
}

impl Elections {
    /// Nobody is elected where servers know nothing of each other.
    pub(crate) fn watch(deployments: &[Deployment], history: &History) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut asking = Vec::new();
        for deployment in deployments {
            if matches!(deployment, Deployment::Server(_)) {
                continue;
            }
            let (servers, is_cluster) = (deployment.servers(), deployment.is_cluster());
            let roles = Roles::new(servers.len(), deployment.primaries());
            let roles = Arc::new(Mutex::new(roles));
            for (server, address) in servers.iter().map(Server::address).enumerate() {
                let (roles, history) = (roles.clone(), history.clone());
                let is_over = is_over.clone();
                asking.push(thread::spawn(move || {
                    ask_until(&is_over, address, |role| {
                        let mut known = roles.lock().unwrap_or_else(PoisonError::into_inner);
                        let seen = known.saw(server, address, role, clock::monotonic());
                        drop(known);
                        for (at, mut what) in seen {
                            if let What::Fault { scope, .. } = &mut what
                                && is_cluster
                            {
                                scope.slots = slots_of(address).unwrap_or_default();
                            }
                            let (wall, name) = (clock::wall(), String::new());
                            history.push(Event {
                                at,
                                wall,
                                process: 0,
                                worker: 0,
                                name,
                                what,
                            });
                        }
                    });
                }));
            }
        }
        Self { is_over, asking }
    }
}

impl Drop for Elections {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for asking in self.asking.drain(..) {
            // One that failed has said so on the terminal.
            drop(asking.join());
        }
    }
}

fn ask_until(is_over: &AtomicBool, address: SocketAddr, mut tell: impl FnMut(Role)) {
    let mut connection = None;
    while !is_over.load(Relaxed) {
        if connection.is_none() {
            connection = Connection::open(address).ok();
        }
        let ask = |connection: &mut Connection| connection.command(&["ROLE"]).ok();
        let reply = connection.as_mut().and_then(ask);
        match reply {
            Some(Reply::Array(role)) if role[0].text() == "master" => tell(Role::Master),
            Some(Reply::Array(_)) => tell(Role::Replica),
            // It is busy, and is what it was.
            Some(_) => {}
            None if connection.take().is_none() => tell(Role::Gone),
            // The connection was killed, which says nothing about the server.
            None => continue,
        }
        thread::sleep(AGAIN);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Master,
    Replica,
    /// It is not there.
    Gone,
}

/// What all servers have said last.
#[derive(Debug)]
struct Roles {
    last: Vec<Option<(Role, u64)>>,
    masters: usize,
    on: Option<String>,
}

impl Roles {
    fn new(servers: usize, masters: usize) -> Self {
        Roles {
            last: vec![None; servers],
            masters,
            on: None,
        }
    }

    /// What follows from what a server says, and when that was.
    fn saw(&mut self, server: usize, address: SocketAddr, role: Role, at: u64) -> Vec<(u64, What)> {
        let before = self.last[server].replace((role, at));
        let is_elected =
            role == Role::Master && before.is_some_and(|(before, _)| before == Role::Replica);
        let mut said = Vec::new();
        let is_one_too_many = self.claims() > self.masters;
        if self.on.is_none() && (is_elected || is_one_too_many) {
            let detail = format!("server {} says that it is master now", address.port());
            let since = before.map_or(at, |(_, since)| since);
            said.push((since, fault(Turn::Begins, &detail)));
            self.on = Some(detail);
        }
        if !is_one_too_many && let Some(detail) = self.on.take() {
            said.push((at, fault(Turn::Ends, &detail)));
        }
        said
    }

    fn claims(&self) -> usize {
        self.last
            .iter()
            .flatten()
            .filter(|(role, _)| *role == Role::Master)
            .count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Begins,
    Ends,
}

fn fault(turn: Turn, detail: &str) -> What {
    let (fault, scope) = (NAME.to_owned(), Scope::default());
    What::Fault {
        fault,
        on: turn == Turn::Begins,
        detail: detail.to_owned(),
        scope,
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Gone, Master, Replica};
    use super::*;

    /// Three servers, one of which is to be master; what each says, in the order of time from 1 on.
    fn seen(said: &[(usize, Role)]) -> Vec<(u64, bool)> {
        let mut roles = Roles::new(3, 1);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let events = (1..)
            .zip(said)
            .flat_map(|(at, &(server, role))| roles.saw(server, address, role, at));
        events
            .map(|(at, what)| match what {
                What::Fault { on, .. } => (at, on),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_server_that_keeps_its_role_was_not_elected() {
        let said = [
            (0, Master),
            (1, Replica),
            (2, Replica),
            (0, Gone),
            (0, Master),
            (1, Replica),
        ];
        assert_eq!(seen(&said), []);
    }

    #[test]
    fn an_election_lasts_until_the_old_master_knows() {
        let said = [
            (0, Master),
            (1, Replica),
            (0, Master),
            (1, Master),
            (0, Master),
            (0, Replica),
        ];
        assert_eq!(seen(&said), [(2, true), (6, false)]);
    }

    #[test]
    fn an_election_after_a_death_is_over_at_once() {
        let said = [
            (0, Master),
            (1, Replica),
            (0, Gone),
            (1, Replica),
            (1, Master),
        ];
        assert_eq!(seen(&said), [(4, true), (5, false)]);
    }

    #[test]
    fn a_second_master_that_returns_is_reported() {
        let said = [
            (0, Master),
            (1, Replica),
            (0, Gone),
            (1, Master),
            (0, Master),
            (0, Replica),
        ];
        assert_eq!(seen(&said), [(2, true), (4, false), (3, true), (6, false)]);
    }

    #[test]
    fn a_silent_server_keeps_its_last_known_role() {
        let said = [
            (0, Master),
            (1, Replica),
            (1, Master),
            (1, Master),
            (0, Replica),
        ];
        assert_eq!(seen(&said), [(2, true), (5, false)]);
    }
}
