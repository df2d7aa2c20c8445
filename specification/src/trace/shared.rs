//! Judges what was said about a lock that several may hold, or about permits: by what their holders
//! may trust.
//!
//! A hold is certainly in Redis from the reply that granted it until the lease of the last call
//! that was answered, counted from when that was sent, or until its release is sent. So a reply to
//! a call that was sent and answered in the meantime must agree: nobody is granted what excludes
//! the hold, and no renewal finds it gone. How many permits there are is not known, so permits
//! exclude nobody here.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Asked, Entry, Said};
use crate::plain::Span;

const NANOS: u64 = 1_000_000;

pub(super) struct Shared {
    /// In nanoseconds.
    noise: u64,
    holds: BTreeMap<String, Hold>,
    /// Fields that are done. None may be used again.
    done: BTreeSet<String>,
    /// Fields of forgotten holds, which others may restore.
    handed_on: BTreeSet<String>,
    /// Fields that another client released by force: their holder may still hear that it has them.
    taken_away: BTreeSet<String>,
    calls: BTreeMap<(u32, u64), Call>,
    longest_lease: Span,
    /// What was carried out by then may be gone for any reason.
    doubtful_until: u64,
    pub(super) grants: usize,
    pub(super) believed: usize,
}

struct Hold {
    client: u32,
    kind: Asked,
    /// The number of the hold that is trusted.
    number: Option<u64>,
    /// The beginning and the end of the time in which Redis certainly has it.
    certain: Option<(u64, u64)>,
    /// The latest deadline that its holder may have.
    until: u64,
    /// How many releases were sent.
    releases: u32,
}

/// A call that is not answered.
struct Call {
    kind: Asked,
    field: String,
    /// The write hold of the same owner.
    under: String,
    sent: u64,
    /// The earliest end of the lease that it asks for.
    until: u64,
}

type Step = Result<(), &'static str>;

impl Shared {
    pub(super) fn of(noise: Span) -> Self {
        Shared {
            noise: u64::from(noise) * NANOS,
            holds: BTreeMap::new(),
            done: BTreeSet::new(),
            handed_on: BTreeSet::new(),
            taken_away: BTreeSet::new(),
            calls: BTreeMap::new(),
            longest_lease: 0,
            doubtful_until: 0,
            grants: 0,
            believed: 0,
        }
    }

    pub(super) fn step(&mut self, entry: &Entry) -> Step {
        let at = entry.at;
        if let Said::Sent { field, .. } | Said::Trusted { field, .. } = &entry.said
            && self.handed_on.contains(field)
        {
            return Ok(());
        }
        match &entry.said {
            Said::Sent {
                call,
                kind,
                field,
                lease,
                under,
            } => {
                self.sent(at, entry.client, *kind, field)?;
                self.longest_lease = self.longest_lease.max(*lease);
                let call = (entry.client, *call);
                let sent = Call {
                    kind: *kind,
                    field: field.clone(),
                    under: under.clone(),
                    sent: at,
                    until: at + u64::from(*lease) * NANOS,
                };
                self.calls.insert(call, sent);
                Ok(())
            }
            Said::Answered { call, answer } => match self.calls.remove(&(entry.client, *call)) {
                Some(call) => self.answered(at, &call, *answer),
                None => Ok(()),
            },
            Said::NotRun { call } => {
                self.calls.remove(&(entry.client, *call));
                Ok(())
            }
            Said::Trusted { hold, field, until } => self.trusted(at, *hold, field, *until),
            Said::Forgets { until } => {
                self.is_doubtful(*until);
                Ok(())
            }
            Said::Replaced { until } => {
                self.is_doubtful(until + self.lease());
                Ok(())
            }
            Said::Unmodelled => {
                self.is_doubtful(at + self.lease());
                Ok(())
            }
            Said::HandedOn { field } => {
                self.handed_on.insert(field.clone());
                self.holds.remove(field);
                Ok(())
            }
        }
    }

    fn lease(&self) -> u64 {
        u64::from(self.longest_lease) * NANOS
    }

    fn is_doubtful(&mut self, until: u64) {
        self.doubtful_until = self.doubtful_until.max(until);
        for hold in self.holds.values_mut() {
            hold.certain = None;
        }
    }

    fn sent(&mut self, at: u64, client: u32, kind: Asked, field: &str) -> Step {
        match kind {
            Asked::Renew => {}
            Asked::Release => {
                if let Some(hold) = self.holds.get_mut(field) {
                    hold.releases += 1;
                    if hold.client != client {
                        self.taken_away.insert(field.to_owned());
                    }
                } else if !self.done.contains(field) {
                    // Somebody gives back permits of others, or some of its own.
                    self.is_doubtful(at + self.lease());
                }
            }
            Asked::Acquire | Asked::Read | Asked::Write | Asked::Permits => {
                if self.done.contains(field) {
                    return Err("a field is used again");
                }
                let new = Hold {
                    client,
                    kind,
                    number: None,
                    certain: None,
                    until: 0,
                    releases: 0,
                };
                let hold = self.holds.entry(field.to_owned()).or_insert(new);
                if hold.releases > 0 || hold.number.is_some() {
                    return Err("asked although it holds or has left");
                }
            }
        }
        Ok(())
    }

    fn answered(&mut self, at: u64, call: &Call, answer: Answer) -> Step {
        let is_certain = |hold: &Hold, releases| {
            let covers = |(since, until)| since <= call.sent && until >= at + self.noise;
            hold.releases == releases && hold.certain.is_some_and(covers)
        };
        match (call.kind, answer) {
            (Asked::Release, _) => {
                let hold = self.holds.remove(&call.field);
                self.done.insert(call.field.clone());
                if answer == Answer::No && hold.is_some_and(|hold| is_certain(&hold, 1)) {
                    return Err("gone although nothing has ended it");
                }
                return Ok(());
            }
            (Asked::Renew, Answer::No) => {
                let hold = self.holds.get(&call.field);
                if hold.is_some_and(|hold| is_certain(hold, 0)) {
                    return Err("gone although nothing has ended it");
                }
                return Ok(());
            }
            (_, Answer::No) => return Ok(()),
            (Asked::Renew, Answer::Yes) => {}
            (_, Answer::Yes) => {
                self.grants += 1;
                let excludes = |(field, hold): (&String, &Hold)| {
                    let is_other = *field != call.field && *field != call.under;
                    let excludes = [call.kind, hold.kind]
                        .iter()
                        .any(|kind| [Asked::Acquire, Asked::Write].contains(kind));
                    is_other && excludes && is_certain(hold, 0)
                };
                if self.holds.iter().any(excludes) {
                    return Err("granted although another has it");
                }
            }
        }
        let is_doubtful = call.sent <= self.doubtful_until;
        self.believed += usize::from(is_doubtful && call.kind != Asked::Renew);
        if let Some(hold) = self.holds.get_mut(&call.field) {
            if !is_doubtful {
                // What was promised before a doubt does not count any more.
                let (since, until) = hold.certain.unwrap_or((at, 0));
                hold.certain = Some((since, until.max(call.until)));
            }
            hold.until = hold.until.max(call.until);
        }
        Ok(())
    }

    fn trusted(&mut self, at: u64, number: u64, field: &str, until: u64) -> Step {
        let Some(hold) = self.holds.get_mut(field) else {
            // It may have been restored.
            return if at <= self.doubtful_until || self.taken_away.contains(field) {
                Ok(())
            } else {
                Err("trusted without a grant")
            };
        };
        let is_next = hold.number.is_some_and(|before| before != number);
        if is_next && hold.releases > 0 {
            return Err("handed over after its release, or when it was lost");
        }
        hold.number = Some(number);
        if until > hold.until + self.noise {
            return Err("trusted for longer than Redis keeps it, or after its end");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{at, judge};
    use super::*;

    fn call(number: u64, sent: u64, (kind, lease): (Asked, Span), answer: Answer) -> [Entry; 2] {
        let (call, field, under) = (number, "one".to_owned(), String::new());
        let said = Said::Sent {
            call,
            kind,
            field,
            lease,
            under,
        };
        [
            at(sent, said),
            at(sent + 1, Said::Answered { call, answer }),
        ]
    }

    /// Permits that are granted, and renewed while their server forgets.
    fn renewed_in_vain() -> Vec<Entry> {
        let until = 2_000 * NANOS;
        [
            call(1, 0, (Asked::Permits, 3_000), Answer::Yes),
            call(2, 1_500, (Asked::Renew, 3_000), Answer::Yes),
        ]
        .into_iter()
        .flatten()
        .chain([at(1_000, Said::Forgets { until })])
        .collect()
    }

    #[test]
    fn a_renewal_that_the_server_forgot_promises_nothing() {
        let mut history = renewed_in_vain();
        history.extend(call(3, 2_500, (Asked::Renew, 1), Answer::Yes));
        history.extend(call(4, 3_500, (Asked::Release, 0), Answer::No));
        assert_eq!(judge(history, 50).disallowed(), None);
    }

    #[test]
    fn a_renewal_after_that_does() {
        let mut history = renewed_in_vain();
        history.extend(call(3, 2_500, (Asked::Renew, 3_000), Answer::Yes));
        history.extend(call(4, 3_500, (Asked::Release, 0), Answer::No));
        let told = judge(history, 50).disallowed().expect("a violation");
        assert!(
            told.contains("gone although nothing has ended it"),
            "{told}"
        );
    }
}
