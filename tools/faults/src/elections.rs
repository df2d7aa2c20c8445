//! Records elections: each change of a master is in the history as its own fault, whether or not an
//! injected fault caused it.
//!
//! An election begins when the new master last reported that it was a replica. It ends when no more
//! servers claim to be master than the deployment has masters. A stopped server does not reply, and
//! counts with its last known role.

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

/// The name of the fault in histories.
pub(crate) const NAME: &str = "election";
/// Pause between two requests to a server.
const INTERVAL: Duration = Duration::from_millis(100);

/// Asks all servers of a deployment for their roles until it is dropped.
#[derive(Debug)]
pub(crate) struct Elections {
    is_over: Arc<AtomicBool>,
    asking: Vec<JoinHandle<()>>,
}

impl Elections {
    /// Starts to watch. Independent servers are skipped, because they hold no elections.
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
                        let changes = known.update(server, address, role, clock::monotonic());
                        drop(known);
                        for (at, mut what) in changes {
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
            // A panic of the thread was already printed.
            drop(asking.join());
        }
    }
}

fn ask_until(is_over: &AtomicBool, address: SocketAddr, mut report: impl FnMut(Role)) {
    let mut connection = None;
    while !is_over.load(Relaxed) {
        if connection.is_none() {
            connection = Connection::open(address).ok();
        }
        let ask = |connection: &mut Connection| connection.command(&["ROLE"]).ok();
        let reply = connection.as_mut().and_then(ask);
        match reply {
            Some(Reply::Array(role)) if role[0].text() == "master" => report(Role::Master),
            Some(Reply::Array(_)) => report(Role::Replica),
            // An error such as BUSY. The server keeps its last known role.
            Some(_) => {}
            None if connection.take().is_none() => report(Role::Unreachable),
            // The connection was closed, perhaps by a fault. Connect again before drawing a
            // conclusion.
            None => continue,
        }
        thread::sleep(INTERVAL);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Master,
    Replica,
    /// The server accepts no connection.
    Unreachable,
}

/// The last known role of each server, with its time.
#[derive(Debug)]
struct Roles {
    last: Vec<Option<(Role, u64)>>,
    masters: usize,
    /// The detail of the current election.
    current: Option<String>,
}

impl Roles {
    fn new(servers: usize, masters: usize) -> Self {
        Roles {
            last: vec![None; servers],
            masters,
            current: None,
        }
    }

    /// Records the role of a server. Returns the beginning and the end of elections that follow
    /// from it, with their times.
    fn update(
        &mut self,
        server: usize,
        address: SocketAddr,
        role: Role,
        at: u64,
    ) -> Vec<(u64, What)> {
        let before = self.last[server].replace((role, at));
        let is_elected =
            role == Role::Master && before.is_some_and(|(before, _)| before == Role::Replica);
        let mut changes = Vec::new();
        let is_one_too_many = self.claimed_masters() > self.masters;
        if self.current.is_none() && (is_elected || is_one_too_many) {
            let detail = format!("server {} has become master", address.port());
            let since = before.map_or(at, |(_, since)| since);
            changes.push((since, fault(Edge::Begin, &detail)));
            self.current = Some(detail);
        }
        if !is_one_too_many && let Some(detail) = self.current.take() {
            changes.push((at, fault(Edge::End, &detail)));
        }
        changes
    }

    /// How many servers last claimed to be master.
    fn claimed_masters(&self) -> usize {
        self.last
            .iter()
            .flatten()
            .filter(|(role, _)| *role == Role::Master)
            .count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Begin,
    End,
}

fn fault(edge: Edge, detail: &str) -> What {
    let (fault, scope) = (NAME.to_owned(), Scope::default());
    What::Fault {
        fault,
        on: edge == Edge::Begin,
        detail: detail.to_owned(),
        scope,
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Master, Replica, Unreachable};
    use super::*;

    /// Reports the roles to a deployment of three servers with one master, at the times 1, 2, 3 and
    /// so on. Returns the times at which elections begin (true) and end (false).
    fn elections(reports: &[(usize, Role)]) -> Vec<(u64, bool)> {
        let mut roles = Roles::new(3, 1);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let events = (1..)
            .zip(reports)
            .flat_map(|(at, &(server, role))| roles.update(server, address, role, at));
        events
            .map(|(at, what)| match what {
                What::Fault { on, .. } => (at, on),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_server_that_keeps_its_role_was_not_elected() {
        let reports = [
            (0, Master),
            (1, Replica),
            (2, Replica),
            (0, Unreachable),
            (0, Master),
            (1, Replica),
        ];
        assert_eq!(elections(&reports), []);
    }

    #[test]
    fn an_election_lasts_until_the_old_master_is_a_replica() {
        let reports = [
            (0, Master),
            (1, Replica),
            (0, Master),
            (1, Master),
            (0, Master),
            (0, Replica),
        ];
        assert_eq!(elections(&reports), [(2, true), (6, false)]);
    }

    #[test]
    fn an_election_after_a_crash_ends_when_the_replica_becomes_master() {
        let reports = [
            (0, Master),
            (1, Replica),
            (0, Unreachable),
            (1, Replica),
            (1, Master),
        ];
        assert_eq!(elections(&reports), [(4, true), (5, false)]);
    }

    #[test]
    fn an_old_master_that_restarts_as_master_is_reported() {
        let reports = [
            (0, Master),
            (1, Replica),
            (0, Unreachable),
            (1, Master),
            (0, Master),
            (0, Replica),
        ];
        assert_eq!(
            elections(&reports),
            [(2, true), (4, false), (3, true), (6, false)]
        );
    }

    #[test]
    fn a_silent_server_keeps_its_last_known_role() {
        let reports = [
            (0, Master),
            (1, Replica),
            (1, Master),
            (1, Master),
            (0, Replica),
        ];
        assert_eq!(elections(&reports), [(2, true), (5, false)]);
    }
}
