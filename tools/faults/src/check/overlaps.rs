//! Who held a lock at the same time.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::story::{Hold, Lock, Story};
use super::times::{Span, say_length};
use super::told::{self, Meeting};

/// The two holds. A crowd of permits is known by the one that was too many, twice.
type Parties = (usize, usize);

#[derive(Default)]
struct Found {
    /// Each time that they met.
    valid: BTreeMap<(Parties, u64), Meeting>,
    invalid: BTreeSet<Parties>,
}

impl Found {
    fn only_invalid(&self) -> usize {
        let met = |parties: Parties| {
            self.valid
                .range((parties, 0)..=(parties, u64::MAX))
                .next()
                .is_some()
        };
        self.invalid
            .iter()
            .filter(|parties| !met(**parties))
            .count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stale,
    /// Only an instant.
    Granted,
    Valid,
}

#[derive(Clone, Copy)]
struct Claim {
    kind: Kind,
    hold: usize,
    from: u64,
    to: u64,
}

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let mut found = Found::default();
    for (place, lock) in story.locks.iter().enumerate() {
        sweep(story, place, lock, context.rules.permits, &mut found);
    }
    cell.overlaps.invalid = found.only_invalid() as u64;
    let mut meetings: Vec<_> = found.valid.into_values().collect();
    meetings.sort_by_key(|meeting| meeting.at);
    for meeting in &meetings {
        judge_meeting(story, context, meeting, cell);
    }
}

fn sweep(story: &Story<'_>, place: usize, lock: &Lock, permits: usize, found: &mut Found) {
    let mut open: Vec<Claim> = Vec::new();
    for claim in claims(story, lock) {
        open.retain(|other| other.to >= claim.from);
        let against = Against {
            story,
            lock: place,
            permits,
            open: &open,
        };
        match claim.kind {
            Kind::Granted => against.granted(claim, found),
            Kind::Valid => against.valid(claim, found),
            Kind::Stale => {}
        }
        if claim.kind != Kind::Granted {
            open.push(claim);
        }
    }
}

fn claims(story: &Story<'_>, lock: &Lock) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &hold in &lock.holds {
        let Hold {
            granted,
            valid,
            stale,
            ..
        } = &story.holds[hold];
        claims.push(Claim {
            kind: Kind::Granted,
            hold,
            from: *granted,
            to: *granted,
        });
        let spans = |kind| {
            move |span: &Span| Claim {
                kind,
                hold,
                from: span.from,
                to: span.to,
            }
        };
        claims.extend(valid.iter().map(spans(Kind::Valid)));
        claims.extend(stale.iter().map(spans(Kind::Stale)));
    }
    claims.sort_unstable_by_key(|claim| (claim.from, claim.kind, claim.hold));
    claims
}

/// What is open when a claim begins.
struct Against<'a> {
    story: &'a Story<'a>,
    lock: usize,
    permits: usize,
    open: &'a [Claim],
}

impl Against<'_> {
    fn valid(&self, claim: Claim, found: &mut Found) {
        let mine = self.story.holds[claim.hold].mode;
        for other in self
            .open(Kind::Valid)
            .filter(|other| other.hold != claim.hold)
        {
            if excludes(mine, self.story.holds[other.hold].mode) {
                self.meet(claim, &[*other], parties(claim.hold, other.hold), found);
            }
        }
        if mine == Mode::Permit {
            let others: Vec<Claim> = self.permits(Kind::Valid, claim).copied().collect();
            if others.len() >= self.permits {
                self.meet(claim, &others, (claim.hold, claim.hold), found);
            }
        }
    }

    fn meet(&self, claim: Claim, others: &[Claim], parties: Parties, found: &mut Found) {
        let until = others.iter().map(|other| other.to).fold(claim.to, u64::min);
        let holds = others
            .iter()
            .map(|other| other.hold)
            .chain([claim.hold])
            .collect();
        let meeting = Meeting {
            lock: self.lock,
            at: claim.from,
            until,
            holds,
        };
        found.valid.entry((parties, claim.from)).or_insert(meeting);
    }

    fn granted(&self, claim: Claim, found: &mut Found) {
        let mine = self.story.holds[claim.hold].mode;
        for other in self
            .open(Kind::Stale)
            .filter(|other| other.hold != claim.hold)
        {
            if excludes(mine, self.story.holds[other.hold].mode) {
                found.invalid.insert(parties(claim.hold, other.hold));
            }
        }
        if mine == Mode::Permit {
            let valid = self.permits(Kind::Valid, claim).count();
            let stale = self.permits(Kind::Stale, claim).count();
            if valid < self.permits && valid + stale >= self.permits {
                found.invalid.insert((claim.hold, claim.hold));
            }
        }
    }

    fn open(&self, kind: Kind) -> impl Iterator<Item = &Claim> {
        self.open.iter().filter(move |other| other.kind == kind)
    }

    fn permits(&self, kind: Kind, claim: Claim) -> impl Iterator<Item = &Claim> {
        let is_permit = |other: &Claim| self.story.holds[other.hold].mode == Mode::Permit;
        self.open(kind)
            .filter(move |other| other.hold != claim.hold && is_permit(other))
    }
}

fn excludes(one: Mode, other: Mode) -> bool {
    one != other || one == Mode::Exclusive
}

fn parties(one: usize, other: usize) -> Parties {
    (one.min(other), one.max(other))
}

fn judge_meeting(story: &Story<'_>, context: &Context<'_>, meeting: &Meeting, cell: &mut Cell) {
    let parties = told::parties(story, context, meeting);
    told::count(&parties, meeting.at, cell);
    let said = say(story, context, meeting);
    let Some(fault) = excuse(story, context, meeting) else {
        cell.overlaps.valid += 1;
        cell.violations.push(said);
        return;
    };
    cell.overlaps.excused += 1;
    let said = format!("{said}, after {}", fault.say(context.clock));
    let after = |told: u64| say_length(told - meeting.at);
    if let Some(told) = told::told_in_time(&parties) {
        cell.explained
            .push(format!("{said}; one was told after {}", after(told)));
    } else if told::one_left(&parties) {
        cell.explained
            .push(format!("{said}; one released it before it was to be told"));
    } else if context.rules.tells_losses {
        let late = parties.iter().filter_map(|party| party.told).min();
        let late = late.map_or("was not told".to_owned(), |told| {
            format!("was told only after {}", after(told))
        });
        let due = parties.first().map_or(0, |party| party.due);
        let due = after(due.max(meeting.at));
        cell.violations
            .push(format!("{said}, and one {late}, which was due after {due}"));
    } else {
        cell.explained
            .push(format!("{said}; none was told in time"));
    }
}

/// The fault by which the server that granted the lock did not know of another grant: not one that came only after
/// its own.
fn excuse<'a>(
    story: &Story<'_>,
    context: &'a Context<'_>,
    meeting: &Meeting,
) -> Option<&'a Fault<'a>> {
    let slot = story.locks[meeting.lock].slot;
    let last_grant = |of: usize| {
        let others = meeting.holds.iter().filter(|other| **other != of);
        others
            .map(|other| story.holds[*other].granted)
            .max()
            .unwrap_or(0)
    };
    let earlier = meeting.holds.iter().filter(|place| {
        let grant = story.holds[**place].signatures.first();
        grant.is_some_and(|grant| grant.from <= last_grant(**place))
    });
    let earlier: Vec<_> = earlier.map(|place| &story.holds[*place]).collect();
    let faults = &context.faults;
    let forgotten = earlier
        .iter()
        .find_map(|hold| faults.forgot(slot, hold, meeting.at));
    forgotten.or_else(|| {
        // The last grant may be of the former server, which never knew of the earlier one, and be lost with it.
        let last = meeting.holds.iter().map(|place| &story.holds[*place]);
        let last = last.max_by_key(|hold| hold.granted)?;
        faults.forgot(slot, last, meeting.at)?;
        earlier
            .iter()
            .find_map(|hold| faults.divided(slot, hold, meeting.at))
    })
}

fn say(story: &Story<'_>, context: &Context<'_>, meeting: &Meeting) -> String {
    let holders = meeting
        .holds
        .iter()
        .map(|hold| holder(story, context, *hold));
    let holders = holders.collect::<Vec<_>>().join(" and ");
    let lock = &story.locks[meeting.lock].name;
    let (at, until) = (
        context.clock.say(meeting.at),
        context.clock.say(meeting.until),
    );
    format!("{lock} was held by {holders} from {at} to {until}")
}

fn holder(story: &Story<'_>, context: &Context<'_>, hold: usize) -> String {
    let hold = &story.holds[hold];
    let granted = context.clock.say(hold.granted);
    let mode = match hold.mode {
        Mode::Exclusive => "",
        Mode::Shared => "shared, ",
        Mode::Permit => "a permit, ",
    };
    format!(
        "{} ({mode}{} granted at {granted})",
        hold.who,
        story.name_of(hold)
    )
}
