//! Made-up histories of locks, as input for the tests of timelines and pages.

use crate::history::{Event, Mode, Scope, What};
use crate::result::{Cell, Overlaps};

pub(super) const MS: u64 = 1_000_000;

pub(super) fn event(at_ms: u64, process: u32, worker: u32, name: &str, what: What) -> Event {
    let at = at(at_ms);
    Event {
        at,
        wall: at,
        process,
        worker,
        name: name.to_owned(),
        what,
    }
}

pub(super) fn at(ms: u64) -> u64 {
    (1_000_000 + ms) * MS
}

pub(super) fn fault_begins(at_ms: u64, name: &str) -> Event {
    let detail = format!("details of {name}");
    let scope = Scope::default();
    event(
        at_ms,
        0,
        0,
        "",
        What::Fault {
            fault: name.to_owned(),
            on: true,
            detail,
            scope,
        },
    )
}

fn fault_ends(at_ms: u64, name: &str) -> Event {
    let (detail, scope) = (String::new(), Scope::default());
    let what = What::Fault {
        fault: name.to_owned(),
        on: false,
        detail,
        scope,
    };
    event(at_ms, 0, 0, "", what)
}

pub(super) fn granted(until_ms: u64) -> What {
    What::Granted {
        until: Some(at(until_ms)),
        token: None,
        field: None,
    }
}

pub(super) fn held(until_ms: u64) -> What {
    What::Held {
        until: Some(at(until_ms)),
    }
}

pub(super) fn cell(deployment: &str, fault: &str, workload: &str) -> Cell {
    Cell {
        library: "leasehold".to_owned(),
        version: "0.1.0".to_owned(),
        workload: workload.to_owned(),
        fault: fault.to_owned(),
        deployment: deployment.to_owned(),
        server: "Redis 7.0.15".to_owned(),
        seed: 7,
        seconds: 10,
        operations: 1234,
        longest_wait_ms: 3210,
        recovery_ms: vec![12, 340],
        overlaps: Overlaps::default(),
        ..Cell::default()
    }
}

/// Four processes take turns with each lock for ten seconds. Process 2 is stopped while it holds
/// the lock, for longer than its lease of a second. Process 3 is killed while it holds the lock.
pub(super) fn taking_turns(workload: &str, locks: u64, hold_ms: u64) -> Vec<Event> {
    const LEASE: u64 = 1000;
    let mut random = fastrand::Rng::with_seed(7);
    let mut events = vec![
        fault_begins(2000, "stop-client"),
        fault_ends(3600, "stop-client"),
        fault_begins(5000, "kill-client"),
    ];
    for process in 1..=4 {
        let started = What::Started {
            pid: process,
            library: "leasehold".to_owned(),
        };
        events.push(event(0, process, 0, "", started));
    }
    for lock in 0..locks {
        let name = format!("{workload}:{lock}");
        let worker = u32::try_from(lock).expect("few locks");
        let (mut now, mut holder) = (10 + lock, 1);
        let mut released = [0; 5];
        while now < 10_000 {
            let lock_event = |at: u64, what: What| event(at, holder, worker, &name, what);
            let asked = now
                .saturating_sub(40 + random.u64(0..60))
                .max(released[holder as usize]);
            events.push(lock_event(
                asked,
                What::Asked {
                    mode: Mode::Exclusive,
                    fixed_ms: None,
                    renewed_ms: None,
                },
            ));
            events.push(lock_event(now, granted(now + LEASE)));
            let end = now + hold_ms / 2 + random.u64(0..hold_ms);
            let is_hit_by = |fault: u64| (fault.saturating_sub(2 * hold_ms)..fault).contains(&now);
            if holder == 2 && is_hit_by(2000) {
                events.push(lock_event(3601, What::Doubted));
                events.push(lock_event(
                    3610,
                    What::Lost {
                        reason: "Expired".to_owned(),
                    },
                ));
                now += LEASE + 20;
                released[2] = 3620;
            } else if holder == 3 && is_hit_by(5000) {
                now += LEASE + 20;
            } else {
                events.push(lock_event(
                    now + hold_ms / 4,
                    held(now + hold_ms / 4 + LEASE),
                ));
                events.push(lock_event(end, What::Releasing));
                events.push(lock_event(end + 2, What::Released { error: None }));
                now = end + 3;
                released[holder as usize] = now;
            }
            holder = loop {
                let near = |fault: u64| (fault.saturating_sub(2 * hold_ms)..fault).contains(&now);
                let next = match holder {
                    holder if holder != 2 && near(2000) => 2,
                    holder if holder != 3 && near(5000) => 3,
                    _ => random.u32(1..=4),
                };
                let stopped = next == 2 && (2000..3700).contains(&now);
                let dead = next == 3 && now >= 5000;
                if next != holder && !stopped && !dead {
                    break next;
                }
            };
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

/// Three processes with several readers each, and a writer from time to time.
pub(super) fn readers() -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut events = vec![
        fault_begins(1500, "script-flush"),
        fault_begins(1600, "latency"),
        fault_ends(4000, "latency"),
    ];
    for process in 1..=3 {
        events.push(event(
            0,
            process,
            0,
            "",
            What::Started {
                pid: process,
                library: "leasehold".to_owned(),
            },
        ));
    }
    let mut round = 20;
    while round < 7000 {
        for process in 1..=3 {
            for worker in 0..3 {
                let from = round + random.u64(0..60);
                let until = from + 60 + random.u64(0..150);
                let lock_event = |at, what| event(at, process, worker, "read_write:0", what);
                events.push(lock_event(
                    round - 15,
                    What::Asked {
                        mode: Mode::Shared,
                        fixed_ms: None,
                        renewed_ms: None,
                    },
                ));
                events.push(lock_event(from, granted(from + 1000)));
                events.push(lock_event(until, What::Releasing));
                events.push(lock_event(until + 1, What::Released { error: None }));
            }
        }
        let from = round + 280;
        let writer = random.u32(1..=3);
        let lock_event = |at, what| event(at, writer, 9, "read_write:0", what);
        events.push(lock_event(
            round + 100,
            What::Asked {
                mode: Mode::Exclusive,
                fixed_ms: None,
                renewed_ms: None,
            },
        ));
        events.push(lock_event(from, granted(from + 1000)));
        events.push(lock_event(from + 60, What::Releasing));
        events.push(lock_event(from + 61, What::Released { error: None }));
        round += 360;
    }
    events.sort_by_key(|event| event.at);
    events
}

/// After a failover, two processes hold the same lock, until process 1 notices that its hold is
/// lost.
pub(super) fn two_holders() -> Vec<Event> {
    let lock_event = |at, process, what| event(at, process, 0, "plain:0", what);
    let ask = || What::Asked {
        mode: Mode::Exclusive,
        fixed_ms: None,
        renewed_ms: None,
    };
    let start = |process| {
        event(
            0,
            process,
            0,
            "",
            What::Started {
                pid: process,
                library: "leasehold".to_owned(),
            },
        )
    };
    vec![
        start(1),
        start(2),
        lock_event(100, 1, ask()),
        lock_event(110, 1, granted(4000)),
        lock_event(300, 2, ask()),
        fault_begins(1200, "failover"),
        lock_event(1900, 2, granted(5000)),
        fault_ends(2000, "failover"),
        lock_event(2100, 1, held(4500)),
        lock_event(2500, 1, refused_write()),
        lock_event(
            2600,
            1,
            What::Lost {
                reason: "Gone".to_owned(),
            },
        ),
        lock_event(4000, 2, What::Releasing),
        lock_event(4010, 2, What::Released { error: None }),
        lock_event(4200, 1, ask()),
        lock_event(4202, 1, granted(8000)),
        lock_event(6000, 1, What::Releasing),
        lock_event(6001, 1, What::Released { error: None }),
    ]
}

fn refused_write() -> What {
    serde_json::from_str(r#"{"event": "wrote", "accepted": false}"#).expect("an event")
}
