//! Writes the histories of the tests. All times are in milliseconds. The common lease is one
//! second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_specification::trace::{Answer, Asked, Entry, Said};
use leasehold_testbed::keyslot;

use crate::check::{Rules, check};
use crate::history::{Doing, Event, Mode, Scope, What};
use crate::result::Cell;

pub(super) const LEASE: u64 = 1_000;
/// The interval between two renewals.
pub(super) const RENEWED: usize = 300;

pub(super) const A: Actor = Actor::new(1, "plain:0");
pub(super) const B: Actor = Actor::new(2, "plain:0");
pub(super) const C: Actor = Actor::new(3, "plain:0");

pub(super) fn rules() -> Rules {
    Rules {
        lease: Duration::from_millis(LEASE),
        permits: 2,
        fair: set(&["fair"]),
        lasting: set(&["lasting"]),
        may_wedge: BTreeSet::new(),
        replaced_by: set(&["failover"]),
        emptied_by: set(&["restart"]),
        notice_within: Duration::from_millis(400),
        tells_losses: true,
        idle: Duration::from_secs(1),
        rivalry: Duration::from_millis(200),
        recovers_within: Duration::from_secs(3),
        calm_after: Duration::from_secs(3),
        documented_errors: set(&["unavailable", "Lost", FORBIDDEN]),
        knows_deadlines: true,
        keeps_deadlines: true,
    }
}

/// The kind of error if a server refuses a call.
pub(super) const FORBIDDEN: &str = "Protocol";

const DETAIL: &str = "of a server";

fn set(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(ToString::to_string).collect()
}

pub(super) fn process(number: u32) -> Scope {
    Scope {
        processes: vec![number],
        slots: Vec::new(),
    }
}

/// The slot of this lock.
pub(super) fn slot_of(lock: &str) -> Scope {
    let slot = keyslot(lock);
    Scope {
        processes: Vec::new(),
        slots: vec![(slot, slot)],
    }
}

/// This process, and the slot of this lock.
pub(super) fn process_and_slot_of(number: u32, lock: &str) -> Scope {
    Scope {
        processes: vec![number],
        ..slot_of(lock)
    }
}

/// The only worker of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    process: u32,
    name: &'static str,
    mode: Mode,
}

impl Actor {
    pub(super) const fn new(process: u32, name: &'static str) -> Self {
        Self {
            process,
            name,
            mode: Mode::Exclusive,
        }
    }

    pub(super) const fn of(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) const fn with(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Script {
    actor: Actor,
    events: Vec<Event>,
    steps: Vec<Entry>,
}

pub(super) fn by(actor: Actor) -> Script {
    Script {
        actor,
        events: Vec::new(),
        steps: Vec::new(),
    }
}

pub(super) fn event(at: u64, actor: Actor, what: What) -> Event {
    let at = nanos(at);
    Event {
        at,
        wall: at,
        process: actor.process,
        worker: 0,
        name: actor.name.to_owned(),
        what,
    }
}

fn nanos(millis: u64) -> u64 {
    millis * 1_000_000
}

impl Script {
    pub(super) fn by(self, actor: Actor) -> Self {
        Self { actor, ..self }
    }

    pub(super) fn does(mut self, at: u64, what: What) -> Self {
        self.events.push(event(at, self.actor, what));
        self
    }

    pub(super) fn asks(self, at: u64) -> Self {
        let mode = self.actor.mode;
        self.does(
            at,
            What::Asked {
                mode,
                fixed_ms: None,
                renewed_ms: None,
            },
        )
    }

    /// Asks for a fixed lease.
    pub(super) fn asks_for(self, at: u64, fixed: u64) -> Self {
        let mode = self.actor.mode;
        self.does(
            at,
            What::Asked {
                mode,
                fixed_ms: Some(fixed),
                renewed_ms: None,
            },
        )
    }

    /// Asks for a renewed lease of this length.
    pub(super) fn asks_renewed_for(self, at: u64, lease: u64) -> Self {
        let mode = self.actor.mode;
        self.does(
            at,
            What::Asked {
                mode,
                fixed_ms: None,
                renewed_ms: Some(lease),
            },
        )
    }

    pub(super) fn gets(self, at: u64) -> Self {
        self.gets_until(at, Some(at + LEASE))
    }

    pub(super) fn gets_until(self, at: u64, until: Option<u64>) -> Self {
        self.does(
            at,
            What::Granted {
                until: until.map(nanos),
                token: None,
                field: None,
            },
        )
    }

    pub(super) fn gets_token(self, at: u64, token: i64) -> Self {
        let until = Some(nanos(at + LEASE));
        self.does(
            at,
            What::Granted {
                until,
                token: Some(token),
                field: None,
            },
        )
    }

    pub(super) fn times_out(self, at: u64) -> Self {
        self.does(
            at,
            What::Refused {
                error: "timeout".to_owned(),
                timeout: true,
            },
        )
    }

    pub(super) fn fails(self, at: u64, error: &str) -> Self {
        self.does(
            at,
            What::Refused {
                error: error.to_owned(),
                timeout: false,
            },
        )
    }

    pub(super) fn holds(self, at: u64) -> Self {
        self.holds_until(at, Some(at + LEASE))
    }

    pub(super) fn holds_until(self, at: u64, until: Option<u64>) -> Self {
        self.does(
            at,
            What::Held {
                until: until.map(nanos),
            },
        )
    }

    pub(super) fn doubts(self, at: u64) -> Self {
        self.does(at, What::Doubted)
    }

    pub(super) fn loses(self, at: u64) -> Self {
        self.does(
            at,
            What::Lost {
                reason: "gone".to_owned(),
            },
        )
    }

    pub(super) fn write_accepted(self, at: u64) -> Self {
        self.does(at, What::Wrote { accepted: true })
    }

    pub(super) fn write_refused(self, at: u64) -> Self {
        self.does(at, What::Wrote { accepted: false })
    }

    /// Releases without an error.
    pub(super) fn releases(self, at: u64) -> Self {
        self.does(at, What::Releasing)
            .does(at + 1, What::Released { error: None })
    }

    pub(super) fn release_fails(self, at: u64, error: &str) -> Self {
        let error = Some(error.to_owned());
        self.does(at, What::Releasing)
            .does(at + 1, What::Released { error })
    }

    /// Asks for the lock, gets it, keeps it, and releases it.
    pub(super) fn has(self, asked: u64, granted: u64, released: u64) -> Self {
        self.asks(asked)
            .gets(granted)
            .keeps(granted, released)
            .releases(released)
    }

    /// Like `has`, with the steps: its first call is sent, and is answered.
    pub(super) fn queues(
        mut self,
        asked: u64,
        (sent, answered): (u64, u64),
        granted: u64,
        released: u64,
    ) -> Self {
        let client = self.actor.process;
        let field = format!("field of process {client}");
        let step = |at, said| Entry {
            at: nanos(at),
            client,
            server: 0,
            key: self.actor.name.to_owned(),
            said,
        };
        let sends = Said::Sent {
            call: 1,
            kind: Asked::Acquire,
            field: field.clone(),
            lease: 1_000,
            under: String::new(),
        };
        let told = Said::Answered {
            call: 1,
            answer: Answer::No,
        };
        // Threads write their steps in any order.
        self.steps.extend([step(answered, told), step(sent, sends)]);
        let granting = What::Granted {
            until: Some(nanos(granted + LEASE)),
            token: None,
            field: Some(field),
        };
        self.asks(asked)
            .does(granted, granting)
            .keeps(granted, released)
            .releases(released)
    }

    /// Confirms the hold after each renewal.
    pub(super) fn keeps(self, from: u64, to: u64) -> Self {
        (from..to).step_by(RENEWED).skip(1).fold(self, Self::holds)
    }

    pub(super) fn uses_hold(self, at: u64, what: Doing) -> Self {
        self.does(at, What::Did { what, error: None })
    }

    pub(super) fn starts(self, at: u64) -> Self {
        self.does(
            at,
            What::Started {
                pid: 1,
                library: "l".to_owned(),
            },
        )
    }

    /// The process ends.
    pub(super) fn ends(self, at: u64) -> Self {
        self.does(
            at,
            What::Ended {
                counts: BTreeMap::new(),
                error: None,
            },
        )
    }

    /// A timer of the driver was late by this much.
    pub(super) fn stalled(mut self, at: u64, millis: u64) -> Self {
        self.events
            .push(event(at, Actor::new(0, ""), What::Stalled { millis }));
        self
    }

    pub(super) fn on(self, at: u64, fault: &str) -> Self {
        self.on_at(at, fault, Scope::default())
    }

    pub(super) fn off(self, at: u64, fault: &str) -> Self {
        let (detail, scope) = (DETAIL.to_owned(), Scope::default());
        self.fault(
            at,
            What::Fault {
                fault: fault.to_owned(),
                on: false,
                detail,
                scope,
            },
        )
    }

    /// The fault begins, in this scope only.
    pub(super) fn on_at(self, at: u64, fault: &str, scope: Scope) -> Self {
        let detail = DETAIL.to_owned();
        self.fault(
            at,
            What::Fault {
                fault: fault.to_owned(),
                on: true,
                detail,
                scope,
            },
        )
    }

    pub(super) fn fault(mut self, at: u64, what: What) -> Self {
        self.events.push(event(at, Actor::new(0, ""), what));
        self
    }

    /// The cells of the history. The run begins at 0.
    pub(super) fn cells(mut self, rules: &Rules) -> Vec<Cell> {
        let sample = What::Sample {
            rss_kib: 0,
            descriptors: 0,
            threads: 0,
        };
        self.events.push(event(0, Actor::new(9, ""), sample));
        self.events.sort_by_key(|event| event.at);
        check(&self.events, &self.steps, rules)
    }

    pub(super) fn cell_by(self, rules: &Rules) -> Cell {
        let mut cells = self.cells(rules);
        assert_eq!(cells.len(), 1, "{cells:?}");
        cells.remove(0)
    }

    pub(super) fn cell(self) -> Cell {
        self.cell_by(&rules())
    }

    /// There are no violations, and no excused overlaps or losses.
    pub(super) fn finds_nothing(self) {
        let cell = self.cell();
        assert_eq!(cell.violations, [""; 0]);
        assert_eq!(cell.explained, [""; 0]);
    }

    /// There is exactly one violation, and its text contains all parts.
    pub(super) fn finds(self, parts: &[&str]) -> Cell {
        let cell = self.cell();
        assert_eq!(cell.violations.len(), 1, "{:#?}", cell.violations);
        for part in parts {
            assert!(
                cell.violations[0].contains(part),
                "{part}: {}",
                cell.violations[0]
            );
        }
        cell
    }
}
