//! The read/write lock: one hash with a mode, in which each reader has its own lease.
//!
//! # The system
//!
//! Redis has the fields of the lock, its mode, the lease of the hash, and a key beside it for the
//! lease of each reader. A release sets the lease of the hash to that of its longest reader. A
//! reader that has died leaves its field in it; the field counts until the hash ends or a release
//! finds that the reader's own lease is over.
//!
//! A call and its reply are one step here, as in the quorum (`quorum.rs`), and a client has one
//! field. With many readers, the scripts look at some of them only: that is left out.
//!
//! A writer may read too. When it has released its write hold, the lock becomes a read lock (a
//! *downgrade*). A reader never becomes a writer: it would wait for itself.

use std::collections::BTreeMap;

use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A reader enters beside a writer of another client.
    ReaderIgnoresWriter,
    /// The lease of the hash is set to that of the last reader, although others read for longer.
    ReaderShortensLease,
    /// A release of a reader deletes the hash, although others read.
    ReleaseEndsReaders,
    /// A writer that releases does not leave its read hold behind.
    NoDowngrade,
    /// A release sets the lease of the hash to that of the shortest reader who is left.
    KeepsShortestReader,
}

#[derive(Clone, Debug)]
pub(crate) struct ReadWrite {
    pub(crate) clients: usize,
    /// The longest lease, in steps of time. Odd clients take a shorter one.
    pub(crate) lease: u8,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    Write,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    /// The fields of readers, each with the rest of its own lease.
    pub(crate) readers: BTreeMap<usize, u8>,
    pub(crate) writer: Option<usize>,
    /// The rest of the lease of the hash.
    pub(crate) lease: u8,
    /// A client has released its write hold and reads on.
    pub(crate) has_downgraded: bool,
    /// The rest of the holds as the clients know them: of reading and of writing.
    pub(crate) reads: Vec<u8>,
    pub(crate) writes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Read(usize),
    Write(usize),
    RenewRead(usize),
    RenewWrite(usize),
    EndRead(usize),
    EndWrite(usize),
    /// A client dies. One that knows nothing takes its place.
    Crash(usize),
}

impl ReadWrite {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn lease(&self, client: usize) -> u8 {
        if client.is_multiple_of(2) {
            self.lease
        } else {
            self.lease - 1
        }
    }

    fn lengthen(&self, state: &mut State, lease: u8) {
        let shortens = self.has(Fault::ReaderShortensLease);
        state.lease = if shortens {
            lease
        } else {
            state.lease.max(lease)
        };
    }

    fn end_if_nobody_is_left(&self, state: &mut State) {
        state.readers.retain(|_, left| *left > 0);
        let own = state.readers.values().copied();
        let longest = if self.has(Fault::KeepsShortestReader) {
            own.min()
        } else {
            own.max()
        };
        if state.readers.is_empty() || self.has(Fault::ReleaseEndsReaders) {
            state.free();
        } else {
            state.mode = Mode::Read;
            state.lease = longest.unwrap_or_default();
        }
    }

    fn read(&self, state: &mut State, client: usize) -> Option<()> {
        let is_open = state.writer.is_none_or(|writer| writer == client)
            || self.has(Fault::ReaderIgnoresWriter);
        if !is_open
            || state.reads[client] > 0
            || state.writer == Some(client) && state.writes[client] == 0
        {
            return None;
        }
        state.readers.insert(client, self.lease(client));
        self.lengthen(state, self.lease(client));
        state.reads[client] = self.lease(client);
        Some(())
    }

    fn write(&self, state: &mut State, client: usize) -> Option<()> {
        if state.lease > 0 || state.reads[client] > 0 {
            return None;
        }
        state.mode = Mode::Write;
        state.writer = Some(client);
        state.lease = self.lease(client);
        state.writes[client] = self.lease(client);
        Some(())
    }

    fn renew_read(&self, state: &mut State, client: usize) -> Option<()> {
        if state.reads[client] == 0 || !state.readers.contains_key(&client) {
            return None;
        }
        state.readers.insert(client, self.lease(client));
        self.lengthen(state, self.lease(client));
        state.reads[client] = self.lease(client);
        Some(())
    }

    fn renew_write(&self, state: &mut State, client: usize) -> Option<()> {
        if state.writes[client] == 0 || state.writer != Some(client) {
            return None;
        }
        state.lease = state.lease.max(self.lease(client));
        state.writes[client] = self.lease(client);
        Some(())
    }

    fn end_read(&self, state: &mut State, client: usize) -> Option<()> {
        if state.reads[client] == 0 {
            return None;
        }
        state.reads[client] = 0;
        if state.readers.remove(&client).is_some() && state.mode == Mode::Read {
            self.end_if_nobody_is_left(state);
        }
        Some(())
    }

    fn end_write(&self, state: &mut State, client: usize) -> Option<()> {
        if state.writes[client] == 0 {
            return None;
        }
        state.writes[client] = 0;
        if state.writer == Some(client) {
            state.writer = None;
            state.has_downgraded |= state.reads[client] > 0;
            if self.has(Fault::NoDowngrade) {
                state.free();
            } else {
                self.end_if_nobody_is_left(state);
            }
        }
        Some(())
    }
}

impl State {
    fn free(&mut self) {
        self.mode = Mode::Read;
        self.readers.clear();
        self.writer = None;
        self.lease = 0;
    }

    fn tick(&mut self) {
        let pass = |left: &mut u8| *left = left.saturating_sub(1);
        pass(&mut self.lease);
        self.readers.values_mut().for_each(pass);
        self.reads.iter_mut().chain(&mut self.writes).for_each(pass);
        if self.lease == 0 {
            self.free();
        }
    }
}

impl Model for ReadWrite {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            mode: Mode::Read,
            readers: BTreeMap::new(),
            writer: None,
            lease: 0,
            has_downgraded: false,
            reads: vec![0; self.clients],
            writes: vec![0; self.clients],
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        use Step::{Crash, EndRead, EndWrite, Read, RenewRead, RenewWrite, Write};
        steps.push(Step::Tick);
        for client in 0..self.clients {
            steps.extend(
                [Read, Write, RenewRead, RenewWrite, EndRead, EndWrite, Crash]
                    .map(|step| step(client)),
            );
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => state.tick(),
            Step::Read(client) => self.read(&mut state, client)?,
            Step::Write(client) => self.write(&mut state, client)?,
            Step::RenewRead(client) => self.renew_read(&mut state, client)?,
            Step::RenewWrite(client) => self.renew_write(&mut state, client)?,
            Step::EndRead(client) => self.end_read(&mut state, client)?,
            Step::EndWrite(client) => self.end_write(&mut state, client)?,
            Step::Crash(client) => {
                state.reads[client] = 0;
                state.writes[client] = 0;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a writer is alone", |model: &Self, state: &State| {
                (0..model.clients)
                    .filter(|client| state.writes[*client] > 0)
                    .all(|writer| {
                        let others = (0..model.clients).filter(|other| *other != writer);
                        others
                            .clone()
                            .all(|other| state.writes[other] == 0 && state.reads[other] == 0)
                    })
            }),
            Property::always(
                "a guard stops trusting the lock before Redis frees it",
                |model: &Self, state: &State| {
                    (0..model.clients).all(|client| {
                        (state.writes[client] == 0 || state.writer == Some(client))
                            && (state.reads[client] == 0 || state.readers.contains_key(&client))
                    })
                },
            ),
            Property::sometimes("several read", |model: &Self, state: &State| {
                (0..model.clients).all(|client| state.reads[client] > 0)
            }),
            Property::sometimes("a writer becomes a reader", |_, state: &State| {
                state.has_downgraded && state.lease > 0
            }),
        ]
    }
}
