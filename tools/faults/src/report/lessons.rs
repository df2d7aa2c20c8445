//! Selects the timelines that are published. There are few, and each one teaches a lesson.
//!
//! They are not picked by hand. A lesson states which cells can show it. The report has the
//! timeline of the matching cell with the lowest seed. If no cell matches, the lesson is left out.

use super::{TIMELINES, file_name};
use crate::result::Cell;

#[derive(Debug)]
pub(super) struct Lesson {
    /// The name of the picture's file.
    pub(super) name: &'static str,
    library: &'static str,
    deployment: &'static str,
    fault: &'static str,
    workload: &'static str,
    /// Whether a cell with this library, deployment, fault and workload shows the lesson.
    is_shown_by: fn(&Cell) -> bool,
    /// What the timeline shows: first the event, then its consequence.
    pub(super) text: [&'static str; 2],
}

impl Lesson {
    /// The file of the picture, within the folder of the report.
    pub(super) fn picture(&self) -> String {
        format!("{TIMELINES}/{}.svg", file_name(self.name))
    }
}

/// A lesson and the cell whose timeline shows it.
#[derive(Debug)]
pub(super) struct Example<'a> {
    pub(super) lesson: &'static Lesson,
    pub(super) cell: &'a Cell,
}

/// Selects the examples, in the order of the lessons.
pub(super) fn choose<'a>(cells: &[&'a Cell]) -> Vec<Example<'a>> {
    let mut examples = Vec::new();
    for lesson in &LESSONS {
        let matching = cells.iter().copied().filter(|cell| {
            let Cell {
                library,
                deployment,
                fault,
                workload,
                ..
            } = cell;
            let is_from = [library, deployment, fault, workload];
            let wanted = [
                lesson.library,
                lesson.deployment,
                lesson.fault,
                lesson.workload,
            ];
            is_from == wanted && (lesson.is_shown_by)(cell)
        });
        examples.extend(
            matching
                .min_by_key(|cell| cell.seed)
                .map(|cell| Example { lesson, cell }),
        );
    }
    examples
}

fn has_two_holders(cell: &Cell) -> bool {
    cell.overlaps.valid + cell.overlaps.excused > 0
}

fn met_a_holder_without_overlap(cell: &Cell) -> bool {
    cell.met.holders > 0 && !has_two_holders(cell)
}

fn recovered_without_overlap(cell: &Cell) -> bool {
    met_a_holder_without_overlap(cell) && !cell.recovery_ms.is_empty()
}

fn has_explained_losses(cell: &Cell) -> bool {
    cell.losses.with_cause > 0
}

const DEFAULTS: Lesson = Lesson {
    name: "",
    library: super::OURS,
    deployment: "single",
    fault: "",
    workload: "plain",
    is_shown_by: met_a_holder_without_overlap,
    text: ["", ""],
};

const LESSONS: [Lesson; 18] = [
    Lesson {
        name: "stale-write-refused",
        fault: "freeze-client",
        workload: "fenced",
        is_shown_by: |cell| cell.refused_writes > 0,
        text: [
            "A client is stopped after it has looked at its guard and before it writes, for longer \
             than its lease, and another client gets the lock.",
            "When the stopped client resumes, it writes with its old token, and the resource \
             refuses that write.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "dead-holder",
        fault: "kill-client",
        is_shown_by: recovered_without_overlap,
        text: [
            "A client is killed while it holds the lock, so nobody releases the lock.",
            "A waiter gets the lock when the lease of the dead client has expired, and not before.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "runtime-blocked",
        fault: "blocked-runtime",
        is_shown_by: |cell| cell.renewals.lost + cell.renewals.failed > 0 && !has_two_holders(cell),
        text: [
            "All threads of a client's runtime are blocked, so that it renews nothing.",
            "The hold stays valid until the deadline that the client knows, and no other client \
             gets the lock before that.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "server-empty",
        fault: "kill-server",
        is_shown_by: has_explained_losses,
        text: [
            "The server is killed and comes back without data, so it no longer knows the holder.",
            "The holder is told that its lock is lost, and the next client gets the lock.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "semaphore-forgotten",
        fault: "kill-server",
        workload: "semaphore",
        is_shown_by: |cell| cell.met.holders > 0,
        text: [
            "The server comes back without the semaphore, so the permits that were taken are \
             forgotten.",
            "Clients set the number of permits again. From then on, at most two are taken.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "key-evicted",
        fault: "eviction",
        is_shown_by: has_two_holders,
        text: [
            "The server is out of memory and evicts the key of a lock that is held, and another \
             client gets the lock: two holders.",
            "The first holder learns of the loss at its next renewal. With a fixed lease it does \
             not learn of the loss before its deadline. Set `noeviction` on servers that have \
             locks.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "reply-lost",
        fault: "lost-replies",
        is_shown_by: |cell| cell.errors.contains_key("Unknown") && !has_two_holders(cell),
        text: [
            "Replies are lost, so that a client cannot know whether the server has granted its \
             request.",
            "The client reports `Unknown` and releases the lock in case it was granted. Others get \
             the lock soon after.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "requests-late",
        fault: "late-requests",
        workload: "string",
        text: [
            "Requests, including releases, arrive long after their client has given up on them.",
            "A release names its owner, so a late release does not free the lock of the next \
             holder.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "messages-lost",
        fault: "no-messages",
        is_shown_by: |cell| cell.met.waiters > 0,
        text: [
            "Nothing arrives on the connections on which waiters hear of releases.",
            "Waiters find the free lock all the same: some clients poll once a second, and every \
             client polls when the lease that it saw has expired.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "client-cut-off",
        fault: "lonely-client",
        is_shown_by: |cell| cell.renewals.lost + cell.renewals.failed > 0 && !has_two_holders(cell),
        text: [
            "One client reaches no server for longer than its lease, and its renewals fail.",
            "The client gives up its hold before the lock expires at the server. Only after that \
             does another client get the lock.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "clock-jumps",
        fault: "server-clock-ahead",
        is_shown_by: has_two_holders,
        text: [
            "The clock of the server jumps ten minutes ahead, so all leases expire at once.",
            "Another client gets the lock. There are two holders until the first one learns of the \
             loss.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "grant-lost-in-failover",
        deployment: "cluster",
        fault: "failover-behind",
        is_shown_by: has_two_holders,
        text: [
            "A replica that has not received the last grants becomes the master, and grants a held \
             lock to another client.",
            "The first holder learns of the loss as soon as its client has asked the new master.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "queue-in-failover",
        deployment: "sentinel",
        fault: "failover-killed",
        workload: "fair",
        is_shown_by: recovered_without_overlap,
        text: [
            "The master is killed, and a replica takes its place while clients wait in a queue.",
            "The new master has the queue. The waiters continue there and are served again.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "two-sides-of-a-partition",
        deployment: "sentinel",
        fault: "partition",
        is_shown_by: has_two_holders,
        text: [
            "A master and one client are cut off from all others, and a second master is elected \
             on the other side: each side has a holder.",
            "The holder on the cut-off side learns of the loss in time. Until then, only a fencing \
             token keeps its writes out.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "slots-move",
        deployment: "cluster",
        fault: "moving-slots",
        text: [
            "Slots move from master to master, with the keys of locks that are held.",
            "Clients follow the slots: holders keep their locks, and waiters are granted theirs.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "minority-frozen",
        deployment: "five",
        fault: "freeze-server",
        workload: "quorum",
        text: [
            "Two of five servers are frozen, and the other three are a majority.",
            "Holders keep the lock, and waiters are granted it, without the two frozen servers.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "redisson-stopped",
        library: "redisson",
        fault: "freeze-client",
        is_shown_by: |cell| has_two_holders(cell) || cell.overlaps.invalid > 0,
        text: [
            "A client with Redisson is stopped for longer than its watchdog timeout, and another \
             client gets the lock.",
            "When the stopped client resumes, nothing reports the loss to it. It learns of the \
             loss from its own release.",
        ],
        ..DEFAULTS
    },
    Lesson {
        name: "redis-py-former-master",
        library: "redis-py",
        deployment: "sentinel",
        fault: "failover-frozen",
        is_shown_by: has_two_holders,
        text: [
            "A frozen master is replaced. When it resumes, it still acts as a master for a while.",
            "redis-py clients that are still connected to the old master are granted locks that \
             others hold at the new master.",
        ],
        ..DEFAULTS
    },
];
