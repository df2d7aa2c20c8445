//! Which transitions of an acquisition the model has, and which of them histories have walked.
//!
//! A transition is a pair of moments that follow each other in the life of one acquisition. Moments
//! of others may lie between them.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;

use stateright::Model;

use crate::plain::{Fault, Kind, Message, Phase, Plain, State, Step};

/// Something in the life of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Moment {
    Asks,
    AsksAgain,
    GivesUp,
    IsGranted,
    SendsARenewal,
    SendsALateRenewal,
    IsRenewed,
    FindsItGone,
    Expires,
    IsHandedOver,
    SendsARelease,
    RepeatsARelease,
    IsReleased,
    RepeatsASettledRelease,
}

/// A moment, and the one after it.
pub type Transition = (String, String);

/// The transitions that the model has, also if Redis forgets. One client and one acquisition have
/// all of them.
pub fn of_the_model() -> BTreeSet<Transition> {
    let model = Plain {
        acquisitions: vec![1],
        lease: 2,
        travelling: 2,
        hand_overs: 2,
        replays: None,
        fault: Some(Fault::RedisForgets),
    };
    let mut found = BTreeSet::new();
    let init = model.init_states().into_iter().map(|state| (state, None));
    let mut next: VecDeque<(State, Option<Moment>)> = init.collect();
    let mut seen: HashSet<_> = next.iter().cloned().collect();
    while let Some((state, before)) = next.pop_front() {
        let mut steps = Vec::new();
        model.actions(&state, &mut steps);
        for step in steps {
            let Some(after) = model.next_state(&state, step) else {
                continue;
            };
            let moment = moment(&state, &after, step);
            let pair = before.zip(moment);
            found.extend(pair.map(|(before, after)| (before.to_string(), after.to_string())));
            let both = (after, moment.or(before));
            if seen.insert(both.clone()) {
                next.push_back(both);
            }
        }
    }
    found
}

/// What a step is in the life of the only client.
fn moment(before: &State, after: &State, step: Step) -> Option<Moment> {
    let [before, after] = [before, after].map(|state| state.processes[0].phase);
    match step {
        Step::Tick => {
            let expires = matches!((before, after), (Phase::Holding(_), Phase::Leaving(_)));
            expires.then_some(Moment::Expires)
        }
        Step::Ask(_) => Some(asks(before)),
        Step::GiveUp(_) => Some(Moment::GivesUp),
        Step::Renew(_) => Some(sends_renewal(before)),
        Step::HandOver(_) => Some(Moment::IsHandedOver),
        Step::Release(_) => Some(sends_release(before)),
        Step::ReleaseAgain(_) => Some(Moment::RepeatsASettledRelease),
        Step::Arrive(reply) => arrives(before, &reply),
        Step::Execute(_) | Step::Lose(_) | Step::Forget | Step::FasterTick => None,
    }
}

pub(super) fn asks(phase: Phase) -> Moment {
    if phase == Phase::Asking {
        Moment::AsksAgain
    } else {
        Moment::Asks
    }
}

pub(super) fn sends_renewal(phase: Phase) -> Moment {
    if matches!(phase, Phase::Holding(_)) {
        Moment::SendsARenewal
    } else {
        Moment::SendsALateRenewal
    }
}

pub(super) fn sends_release(phase: Phase) -> Moment {
    if matches!(phase, Phase::Leaving(_)) {
        Moment::RepeatsARelease
    } else {
        Moment::SendsARelease
    }
}

/// `None` if a reply changes nothing.
pub(super) fn arrives(phase: Phase, reply: &Message) -> Option<Moment> {
    match (reply.kind, phase, reply.reply) {
        (Kind::Acquire, Phase::Asking, Some(true)) => Some(Moment::IsGranted),
        (Kind::Renew, Phase::Holding(_), Some(true)) => Some(Moment::IsRenewed),
        (Kind::Renew, Phase::Holding(_), Some(false)) => Some(Moment::FindsItGone),
        (Kind::Release, Phase::Leaving(_), _) => Some(Moment::IsReleased),
        _ => None,
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::Asks => "asks",
            Moment::AsksAgain => "asks again",
            Moment::GivesUp => "gives up",
            Moment::IsGranted => "is granted",
            Moment::SendsARenewal => "sends a renewal",
            Moment::SendsALateRenewal => "sends a renewal while it leaves",
            Moment::IsRenewed => "is renewed",
            Moment::FindsItGone => "finds it gone",
            Moment::Expires => "expires",
            Moment::IsHandedOver => "is handed over",
            Moment::SendsARelease => "sends a release",
            Moment::RepeatsARelease => "repeats the release",
            Moment::IsReleased => "is released",
            Moment::RepeatsASettledRelease => "repeats a release that was answered",
        })
    }
}
