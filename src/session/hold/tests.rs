//! What a hold knows when its last guard leaves and a reader comes at the same moment.

use super::*;
use crate::clock::{Counts, Machine};
use crate::protocol::kind::Kind;
use crate::session::deadline::Clocks;
use crate::transport::Epoch;

pub(in crate::session) const LEASE: Duration = Duration::from_secs(30);
pub(in crate::session) const TERMS: HoldTerms = HoldTerms {
    lease: LEASE,
    renewed: true,
    max_hold: None,
    clocks: Clocks::OfOne,
};

type Becoming = fn(Hold) -> Hold;

/// What may have happened to a hold when its last guard leaves.
const STAINS: [(&str, Becoming); 7] = [
    ("an earlier call may yet come", |hold| {
        changed(hold, |hold| {
            hold.set_doubt(InDoubt {
                epoch: Epoch::default(),
                lease: LEASE,
            });
        })
    }),
    ("a re-entry is on the wire", |hold| {
        changed(hold, Hold::call_sent)
    }),
    ("one of two re-entries is settled", |hold| {
        changed(hold, |hold| {
            hold.call_sent();
            hold.call_sent();
            hold.call_settled();
        })
    }),
    ("a re-entry had no answer, and was made up for", |hold| {
        changed(hold, |hold| {
            hold.call_sent();
            hold.call_in_doubt();
            hold.call_settled();
        })
    }),
    ("a reader came under it", |hold| {
        changed(hold, |hold| assert!(hold.make_not_transferable()))
    }),
    ("its renewal had no answer", |hold| {
        changed(hold, Hold::mark_uncertain)
    }),
    ("most of its lease is over", |hold| {
        changed(hold, |hold| {
            hold.state.lock().deadline.shorten(LEASE / 3 * 2);
        })
    }),
];

fn changed(hold: Hold, change: impl FnOnce(&Hold)) -> Hold {
    change(&hold);
    hold
}

/// Otherwise the next owner would get a field with unknown calls.
#[tokio::test]
async fn only_a_hold_of_which_all_is_known_is_handed_over() {
    for (stain, become_so) in STAINS {
        let hold = become_so(write_hold());
        assert!(matches!(hold.leave(TERMS), LeaveOutcome::Last));
        assert!(!hold.can_hand_over(), "{stain}");
    }
    let hold = write_hold();
    assert!(!hold.can_hand_over(), "it has a guard");
    assert!(hold.join(TERMS).is_some());
    hold.call_sent();
    hold.call_settled();
    assert!(matches!(hold.leave(TERMS), LeaveOutcome::Inner));
    assert!(matches!(hold.leave(TERMS), LeaveOutcome::Last));
    assert!(hold.can_hand_over(), "what was settled is known");
    hold.release_settled();
    assert!(!hold.can_hand_over(), "it is over");
}

fn write_identity() -> HoldIdentity {
    let resource = Resource::new(Kind::Write, "", "x").expect("a good name");
    HoldIdentity {
        resource: Arc::new(resource),
        field: Arc::from("client:1:write"),
        client: ClientId::random(),
    }
}

fn write_hold() -> Hold {
    let clock = Clock::new(Counts::TimerTime);
    Hold::new(1, write_identity(), TERMS, &clock, clock.now())
}

#[tokio::test]
async fn a_write_hold_with_a_reader_under_it_is_not_handed_over() {
    let hold = write_hold();
    assert!(hold.make_not_transferable());
    assert!(matches!(hold.leave(TERMS), LeaveOutcome::Last));
    assert!(!hold.can_hand_over());
}

/// By then the field may belong to the next writer, and a reader that names it would be admitted
/// while that writer writes.
#[tokio::test]
async fn no_reader_comes_under_a_write_hold_whose_last_guard_went() {
    let hold = write_hold();
    assert!(matches!(hold.leave(TERMS), LeaveOutcome::Last));
    assert!(!hold.make_not_transferable());
    assert!(hold.can_hand_over(), "it may be handed over");
}

/// The lease of a call that was in flight during a suspension began before it.
#[tokio::test]
async fn a_grant_that_was_sent_before_a_suspension_is_lost() {
    let (machine, harness) = (Machine::default(), Hearing::default());
    let clock = Clock::new(Counts::TimerTime).on(&machine);
    let sent = clock.now();
    machine.suspend_for(LEASE);
    let hold = Hold::new(1, write_identity(), TERMS, &clock, sent);
    assert_eq!(hold.loss(), Some(LossReason::Expired));
    let sent = clock.now();
    let hold = Hold::new(1, write_identity(), TERMS, &clock, sent);
    machine.suspend_for(LEASE / 2);
    hold.confirmed(&harness, sent, LEASE);
    assert!(
        hold.deadline() <= Instant::now() + LEASE / 2,
        "the reply moves nothing on"
    );
    machine.suspend_for(LEASE / 2);
    hold.confirmed(&harness, clock.now(), LEASE);
    assert_eq!(hold.loss(), Some(LossReason::Expired), "it stays lost");
}
