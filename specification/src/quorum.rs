//! The quorum lock: a majority of independent servers, some of which forget what they had.
//!
//! # The system
//!
//! Each server grants one hold, for one lease. A client asks all servers. It enters when enough of
//! them have agreed, and trusts its hold while a majority of their leases lasts. It renews the hold
//! of each server for itself, and learns there when the server does not know it. What it takes
//! without a majority it gives back.
//!
//! A call and its reply are one step here: the plain lock (`plain.rs`) says why a client may count
//! a lease from the moment before it asked.
//!
//! # What it shows
//!
//! Two majorities have a server in common. If that one forgets, both may be complete. So the lock
//! is safe as long as fewer servers forget than agreed beyond a minority: none may, if a bare
//! majority agreed. It is also safe if a server that has forgotten is kept down for a lease.

use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Half of an even number of servers is enough.
    HalfIsEnough,
    /// What a server says to a client after it has forgotten its hold does not matter.
    IgnoresLosses,
}

#[derive(Clone, Debug)]
pub(crate) struct Quorum {
    pub(crate) clients: usize,
    pub(crate) servers: usize,
    /// How many servers must agree before a client enters: a majority, or more.
    pub(crate) agree: usize,
    /// In steps of time.
    pub(crate) lease: u8,
    /// How often a server forgets.
    pub(crate) forgets: u8,
    /// For how long a server that has forgotten grants nothing.
    pub(crate) stays_down: u8,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) holder: Option<usize>,
    pub(crate) lease: u8,
    pub(crate) down: u8,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Process {
    /// The rest of the lease at each server, as the client knows it.
    pub(crate) holds: Vec<u8>,
    pub(crate) has_entered: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) servers: Vec<Server>,
    pub(crate) processes: Vec<Process>,
    pub(crate) forgotten: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    /// A server is asked for the hold of a client.
    Ask(usize, usize),
    Renew(usize, usize),
    Enter(usize),
    /// A client gives back what it has.
    Leave(usize),
    /// A client dies, and leaves what it has to the leases.
    Crash(usize),
    Forget(usize),
}

impl Quorum {
    pub(crate) fn majority(&self) -> usize {
        if self.fault == Some(Fault::HalfIsEnough) {
            self.servers / 2
        } else {
            self.servers / 2 + 1
        }
    }

    pub(crate) fn trusts(&self, process: &Process) -> bool {
        process.has_entered
            && process.holds.iter().filter(|left| **left > 0).count() >= self.majority()
    }

    fn tick(&self, state: &mut State) {
        for server in &mut state.servers {
            server.lease = server.lease.saturating_sub(1);
            server.down = server.down.saturating_sub(1);
            if server.lease == 0 {
                server.holder = None;
            }
        }
        for process in &mut state.processes {
            process
                .holds
                .iter_mut()
                .for_each(|left| *left = left.saturating_sub(1));
        }
        self.end_lost_holds(state);
    }

    /// A hold that is lost stays lost, whatever is renewed after that.
    fn end_lost_holds(&self, state: &mut State) {
        for process in &mut state.processes {
            if process.has_entered && !self.trusts(process) {
                process.has_entered = false;
                process.holds.fill(0);
            }
        }
    }

    fn ask(&self, state: &mut State, client: usize, server: usize) -> Option<()> {
        let asked = &mut state.servers[server];
        let process = &mut state.processes[client];
        if process.has_entered
            || asked.down > 0
            || asked.holder.is_some_and(|holder| holder != client)
        {
            return None;
        }
        *asked = Server {
            holder: Some(client),
            lease: self.lease,
            down: 0,
        };
        process.holds[server] = self.lease;
        Some(())
    }

    fn renew(&self, state: &mut State, client: usize, server: usize) -> Option<()> {
        let asked = &mut state.servers[server];
        let process = &mut state.processes[client];
        if !process.has_entered || process.holds[server] == 0 {
            return None;
        }
        if asked.holder == Some(client) {
            asked.lease = self.lease;
            process.holds[server] = self.lease;
        } else if self.fault == Some(Fault::IgnoresLosses) {
            process.holds[server] = self.lease;
        } else {
            process.holds[server] = 0;
        }
        self.end_lost_holds(state);
        Some(())
    }

    fn crash(state: &mut State, client: usize) {
        state.processes[client].has_entered = false;
        state.processes[client].holds.fill(0);
    }

    fn leave(state: &mut State, client: usize) {
        Self::crash(state, client);
        let has_it = |server: &&mut Server| server.holder == Some(client);
        for server in state.servers.iter_mut().filter(has_it) {
            server.holder = None;
            server.lease = 0;
        }
    }

    fn forget(&self, state: &mut State, server: usize) -> Option<()> {
        if state.forgotten == self.forgets || state.servers[server].holder.is_none() {
            return None;
        }
        state.forgotten += 1;
        state.servers[server] = Server {
            down: self.stays_down,
            ..Server::default()
        };
        Some(())
    }
}

impl Model for Quorum {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let process = Process {
            holds: vec![0; self.servers],
            has_entered: false,
        };
        vec![State {
            servers: vec![Server::default(); self.servers],
            processes: vec![process; self.clients],
            forgotten: 0,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        steps.extend((0..self.servers).map(Step::Forget));
        for client in 0..self.clients {
            steps.extend([
                Step::Enter(client),
                Step::Leave(client),
                Step::Crash(client),
            ]);
            steps.extend(
                (0..self.servers)
                    .flat_map(|server| [Step::Ask(client, server), Step::Renew(client, server)]),
            );
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => self.tick(&mut state),
            Step::Ask(client, server) => self.ask(&mut state, client, server)?,
            Step::Renew(client, server) => self.renew(&mut state, client, server)?,
            Step::Enter(client) => {
                let process = &mut state.processes[client];
                let agreed = process.holds.iter().filter(|left| **left > 0).count();
                if agreed < self.agree {
                    return None;
                }
                process.has_entered = true;
            }
            Step::Leave(client) => Self::leave(&mut state, client),
            Step::Crash(client) => Self::crash(&mut state, client),
            Step::Forget(server) => self.forget(&mut state, server)?,
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "at most one client trusts its hold",
                |model: &Self, state: &State| {
                    state
                        .processes
                        .iter()
                        .filter(|process| model.trusts(process))
                        .count()
                        <= 1
                },
            ),
            Property::sometimes("a client has entered", |model: &Self, state: &State| {
                let outlives = model.forgets == 0 || state.forgotten > 0;
                outlives && state.processes.iter().any(|process| model.trusts(process))
            }),
        ]
    }
}
