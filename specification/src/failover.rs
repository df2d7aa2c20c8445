//! The failover of a primary whose copies are asynchronous, and three ways to live with it.
//!
//! # The system
//!
//! One primary has replicas. A write reaches a replica some time later, or never ([`Step::Copy`]). At any moment a
//! replica may be promoted, whatever it has ([`Step::Promote`]). The former primary does not know, and goes on serving
//! the clients that are connected to it. Later it becomes a replica of the new primary and takes its data
//! ([`Step::Follow`]). Each promotion gives the new primary a new *identity*, which its scripts can read. A connection to a
//! former primary stays open, also while the server is a replica and when it is promoted again.
//!
//! Clients take one lock. A client *trusts* its hold as long as it may be in the critical section. At most one client
//! may trust its hold at a time.
//!
//! # The ways
//!
//! [`Way::Nothing`]: a grant counts when the primary says so. Two clients may hold the lock after a failover.
//!
//! [`Way::CopiesOfEach`]: a grant and a renewal count when all replicas have them.
//!
//! [`Way::Reclaim`]: after a failover, nobody new gets the lock until the former holders have come.
//! - Every client has a *session* at the primary. It is renewed by a write that all replicas must have. A hold counts only
//!   while the session of its client lasts, and what ended with a session does not come back with the next one.
//! - A *marker* in the data has the identity of the primary whose data is complete. Each script compares it with the
//!   identity of the server that runs it. If they differ, the primary is in *grace*: it grants nothing and renews nothing.
//! - A session is for one primary: calls name its identity, and a script refuses those for another one. Primaries are
//!   numbered in the data, each one higher than the one whose data it has. A session moves to a primary in grace with a
//!   higher number, and a grant of the former one that arrives then does not count. It moves nowhere else: a client that
//!   meets another primary waits until its session is over, and registers anew.
//! - In grace each client *verifies*: it writes its hold back, and removes what it no longer holds. If the data has another
//!   holder, that one does not trust its hold any more, because at most one client trusts its hold. Its session has moved
//!   before, so it does not matter whether it hears the answer.
//! - Grace ends when every client with a session has verified, or when it has lasted as long as a session. Sessions
//!   of clients that have not verified end then.
//!
//! # What the model assumes
//!
//! Clocks run at the same speed. The number of replicas that can be promoted is known, and a session needs all of them.
//! Clients connect to any server, at any time.

use std::collections::BTreeSet;

use stateright::{Model, Property};

pub(crate) type Client = usize;
pub(crate) type Node = usize;

/// What a primary is. The first one is 0, and the n-th promotion makes n.
pub(crate) type Identity = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Nothing,
    CopiesOfEach,
    Reclaim,
}

/// A rule that is left out, to see that the model needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write counts although one replica does not have it.
    OneCopyIsMissing,
    /// A primary in grace renews holds.
    RenewsInGrace,
    /// Grace ends before all have verified.
    GraceEndsEarly,
    /// A new session brings back what ended with the former one.
    SessionRevivesHold,
    /// A session moves to any primary.
    GoesBack,
    /// A session moves when its client hears the answer, and the answer is lost.
    MovesWhenAnswered,
    /// A grant of the former primary counts although its successor has been called since.
    LateGrantCounts,
    /// A promoted server keeps the identity that it had as a primary before.
    IdentityIsKept,
}

#[derive(Clone, Debug)]
pub(crate) struct Failover {
    pub(crate) way: Way,
    pub(crate) clients: usize,
    pub(crate) nodes: usize,
    pub(crate) promotions: Identity,
    /// In steps of time.
    pub(crate) lease: u8,
    pub(crate) session: u8,
    pub(crate) fault: Option<Fault>,
}

/// What a primary has and its replicas copy.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) holder: Option<Client>,
    /// The rest of the holder's lease.
    pub(crate) lease: u8,
    pub(crate) marker: Identity,
    /// The number of that primary.
    pub(crate) number: u8,
    /// The identity of the primary whose grace has begun, and the rest of it.
    pub(crate) grace: Option<(Identity, u8)>,
    /// Clients with a session.
    pub(crate) known: BTreeSet<Client>,
    /// Clients that have verified in this grace.
    pub(crate) verified: BTreeSet<Client>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Role {
    Primary(Identity),
    ReplicaOf(Node),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) role: Role,
    /// What it was as a primary for the first time, if identities are kept.
    pub(crate) was: Option<Identity>,
    pub(crate) data: Data,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) connection: Option<Node>,
    /// The rest of its session, as the client knows it.
    pub(crate) session: u8,
    /// A grant whose reply is on its way: what is left of the lease.
    pub(crate) granted: u8,
    /// The rest of its hold. The client trusts nothing else.
    pub(crate) hold: u8,
    /// The primary that granted it.
    pub(crate) granted_by: Identity,
    /// The primary that its session is for, and its number.
    pub(crate) of: (Identity, u8),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) servers: Vec<Server>,
    pub(crate) processes: Vec<Process>,
    /// Which server was promoted last, and as what.
    pub(crate) newest: (Node, Identity),
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes for everybody.
    Tick,
    /// A replica receives all that its primary has.
    Copy(Node),
    /// A replica becomes the primary.
    Promote(Node),
    /// A server follows the newest primary and takes its data.
    Follow(Node),
    Connect(Client, Node),
    /// A client ends, and one that knows nothing takes its place.
    Crash(Client),
    /// A client begins or renews its session. If a copy may be missing, that of this node is.
    Register(Client, Node),
    /// The primary grants the lock. If a copy may be missing, that of this node is.
    Acquire(Client, Node),
    /// The reply to that arrives.
    Learn(Client),
    Renew(Client, Node),
    Release(Client),
    /// A session moves to a later primary, which is in grace.
    Move(Client),
    Verify(Client),
    /// A client finds that grace is over, and says so in the marker.
    EndGrace(Client),
}

impl Failover {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether the client may be in the critical section.
    pub(crate) fn trusts(&self, process: &Process) -> bool {
        process.hold > 0 && (self.way != Way::Reclaim || process.session > 0)
    }

    /// The primary that a client reaches, and what its scripts read as its identity.
    fn primary(state: &State, client: Client) -> Option<(Node, Identity)> {
        let node = state.processes[client].connection?;
        let server = &state.servers[node];
        match server.role {
            Role::Primary(identity) => Some((node, server.was.unwrap_or(identity))),
            Role::ReplicaOf(_) => None,
        }
    }

    /// Whether the client has a session that is for this primary, where sessions are needed.
    fn has_session(&self, process: &Process, identity: Identity) -> bool {
        self.way != Way::Reclaim || process.session > 0 && process.of.0 == identity
    }

    /// Whether the primary that calls itself so grants and renews.
    fn is_open(&self, data: &Data, identity: Identity) -> bool {
        self.way != Way::Reclaim || data.marker == identity
    }

    /// Sends all that the primary has to its replicas, and says whether so many have it that the last write counts.
    fn wait_for_copies(&self, state: &mut State, primary: Node, missing: Node) -> bool {
        let data = state.servers[primary].data.clone();
        let may_miss = self.has(Fault::OneCopyIsMissing);
        let mut copies = 0;
        for (node, server) in state.servers.iter_mut().enumerate() {
            if server.role == Role::ReplicaOf(primary) && !(may_miss && node == missing) {
                server.data = data.clone();
                copies += 1;
            }
        }
        copies + usize::from(may_miss) >= self.nodes - 1
    }

    fn tick(state: &mut State) {
        let pass = |left: &mut u8| *left = left.saturating_sub(1);
        for server in &mut state.servers {
            let data = &mut server.data;
            pass(&mut data.lease);
            if data.lease == 0 {
                data.holder = None;
            }
            if let Some((_, left)) = &mut data.grace {
                pass(left);
            }
        }
        for process in &mut state.processes {
            pass(&mut process.session);
            pass(&mut process.granted);
            pass(&mut process.hold);
        }
    }

    fn copy(state: &mut State, replica: Node) -> Option<()> {
        let Role::ReplicaOf(primary) = state.servers[replica].role else {
            return None;
        };
        if !matches!(state.servers[primary].role, Role::Primary(_)) {
            return None;
        }
        state.servers[replica].data = state.servers[primary].data.clone();
        Some(())
    }

    fn promote(&self, state: &mut State, replica: Node) -> Option<()> {
        let identity = state.newest.1 + 1;
        if identity > self.promotions || !matches!(state.servers[replica].role, Role::ReplicaOf(_))
        {
            return None;
        }
        state.servers[replica].role = Role::Primary(identity);
        if self.has(Fault::IdentityIsKept) {
            state.servers[replica].was.get_or_insert(identity);
        }
        state.newest = (replica, identity);
        Some(())
    }

    fn follow(state: &mut State, node: Node) -> Option<()> {
        let newest = state.newest.0;
        if node == newest || state.servers[node].role == Role::ReplicaOf(newest) {
            return None;
        }
        state.servers[node].role = Role::ReplicaOf(newest);
        state.servers[node].data = state.servers[newest].data.clone();
        Some(())
    }

    fn connect(state: &mut State, client: Client, node: Node) {
        let process = &mut state.processes[client];
        process.connection = Some(node);
        process.granted = 0;
    }

    fn register(&self, state: &mut State, client: Client, missing: Node) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let data = &mut state.servers[node].data;
        let process = &mut state.processes[client];
        let is_new = process.session == 0;
        let may = self.is_open(data, identity) || data.verified.contains(&client);
        if self.way != Way::Reclaim || !may || !is_new && process.of.0 != identity {
            return None;
        }
        data.known.insert(client);
        if is_new && !self.has(Fault::SessionRevivesHold) {
            (process.hold, process.granted) = (0, 0);
        }
        let number = number(data, identity);
        if self.wait_for_copies(state, node, missing) {
            let process = &mut state.processes[client];
            (process.session, process.of) = (self.session, (identity, number));
        }
        Some(())
    }

    fn acquire(&self, state: &mut State, client: Client, missing: Node) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let process = state.processes[client];
        let data = &mut state.servers[node].data;
        let is_free = data.holder.is_none_or(|holder| holder == client);
        if process.hold + process.granted > 0
            || !self.has_session(&process, identity)
            || !is_free
            || !self.is_open(data, identity)
        {
            return None;
        }
        data.holder = Some(client);
        data.lease = self.lease;
        if self.way != Way::CopiesOfEach || self.wait_for_copies(state, node, missing) {
            state.processes[client].granted = self.lease;
            state.processes[client].granted_by = identity;
        }
        Some(())
    }

    fn renew(&self, state: &mut State, client: Client, missing: Node) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let process = &state.processes[client];
        let data = &mut state.servers[node].data;
        let renews = self.is_open(data, identity) && self.has_session(process, identity);
        if !self.trusts(process)
            || data.holder != Some(client)
            || !(renews || self.has(Fault::RenewsInGrace))
        {
            return None;
        }
        data.lease = self.lease;
        if self.way != Way::CopiesOfEach || self.wait_for_copies(state, node, missing) {
            state.processes[client].hold = self.lease;
        }
        Some(())
    }

    fn release(state: &mut State, client: Client) -> Option<()> {
        let (node, _) = Self::primary(state, client)?;
        if state.processes[client].hold == 0 {
            return None;
        }
        state.processes[client].hold = 0;
        remove(&mut state.servers[node].data, client);
        Some(())
    }

    fn move_on(&self, state: &mut State, client: Client) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let process = &mut state.processes[client];
        let data = &state.servers[node].data;
        let number = number(data, identity);
        let is_later = number > process.of.1 || self.has(Fault::GoesBack);
        let may_move = process.session > 0 && is_later;
        if self.is_open(data, identity) || self.has_session(process, identity) || !may_move {
            return None;
        }
        process.of = (identity, number);
        if !self.has(Fault::LateGrantCounts) {
            process.granted = 0;
        }
        Some(())
    }

    fn verify(&self, state: &mut State, client: Client) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let process = &mut state.processes[client];
        let data = &mut state.servers[node].data;
        let may = process.session == 0
            || process.of.0 == identity
            || self.has(Fault::MovesWhenAnswered) && number(data, identity) > process.of.1;
        if self.is_open(data, identity) || !may {
            return None;
        }
        if data.grace.is_none_or(|(of, _)| of != identity) {
            data.grace = Some((identity, self.session));
            data.verified.clear();
        }
        if self.trusts(process) {
            data.holder = Some(client);
            data.lease = data.lease.max(process.hold);
        } else {
            remove(data, client);
        }
        data.known.insert(client);
        data.verified.insert(client);
        Some(())
    }

    fn end_grace(&self, state: &mut State, client: Client) -> Option<()> {
        let (node, identity) = Self::primary(state, client)?;
        let data = &mut state.servers[node].data;
        let (of, left) = data.grace?;
        let is_over =
            data.known.is_subset(&data.verified) || left == 0 || self.has(Fault::GraceEndsEarly);
        if of != identity || !is_over {
            return None;
        }
        data.number = number(data, identity);
        data.marker = identity;
        data.grace = None;
        data.known = std::mem::take(&mut data.verified);
        Some(())
    }
}

/// The number of a primary with this data.
fn number(data: &Data, identity: Identity) -> u8 {
    data.number + u8::from(data.marker != identity)
}

fn remove(data: &mut Data, client: Client) {
    if data.holder == Some(client) {
        data.holder = None;
        data.lease = 0;
    }
}

impl Model for Failover {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let role = |node| {
            if node == 0 {
                Role::Primary(0)
            } else {
                Role::ReplicaOf(0)
            }
        };
        let server = |node| Server {
            role: role(node),
            was: (node == 0 && self.has(Fault::IdentityIsKept)).then_some(0),
            data: Data::default(),
        };
        vec![State {
            servers: (0..self.nodes).map(server).collect(),
            processes: vec![Process::default(); self.clients],
            newest: (0, 0),
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for node in 0..self.nodes {
            steps.extend([Step::Copy(node), Step::Promote(node), Step::Follow(node)]);
        }
        let may_miss = self.has(Fault::OneCopyIsMissing);
        for client in 0..self.clients {
            use Step::{
                Acquire, Connect, Crash, EndGrace, Learn, Move, Register, Release, Renew, Verify,
            };
            steps.extend((0..self.nodes).map(|node| Connect(client, node)));
            let alone = [Crash, Learn, Release, Move, Verify, EndGrace];
            steps.extend(alone.map(|step| step(client)));
            for missing in 0..if may_miss { self.nodes } else { 1 } {
                steps.extend([Register, Acquire, Renew].map(|step| step(client, missing)));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => Self::tick(&mut state),
            Step::Copy(node) => Self::copy(&mut state, node)?,
            Step::Promote(node) => self.promote(&mut state, node)?,
            Step::Follow(node) => Self::follow(&mut state, node)?,
            Step::Connect(client, node) => Self::connect(&mut state, client, node),
            Step::Crash(client) => state.processes[client] = Process::default(),
            Step::Register(client, missing) => self.register(&mut state, client, missing)?,
            Step::Acquire(client, missing) => self.acquire(&mut state, client, missing)?,
            Step::Learn(client) => {
                let process = &mut state.processes[client];
                process.hold = std::mem::take(&mut process.granted).max(process.hold);
            }
            Step::Renew(client, missing) => self.renew(&mut state, client, missing)?,
            Step::Release(client) => Self::release(&mut state, client)?,
            Step::Move(client) => self.move_on(&mut state, client)?,
            Step::Verify(client) => self.verify(&mut state, client)?,
            Step::EndGrace(client) => self.end_grace(&mut state, client)?,
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
            Property::sometimes(
                "a lock is taken after a failover",
                |model: &Self, state: &State| {
                    let taken_there = |process: &Process| {
                        process.connection == Some(state.newest.0) && process.granted == model.lease
                    };
                    state.newest.1 > 0 && state.processes.iter().any(taken_there)
                },
            ),
            Property::sometimes(
                "a hold outlives a failover",
                |model: &Self, state: &State| {
                    let (node, identity) = state.newest;
                    let data = &state.servers[node].data;
                    let is_kept = |holder: Client| {
                        let process = &state.processes[holder];
                        model.trusts(process) && process.granted_by < identity
                    };
                    identity > 0
                        && data.grace.is_none()
                        && model.is_open(data, identity)
                        && data.holder.is_some_and(is_kept)
                },
            ),
        ]
    }
}
