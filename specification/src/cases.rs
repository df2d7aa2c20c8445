//! What is explored: each model as it is, within stated bounds, and with each of its faults.

use crate::explore::{Explorable, Explored, explore};
use crate::failover::{self, Failover, Judged};
use crate::fair::{self, Fair};
use crate::handed_over::{self, HandedOver};
use crate::plain::{self, Plain};
use crate::quorum::{self, Quorum};
use crate::read_write::{self, ReadWrite};

/// One exploration.
pub(crate) struct Case {
    pub(crate) model: &'static str,
    /// The bounds, or the fault.
    pub(crate) what: String,
    /// Whether the invariants hold and all that should happen does.
    pub(crate) is_right: bool,
    run: Box<dyn FnOnce() -> Explored>,
}

impl Case {
    /// The invariants hold, and all that should happen does.
    fn right(name: &'static str, what: &str, model: impl Explorable) -> Self {
        Case {
            model: name,
            what: what.to_owned(),
            is_right: true,
            run: Box::new(|| explore(model, 2)),
        }
    }

    /// An invariant does not hold, or something that should happen never does.
    fn wrong(name: &'static str, what: &str, model: impl Explorable) -> Self {
        // With one thread, an exploration that ends early ends at the same state each time.
        Case {
            model: name,
            what: what.to_owned(),
            is_right: false,
            run: Box::new(|| explore(model, 1)),
        }
    }

    pub(crate) fn run(self) -> Explored {
        (self.run)()
    }
}

/// The cases that each run of the tests explores.
pub(crate) fn small() -> Vec<Case> {
    let cases = [
        plain_cases(),
        given_cases(),
        fair_cases(),
        read_write_cases(),
        quorum_cases(),
        failover_cases(),
    ];
    cases.into_iter().flatten().collect()
}

/// Larger bounds, which take minutes.
pub(crate) fn large() -> Vec<Case> {
    let plain = Plain {
        acquisitions: vec![2, 2],
        ..plain_bounds()
    };
    let fair = Fair {
        ours: 3,
        javas: 2,
        ..fair_bounds()
    };
    let quorum = Quorum {
        servers: 5,
        agree: 5,
        forgets: 2,
        ..quorum_bounds()
    };
    let copies = Failover {
        copies: true,
        nodes: 3,
        changes: 2,
        lease: 2,
        ..failover_bounds()
    };
    let clients = Failover {
        clients: 3,
        ..grace_bounds(2)
    };
    let replicas = Failover {
        nodes: 3,
        ..apart(trust_bounds(3))
    };
    let at_once = Failover {
        changes: 2,
        ..trust_bounds(4)
    };
    let lag = Failover {
        changes: 2,
        ..lag_bounds(4)
    };
    let failovers = [
        (
            "each grant waits for two replicas of two, two changes",
            copies,
        ),
        ("grace > silence, three clients", clients),
        (
            "grace > silence + reconnect, two replicas, two changes",
            replicas,
        ),
        (
            "grace > 2 × silence + reconnect, two changes at once",
            at_once,
        ),
        ("grace = lease + lag, two changes at once", lag),
    ];
    let mut cases = vec![
        Case::right(PLAIN, "two clients that acquire twice", plain),
        Case::right(FAIR, "three waiters and two of Redisson", fair),
        Case::right(QUORUM, "five of five servers, two of which forget", quorum),
    ];
    cases.extend(failovers.map(|(what, model)| Case::right(FAILOVER, what, model)));
    cases
}

const PLAIN: &str = "plain lock";
const GIVEN: &str = "handed-over lock";
const FAIR: &str = "fair lock";
const READ_WRITE: &str = "read/write lock";
const QUORUM: &str = "quorum lock";
const FAILOVER: &str = "failover";

fn plain_bounds() -> Plain {
    Plain {
        acquisitions: vec![2, 1],
        lease: 2,
        travelling: 2,
        hand_overs: 1,
        replays: None,
        fault: None,
    }
}

fn plain_cases() -> Vec<Case> {
    use plain::Fault as F;
    let faults = [
        F::DeadlineFromReply,
        F::FieldUsedAgain,
        F::LateGrantCounts,
        F::RenewalResurrects,
        F::LateRenewalCounts,
        F::ReleasesOthers,
        F::HandsOverWhatIsReleased,
        F::RedisForgets,
        F::RedisIsFaster,
    ];
    let what =
        "two clients, three acquisitions, two messages of each on their way, a lease of two steps";
    let mut cases = vec![Case::right(PLAIN, what, plain_bounds())];
    cases.extend(faults.map(|fault| {
        let model = Plain {
            fault: Some(fault),
            ..plain_bounds()
        };
        Case::wrong(PLAIN, &format!("{fault:?}"), model)
    }));
    cases
}

fn given_cases() -> Vec<Case> {
    use handed_over::Fault as F;
    let of = |fault| HandedOver {
        clients: 2,
        acquisitions: 2,
        questions: 2,
        lease: 2,
        travelling: 2,
        fault,
    };
    let what = "two clients, two acquisitions and two attempts of each, two messages of each on \
        their way";
    let mut cases = vec![Case::right(GIVEN, what, of(None))];
    let faults = [
        F::BelievesEveryMessage,
        F::CountsFromTheMessage,
        F::FieldUsedAgain,
    ];
    cases.extend(faults.map(|fault| Case::wrong(GIVEN, &format!("{fault:?}"), of(Some(fault)))));
    cases
}

fn fair_bounds() -> Fair {
    Fair {
        ours: 3,
        javas: 1,
        lease: 3,
        claim: 2,
        java_wait: 4,
        keeps_longer: true,
        goes_to_the_front: true,
        fault: None,
    }
}

fn fair_cases() -> Vec<Case> {
    use fair::Fault as F;
    let of = fair_bounds;
    let at_the_end = Fair {
        goes_to_the_front: false,
        ..of()
    };
    let not_longer = Fair {
        keeps_longer: false,
        ..of()
    };
    let mut cases = vec![
        Case::right(FAIR, "three waiters and one of Redisson", of()),
        Case::right(FAIR, "who has lost its place goes to the end", at_the_end),
        Case::wrong(
            FAIR,
            "places behind Redisson are not kept for longer",
            not_longer,
        ),
    ];
    cases.extend(
        [
            F::NoHeartbeats,
            F::TakesOutOfTurn,
            F::DeadStay,
            F::BelievesEveryMessage,
            F::CountsFromTheMessage,
        ]
        .map(|fault| {
            let model = Fair {
                fault: Some(fault),
                ..of()
            };
            Case::wrong(FAIR, &format!("{fault:?}"), model)
        }),
    );
    cases
}

fn read_write_cases() -> Vec<Case> {
    use read_write::Fault as F;
    let bounds = ReadWrite {
        clients: 3,
        lease: 3,
        fault: None,
    };
    let faults = [
        F::ReaderIgnoresWriter,
        F::ReaderShortensLease,
        F::ReleaseEndsReaders,
        F::NoDowngrade,
        F::KeepsShortestReader,
    ];
    let mut cases = vec![Case::right(
        READ_WRITE,
        "three clients, leases of two and three steps",
        bounds.clone(),
    )];
    cases.extend(faults.map(|fault| {
        let model = ReadWrite {
            fault: Some(fault),
            ..bounds.clone()
        };
        Case::wrong(READ_WRITE, &format!("{fault:?}"), model)
    }));
    cases
}

fn quorum_bounds() -> Quorum {
    Quorum {
        clients: 2,
        servers: 3,
        agree: 2,
        lease: 2,
        forgets: 0,
        stays_down: 0,
        fault: None,
    }
}

fn quorum_cases() -> Vec<Case> {
    use quorum::Fault as F;
    let of = quorum_bounds;
    let right = |what, model| Case::right(QUORUM, what, model);
    let wrong = |what, model| Case::wrong(QUORUM, what, model);
    vec![
        right(
            "three of five servers",
            Quorum {
                servers: 5,
                agree: 3,
                ..of()
            },
        ),
        wrong(
            "two of three servers, and one forgets",
            Quorum { forgets: 1, ..of() },
        ),
        right(
            "three of three servers, and one forgets",
            Quorum {
                agree: 3,
                forgets: 1,
                ..of()
            },
        ),
        wrong(
            "three of three servers, and two forget",
            Quorum {
                agree: 3,
                forgets: 2,
                ..of()
            },
        ),
        right(
            "servers forget, and stay down for a lease",
            Quorum {
                forgets: 3,
                stays_down: 2,
                ..of()
            },
        ),
        wrong(
            "`HalfIsEnough`, four servers",
            Quorum {
                servers: 4,
                fault: Some(F::HalfIsEnough),
                ..of()
            },
        ),
        wrong(
            "`IgnoresLosses`, and one forgets and stays down for a lease",
            Quorum {
                forgets: 1,
                stays_down: 2,
                fault: Some(F::IgnoresLosses),
                ..of()
            },
        ),
    ]
}

fn failover_bounds() -> Failover {
    Failover {
        copies: false,
        judged: Judged::Trusted,
        clients: 2,
        nodes: 2,
        changes: 1,
        apart: 0,
        newcomers: true,
        lease: 3,
        grace: 0,
        frozen: 0,
        silence: None,
        reconnect: None,
        lag: None,
        fault: None,
    }
}

fn grace_bounds(grace: u8) -> Failover {
    Failover {
        judged: Judged::Held,
        newcomers: false,
        grace,
        frozen: 1,
        silence: Some(1),
        ..failover_bounds()
    }
}

/// The same where uncertain holds count, too, and holders come back soon.
fn trust_bounds(grace: u8) -> Failover {
    Failover {
        judged: Judged::Trusted,
        reconnect: Some(1),
        ..grace_bounds(grace)
    }
}

/// The same where clients may notice a change at any time later, but a former primary stops
/// writing.
fn lag_bounds(grace: u8) -> Failover {
    Failover {
        judged: Judged::Trusted,
        silence: None,
        lag: Some(1),
        ..grace_bounds(grace)
    }
}

/// The second change comes when all clients have noticed the first one.
fn apart(bounds: Failover) -> Failover {
    Failover {
        changes: 2,
        apart: 3,
        ..bounds
    }
}

fn failover_cases() -> Vec<Case> {
    let right = |what, model| Case::right(FAILOVER, what, model);
    let wrong = |what, model| Case::wrong(FAILOVER, what, model);
    let copies = Failover {
        copies: true,
        nodes: 3,
        lease: 2,
        ..failover_bounds()
    };
    let one = Failover {
        fault: Some(failover::Fault::OneCopyIsMissing),
        ..copies
    };
    let at_once = Failover {
        changes: 2,
        ..trust_bounds(3)
    };
    let late = Failover {
        silence: None,
        ..grace_bounds(2)
    };
    let noticed = "two changes, the second when all have noticed the first";
    let mut cases = vec![
        wrong("nothing is done", failover_bounds()),
        right("each grant waits for two replicas of two", copies),
        wrong("each grant waits for one replica of two", one),
        right("grace > silence", grace_bounds(2)),
        wrong("grace = silence", grace_bounds(1)),
        right("grace > silence + reconnect", trust_bounds(3)),
        wrong("grace = silence + reconnect", trust_bounds(2)),
        right(noticed, apart(trust_bounds(3))),
        wrong("two changes at once", at_once),
        wrong("late notice", late),
        right("late notice, and grace = lease + lag", lag_bounds(4)),
        wrong("late notice, and grace = lease", lag_bounds(3)),
        wrong("late notice, and grace = lag", lag_bounds(1)),
    ];
    cases.extend(failover_faults());
    cases
}

fn failover_faults() -> Vec<Case> {
    use failover::Fault as F;
    let wrong = |what: &str, model| Case::wrong(FAILOVER, what, model);
    let with = |fault| Failover {
        fault: Some(fault),
        ..grace_bounds(2)
    };
    let begins = Failover {
        newcomers: true,
        ..grace_bounds(2)
    };
    let at_once = Failover {
        frozen: 0,
        ..grace_bounds(2)
    };
    let given = Failover {
        clients: 3,
        lease: 2,
        ..with(F::GiftCountsInGrace)
    };
    let kept = Failover {
        fault: Some(F::IdentityIsKept),
        ..apart(trust_bounds(3))
    };
    let others = [
        F::VerifiesLate,
        F::VerifiesWithoutRenewal,
        F::CountsFromTheLoss,
        F::GoesBack,
    ];
    let mut cases = vec![
        wrong("a process begins after the change", begins),
        wrong("a renewal counts at once", at_once),
        wrong("`GiftCountsInGrace`, three clients", given),
        wrong("`IdentityIsKept`, two changes", kept),
    ];
    for fault in others {
        cases.push(wrong(&format!("{fault:?}"), with(fault)));
    }
    cases
}
