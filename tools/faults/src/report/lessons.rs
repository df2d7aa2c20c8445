//! The timelines that are published: few, and each for what one learns from it.
//!
//! Nobody picks them by hand. A lesson says on which cell it can be seen; the first such cell, in the order of seeds, is
//! shown, and the lesson is left out if there is none.

use super::{TIMELINES, file_name};
use crate::result::Cell;

#[derive(Debug)]
pub(super) struct Lesson {
    /// Of the file.
    pub(super) name: &'static str,
    library: &'static str,
    deployment: &'static str,
    fault: &'static str,
    workload: &'static str,
    /// Whether it can be seen on a cell that is all that.
    is_seen: fn(&Cell) -> bool,
    /// What one sees.
    pub(super) says: [&'static str; 2],
}

impl Lesson {
    /// Within the folder of the report.
    pub(super) fn picture(&self) -> String {
        format!("{TIMELINES}/{}.svg", file_name(self.name))
    }
}

/// A lesson, and where it can be seen.
#[derive(Debug)]
pub(super) struct Taught<'a> {
    pub(super) lesson: &'static Lesson,
    pub(super) cell: &'a Cell,
}

/// In the order of the lessons.
pub(super) fn choose<'a>(cells: &[&'a Cell]) -> Vec<Taught<'a>> {
    let mut taught = Vec::new();
    for lesson in &LESSONS {
        let of = cells.iter().copied().filter(|cell| {
            let Cell {
                library,
                deployment,
                fault,
                workload,
                ..
            } = cell;
            let is = [library, deployment, fault, workload];
            let wanted = [
                lesson.library,
                lesson.deployment,
                lesson.fault,
                lesson.workload,
            ];
            is == wanted && (lesson.is_seen)(cell)
        });
        taught.extend(
            of.min_by_key(|cell| cell.seed)
                .map(|cell| Taught { lesson, cell }),
        );
    }
    taught
}

fn has_two_holders(cell: &Cell) -> bool {
    cell.overlaps.valid + cell.overlaps.excused > 0
}

fn met_a_holder(cell: &Cell) -> bool {
    cell.met.holders > 0 && !has_two_holders(cell)
}

fn recovers(cell: &Cell) -> bool {
    met_a_holder(cell) && !cell.recovery_ms.is_empty()
}

fn loses(cell: &Cell) -> bool {
    cell.losses.with_cause > 0
}

const OF_A_LOCK: Lesson = Lesson {
    name: "",
    library: super::OURS,
    deployment: "single",
    fault: "",
    workload: "plain",
    is_seen: met_a_holder,
    says: ["", ""],
};

const LESSONS: [Lesson; 18] = [
    Lesson {
        name: "stale-write-refused",
        fault: "freeze-client",
        workload: "fenced",
        is_seen: |cell| cell.refused_writes > 0,
        says: [
            "A client is stopped after it has looked at its guard and before it writes, for longer than its lease, and \
             another client gets the lock.",
            "When the stopped client goes on it writes with its old token, and the resource refuses that write.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "dead-holder",
        fault: "kill-client",
        is_seen: recovers,
        says: [
            "A client is killed, and nobody releases what it held.",
            "A waiter gets the lock when the lease of the dead client has run out, and not before.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "runtime-blocked",
        fault: "blocked-runtime",
        is_seen: |cell| cell.renewals.lost + cell.renewals.failed > 0 && !has_two_holders(cell),
        says: [
            "All threads of a client's runtime are blocked, so that it renews nothing.",
            "Its hold is valid up to the deadline that the client knows, and no other client gets the lock before that.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "server-empty",
        fault: "kill-server",
        is_seen: loses,
        says: [
            "The server is killed and comes back without data: it does not know the holder any more.",
            "The holder is told that its lock is lost, and the next client gets the lock.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "semaphore-forgotten",
        fault: "kill-server",
        workload: "semaphore",
        is_seen: |cell| cell.met.holders > 0,
        says: [
            "The server comes back without the semaphore, and with it the permits that were taken are forgotten.",
            "Clients set the number of permits again, and from then on no more than two are taken.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "key-evicted",
        fault: "eviction",
        is_seen: has_two_holders,
        says: [
            "The server is out of memory and evicts the key of a lock that is held, so that another client gets the lock: \
             two holders.",
            "The first holder learns of it at its next renewal, or with a fixed lease not before its deadline; set \
             `noeviction` where locks are.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "reply-lost",
        fault: "lost-replies",
        is_seen: |cell| cell.errors.contains_key("Unknown") && !has_two_holders(cell),
        says: [
            "Replies are lost, so that a client cannot know whether the server has granted its request.",
            "It reports `Unknown` and gives back what it may have been granted, and others get the lock soon after.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "requests-late",
        fault: "late-requests",
        workload: "string",
        says: [
            "Requests arrive long after their client has given them up, releases among them.",
            "A release names its owner, so that a late one does not free the lock of the next holder.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "messages-lost",
        fault: "no-messages",
        is_seen: |cell| cell.met.waiters > 0,
        says: [
            "Nothing arrives on the connections on which waiters hear of releases.",
            "Waiters find the free lock all the same: some clients ask once in a second, all of them when the lease that \
             they saw has ended.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "client-cut-off",
        fault: "lonely-client",
        is_seen: |cell| cell.renewals.lost + cell.renewals.failed > 0 && !has_two_holders(cell),
        says: [
            "One client reaches no server for longer than its lease, and its renewals fail.",
            "Its hold is over for itself before it is over at the server, and only then another client gets the lock.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "clock-jumps",
        fault: "server-clock-ahead",
        is_seen: has_two_holders,
        says: [
            "The clock of the server goes ten minutes ahead, and all leases end at once for it.",
            "Another client gets the lock beside its holder, until the holder is told.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "grant-lost-in-failover",
        deployment: "cluster",
        fault: "failover-behind",
        is_seen: has_two_holders,
        says: [
            "A replica that has not heard of the last grants becomes the master, and gives a lock that is held to another \
             client.",
            "The first holder is told when its client has asked the new master.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "queue-in-failover",
        deployment: "sentinel",
        fault: "failover-killed",
        workload: "fair",
        is_seen: recovers,
        says: [
            "The master is killed, and a replica takes its place while clients wait in a queue.",
            "The waiters go on at the new master, which has the queue, and are served again.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "two-sides-of-a-partition",
        deployment: "sentinel",
        fault: "partition",
        is_seen: has_two_holders,
        says: [
            "A master and one client are cut off from all others, and a second master is elected on the other side: each \
             side has a holder.",
            "The holder on the cut-off side is told in time; only a fencing token keeps its writes out until then.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "slots-move",
        deployment: "cluster",
        fault: "moving-slots",
        says: [
            "Slots move from master to master, with the keys of locks that are held.",
            "Clients follow them: holders keep their locks, and waiters get theirs.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "minority-frozen",
        deployment: "five",
        fault: "freeze-server",
        workload: "quorum",
        says: [
            "Two of five servers are frozen, and the other three are a majority.",
            "Holders keep their lock, and waiters get it, without the two.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "redisson-stopped",
        library: "redisson",
        fault: "freeze-client",
        is_seen: |cell| has_two_holders(cell) || cell.overlaps.invalid > 0,
        says: [
            "A client with Redisson is stopped for longer than the time-out of its watchdog, and another one gets the \
             lock.",
            "When the stopped client goes on nothing tells it of the loss: it learns of it from its release.",
        ],
        ..OF_A_LOCK
    },
    Lesson {
        name: "redis-py-former-master",
        library: "redis-py",
        deployment: "sentinel",
        fault: "failover-frozen",
        is_seen: has_two_holders,
        says: [
            "A frozen master is replaced, goes on, and believes for a while that it is the master.",
            "Clients with redis-py that are still connected to it get locks there that others have at the new master.",
        ],
        ..OF_A_LOCK
    },
];
