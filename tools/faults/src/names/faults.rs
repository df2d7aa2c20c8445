//! Mild faults of the network and of operators. They must not cost any lock.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use leasehold_testbed::{Proxy, Server};

#[derive(Clone, Copy, Debug)]
enum Mild {
    Cut,
    LostReplies,
    SlowReplies,
    ScriptFlush,
    KillSubscribers,
    KillCallers,
}

/// When faults are injected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    /// Mean time from the end of one fault to the next. The actual time is between half and twice
    /// as much.
    pub(super) calm_ms: u64,
}

const ALL: [(Mild, &str); 6] = [
    (Mild::Cut, "connections cut"),
    (Mild::LostReplies, "replies lost for 200 ms"),
    (Mild::SlowReplies, "replies 20 ms late for 1 s"),
    (Mild::ScriptFlush, "script flush"),
    (Mild::KillSubscribers, "client kill type pubsub"),
    (Mild::KillCallers, "client kill type normal"),
];

/// Injects faults until the sender of `end` is dropped. Each turn injects every fault once, in
/// random order. Returns how often each fault was injected.
pub(super) fn inject(
    server: &Server,
    proxy: &Proxy,
    schedule: &Schedule,
    end: &Receiver<()>,
) -> BTreeMap<String, u64> {
    let mut random = fastrand::Rng::with_seed(schedule.seed);
    let mut injected: BTreeMap<_, _> = ALL.map(|(_, name)| (name.to_owned(), 0)).into();
    // Sleeps, and returns false if the sender was dropped meanwhile. Nothing is ever sent.
    let sleep_unless_ended = |millis| {
        let ended = end.recv_timeout(Duration::from_millis(millis));
        ended == Err(RecvTimeoutError::Timeout)
    };
    let kill = |kind| drop(server.command(&["CLIENT", "KILL", "TYPE", kind]));
    loop {
        let mut turn = ALL;
        random.shuffle(&mut turn);
        for (fault, name) in turn {
            if !sleep_unless_ended(random.u64(schedule.calm_ms / 2..=schedule.calm_ms * 2)) {
                return injected;
            }
            *injected.entry(name.to_owned()).or_default() += 1;
            match fault {
                Mild::Cut => proxy.cut(),
                Mild::LostReplies => {
                    proxy.swallow_replies();
                    sleep_unless_ended(200);
                    proxy.pass();
                }
                Mild::SlowReplies => {
                    proxy.delay_replies(Duration::from_millis(20));
                    sleep_unless_ended(1_000);
                    proxy.flow();
                }
                Mild::ScriptFlush => drop(server.command(&["SCRIPT", "FLUSH"])),
                Mild::KillSubscribers => kill("pubsub"),
                Mild::KillCallers => kill("normal"),
            }
        }
    }
}
