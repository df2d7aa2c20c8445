//! The failover of a primary whose copies are asynchronous, and two ways to live with it.
//!
//! # The system
//!
//! One primary has replicas. A write reaches a replica some time later, or never ([`Step::Copy`]).
//! The primary *changes* when another server is promoted, whatever data it has ([`Step::Promote`]),
//! and when it restarts, with its data or without ([`Step::Restart`], [`Step::Forget`]). Each
//! change gives the primary a new *identity*. A former primary does not know that it was replaced,
//! and goes on serving the clients that are connected to it. Later it may follow the new primary
//! and take its data ([`Step::Follow`]).
//!
//! Clients take one lock. A client *trusts* its hold as long as it may be in the critical section.
//! Its guard says *held* until the client notices that its connection is gone, then *uncertain*
//! until a primary has confirmed the hold. Each acquisition has a field of its own. A client that
//! is refused is listed. A release hands the lock over to the listed client, and sends it a
//! message.
//!
//! # Copies of each grant
//!
//! A grant and a renewal count when all replicas have them. No server may lose its data.
//!
//! # A grace
//!
//! Nobody acquires the lock on a server that has just become the primary.
//! - A client that reaches another primary than the last one that it used sends no acquisition
//!   there for the *grace*, counted from that moment. Going back to a former primary is a change,
//!   too. The first primary that a client ever reaches is none.
//! - Before anything else, it verifies its hold there by a renewal. A hold that this primary does
//!   not have is lost.
//! - Renewals and releases are not delayed. But at the beginning of the grace, a renewal does not
//!   move the deadline of the guard. The former primary may still count the former lease, and grant
//!   the lock to another client when that ends.
//! - A release that a former primary did not confirm is repeated at the new one.
//! - A message that hands over the lock counts only if its client was refused on the same
//!   connection. In a grace it has not asked there, so it asks again afterwards.
//!
//! # What the model assumes
//!
//! Clocks run at the same speed. All connections to a former primary end before `silence` has
//! passed since the change. A client with a hold and without a connection reaches a primary before
//! `reconnect` has passed. A former primary may stop writing when `lag` has passed since the
//! change, because it has lost its replicas (`min-replicas-max-lag`). Connecting and verifying are
//! one step.

use stateright::{Model, Property};

pub(crate) type Client = usize;
pub(crate) type Node = usize;

/// What a primary is. The first one is 0, and the n-th change makes n.
pub(crate) type Identity = u8;

/// A rule that is left out, to see that the model needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write counts although the last replica does not have it.
    OneCopyIsMissing,
    /// A client takes its hold along to another primary, and verifies it at the next renewal.
    VerifiesLate,
    /// A client verifies its hold by a look, which leaves the lease in Redis as it is.
    VerifiesWithoutRenewal,
    /// A client counts the grace from the loss of its connection.
    CountsFromTheLoss,
    /// A primary that the client has used before is no change, and ends its grace.
    GoesBack,
    /// A server that is promoted again keeps the identity that it had as a primary before.
    IdentityIsKept,
    /// A message hands the lock over to a client that was not refused on this connection.
    GiftCountsInGrace,
}

/// What may not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Trusted,
    Held,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Failover {
    /// Whether a grant and a renewal wait for copies.
    pub(crate) copies: bool,
    pub(crate) judged: Judged,
    pub(crate) clients: usize,
    pub(crate) nodes: usize,
    /// How often the primary changes.
    pub(crate) changes: Identity,
    /// The least time between two changes, in steps like all times below.
    pub(crate) apart: u8,
    /// Whether processes begin that have used no primary.
    pub(crate) newcomers: bool,
    pub(crate) lease: u8,
    pub(crate) grace: u8,
    /// For how long of its grace a client does not count renewals.
    pub(crate) frozen: u8,
    /// `None` if clients may notice a change at any time later.
    pub(crate) silence: Option<u8>,
    /// `None` if holders may come back at any time later.
    pub(crate) reconnect: Option<u8>,
    /// `None` if a former primary goes on writing.
    pub(crate) lag: Option<u8>,
    pub(crate) fault: Option<Fault>,
}

/// The field of a client's acquisition.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Field {
    Latest(Client),
    Ended(Client),
}

/// What a primary has and its replicas copy.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Data {
    holder: Option<Field>,
    /// The rest of the holder's lease.
    lease: u8,
    /// The client that was refused. The list ends with the lock.
    listed: Option<Client>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Role {
    Primary(Identity),
    ReplicaOf(Node),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Server {
    role: Role,
    /// The identity that clients read.
    name: Option<Identity>,
    data: Data,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Process {
    connection: Option<(Node, Identity)>,
    /// How long it has had a hold and no connection.
    away: u8,
    /// The last primary that it used.
    last: Option<Identity>,
    /// The rest of its grace.
    grace: u8,
    /// Whether it was refused on this connection.
    was_refused: bool,
    /// The reply or the message about a grant is in flight: what is left of the lease.
    granted: u8,
    /// The rest of its hold.
    hold: u8,
    /// The primary that granted it.
    granted_by: Identity,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    servers: Vec<Server>,
    processes: Vec<Process>,
    newest: (Node, Identity),
    /// For each former primary, the time since it was replaced, as far as something depends on it.
    replaced: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes for everybody.
    Tick,
    /// A replica receives all that its primary has.
    Copy(Node),
    /// A replica becomes the primary.
    Promote(Node),
    /// The primary restarts with its data.
    Restart,
    /// The primary restarts without its data.
    Forget,
    /// A server follows the newest primary and takes its data.
    Follow(Node),
    /// A process ends, and one that has used no primary takes its place.
    Begin(Client),
    Connect(Client, Node),
    /// A client notices that its connection is gone.
    Disconnect(Client),
    /// The primary grants the lock, or refuses it and lists the client.
    Acquire(Client),
    /// The reply or the message about a grant arrives.
    Learn(Client),
    Renew(Client),
    /// A client ends its hold, or repeats the release of an earlier one.
    Release(Client),
}

impl Failover {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether the hold may not overlap with another one.
    fn is_judged(&self, process: &Process) -> bool {
        process.hold > 0 && (self.judged == Judged::Trusted || process.connection.is_some())
    }

    /// Whether a primary was replaced longer ago than that.
    fn is_past(state: &State, identity: Identity, limit: Option<u8>) -> bool {
        let replaced = state.replaced.get(usize::from(identity)).copied();
        limit.is_some() && replaced > limit
    }

    /// The primary that answers the client, and takes its writes.
    fn primary(&self, state: &State, client: Client) -> Option<Node> {
        let (node, identity) = state.processes[client].connection?;
        let is_there = state.servers[node].role == Role::Primary(identity);
        (is_there && !Self::is_past(state, identity, self.lag)).then_some(node)
    }

    /// Sends all that the primary has to its replicas if the last write needs it, and says whether
    /// that write counts.
    fn is_copied(&self, state: &mut State, primary: Node) -> bool {
        if !self.copies {
            return true;
        }
        let data = state.servers[primary].data.clone();
        let needed = self.nodes - usize::from(self.has(Fault::OneCopyIsMissing));
        let mut copies = 1;
        for server in &mut state.servers[..needed] {
            if server.role == Role::ReplicaOf(primary) {
                server.data = data.clone();
                copies += 1;
            }
        }
        copies >= needed
    }

    fn tick(&self, state: &mut State) -> Option<()> {
        let longest = self.silence.max(self.lag).map_or(0, |limit| limit + 1);
        for replaced in &mut state.replaced {
            *replaced = (*replaced + 1).min(longest.max(self.apart));
        }
        for Server { data, .. } in &mut state.servers {
            data.lease = data.lease.saturating_sub(1);
            if data.lease == 0 {
                *data = Data::default();
            }
        }
        for client in 0..self.clients {
            let process = &mut state.processes[client];
            process.grace = process.grace.saturating_sub(1);
            process.granted = process.granted.saturating_sub(1);
            if process.hold == 1 {
                Self::end(state, client);
            } else if process.hold > 0 {
                process.hold -= 1;
                let is_away = process.connection.is_none() && self.reconnect.is_some();
                process.away += u8::from(is_away);
            }
        }
        let is_late = |process: &Process| match process.connection {
            Some((_, identity)) => Self::is_past(state, identity, self.silence),
            None => self.reconnect.is_some_and(|limit| process.away > limit),
        };
        (!state.processes.iter().any(is_late)).then_some(())
    }

    fn copy(state: &mut State, replica: Node) -> Option<()> {
        let Role::ReplicaOf(primary) = state.servers[replica].role else {
            return None;
        };
        state.servers[replica].data = state.servers[primary].data.clone();
        Some(())
    }

    fn promote(&self, state: &mut State, node: Node) -> Option<()> {
        let identity = state.newest.1 + 1;
        let is_soon = |replaced: &u8| *replaced < self.apart;
        if identity > self.changes || state.replaced.last().is_some_and(is_soon) {
            return None;
        }
        let server = &mut state.servers[node];
        server.role = Role::Primary(identity);
        server.name.take_if(|_| !self.has(Fault::IdentityIsKept));
        server.name.get_or_insert(identity);
        state.newest = (node, identity);
        state.replaced.push(0);
        Some(())
    }

    fn restart(&self, state: &mut State) -> Option<()> {
        let node = state.newest.0;
        state.servers[node].name = None;
        self.promote(state, node)
    }

    fn follow(state: &mut State, node: Node) -> Option<()> {
        let newest = state.newest.0;
        if node == newest || state.servers[node].role == Role::ReplicaOf(newest) {
            return None;
        }
        state.servers[node].role = Role::ReplicaOf(newest);
        Self::copy(state, node)
    }

    fn connect(&self, state: &mut State, client: Client, node: Node) -> Option<()> {
        let server = state.servers[node].clone();
        let Role::Primary(identity) = server.role else {
            return None;
        };
        let is_past = |limit| Self::is_past(state, identity, limit);
        let is_connected = state.processes[client].connection == Some((node, identity));
        if is_connected || is_past(self.silence) || is_past(self.lag) {
            return None;
        }
        self.disconnect(state, client);
        let process = &mut state.processes[client];
        process.connection = Some((node, identity));
        process.away = 0;
        if self.has(Fault::GoesBack) && process.last > server.name {
            process.grace = 0;
        } else {
            let last = std::mem::replace(&mut process.last, server.name);
            if last.is_some() && last != server.name && !self.has(Fault::CountsFromTheLoss) {
                process.grace = self.grace;
            }
        }
        let has_it = server.data.holder == Some(Field::Latest(client));
        let looks = has_it && self.has(Fault::VerifiesWithoutRenewal);
        if !looks && !self.has(Fault::VerifiesLate) {
            self.renew(state, client);
        }
        Some(())
    }

    fn disconnect(&self, state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        process.connection.take()?;
        (process.was_refused, process.granted) = (false, 0);
        if self.has(Fault::CountsFromTheLoss) {
            process.grace = self.grace;
        }
        Some(())
    }

    fn acquire(&self, state: &mut State, client: Client) -> Option<()> {
        let node = self.primary(state, client)?;
        let (data, field) = (&mut state.servers[node].data, Field::Latest(client));
        let process = &mut state.processes[client];
        if process.hold + process.granted + process.grace > 0 {
            return None;
        }
        process.was_refused = data.holder.is_some_and(|holder| holder != field);
        if process.was_refused {
            process.was_refused = *data.listed.get_or_insert(client) == client;
            return Some(());
        }
        data.listed.take_if(|listed| *listed == client);
        (data.holder, data.lease) = (Some(field), self.lease);
        if self.is_copied(state, node) {
            state.processes[client].granted = self.lease;
        }
        Some(())
    }

    fn learn(state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        let (_, identity) = process.connection.filter(|_| process.granted > 0)?;
        process.hold = std::mem::take(&mut process.granted);
        process.granted_by = identity;
        Some(())
    }

    fn renew(&self, state: &mut State, client: Client) -> Option<()> {
        let node = self.primary(state, client)?;
        let (data, process) = (&mut state.servers[node].data, state.processes[client]);
        if process.hold == 0 {
            return None;
        }
        if data.holder != Some(Field::Latest(client)) {
            Self::end(state, client);
            return Some(());
        }
        data.lease = self.lease;
        let is_frozen = process.grace + self.frozen > self.grace;
        if self.is_copied(state, node) && !is_frozen {
            state.processes[client].hold = self.lease;
        }
        Some(())
    }

    /// Ends the hold, or repeats the release of an earlier one. Hands the lock over if the client
    /// that is listed hears of it.
    fn release(&self, state: &mut State, client: Client) -> Option<()> {
        let node = self.primary(state, client)?;
        if state.processes[client].hold > 0 {
            Self::end(state, client);
        }
        let data = &mut state.servers[node].data;
        if data.holder != Some(Field::Ended(client)) {
            return Some(());
        }
        let connection = state.processes[client].connection;
        let hears = |next: &Client| state.processes[*next].connection == connection;
        if let Some(next) = std::mem::take(data).listed.filter(hears) {
            (data.holder, data.lease) = (Some(Field::Latest(next)), self.lease);
            let process = &mut state.processes[next];
            let was_refused = std::mem::take(&mut process.was_refused);
            if was_refused && !self.copies
                || process.hold == 0 && self.has(Fault::GiftCountsInGrace)
            {
                process.granted = self.lease;
            }
        }
        Some(())
    }

    /// The client has ended its acquisition. The next one has another field.
    fn end(state: &mut State, client: Client) {
        let process = &mut state.processes[client];
        (process.hold, process.granted, process.away) = (0, 0, 0);
        (process.granted_by, process.was_refused) = (0, false);
        for Server { data, .. } in &mut state.servers {
            data.listed.take_if(|listed| *listed == client);
            if data.holder == Some(Field::Latest(client)) {
                data.holder = Some(Field::Ended(client));
            }
        }
    }
}

impl Model for Failover {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let replica = Server {
            role: Role::ReplicaOf(0),
            name: None,
            data: Data::default(),
        };
        let mut servers = vec![replica; self.nodes];
        (servers[0].role, servers[0].name) = (Role::Primary(0), Some(0));
        let process = Process {
            connection: Some((0, 0)),
            last: Some(0),
            ..Process::default()
        };
        vec![State {
            servers,
            processes: vec![process; self.clients],
            newest: (0, 0),
            replaced: Vec::new(),
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        use Step::{Acquire, Begin, Connect, Disconnect, Learn, Release, Renew};
        steps.extend([Step::Tick, Step::Restart]);
        steps.extend((!self.copies).then_some(Step::Forget));
        for node in 0..self.nodes {
            steps.extend([Step::Copy, Step::Promote, Step::Follow].map(|step| step(node)));
        }
        for client in 0..self.clients {
            steps.extend(self.newcomers.then_some(Begin(client)));
            steps.extend((0..self.nodes).map(|node| Connect(client, node)));
            let others = [Disconnect, Acquire, Learn, Renew, Release];
            steps.extend(others.map(|step| step(client)));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => self.tick(&mut state)?,
            Step::Copy(node) => Self::copy(&mut state, node)?,
            Step::Promote(node) if node == last.newest.0 => return None,
            Step::Promote(node) => self.promote(&mut state, node)?,
            Step::Restart => self.restart(&mut state)?,
            Step::Forget => {
                self.restart(&mut state)?;
                state.servers[state.newest.0].data = Data::default();
            }
            Step::Follow(node) => Self::follow(&mut state, node)?,
            Step::Begin(client) => {
                Self::end(&mut state, client);
                state.processes[client] = Process::default();
            }
            Step::Connect(client, node) => self.connect(&mut state, client, node)?,
            Step::Disconnect(client) => self.disconnect(&mut state, client)?,
            Step::Acquire(client) => self.acquire(&mut state, client)?,
            Step::Learn(client) => Self::learn(&mut state, client)?,
            Step::Renew(client) => self.renew(&mut state, client)?,
            Step::Release(client) => self.release(&mut state, client)?,
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let invariant = match self.judged {
            Judged::Trusted => "at most one client trusts its hold",
            Judged::Held => "at most one guard says held",
        };
        let is_alone = |model: &Self, state: &State| {
            let judged = |process: &&Process| model.is_judged(process);
            state.processes.iter().filter(judged).count() <= 1
        };
        let is_taken = |model: &Self, state: &State| {
            let is_taken = |process: &Process| {
                process.connection == Some(state.newest) && process.granted == model.lease
            };
            state.newest.1 > 0 && state.processes.iter().any(is_taken)
        };
        let is_kept = |_: &Self, state: &State| {
            let is_kept = |process: &Process| {
                let is_new = process.connection == Some(state.newest);
                is_new && process.hold > 0 && process.granted_by < state.newest.1
            };
            state.processes.iter().any(is_kept)
        };
        vec![
            Property::always(invariant, is_alone),
            Property::sometimes("a lock is taken after a failover", is_taken),
            Property::sometimes("a hold outlives a failover", is_kept),
        ]
    }
}
