//! When faults were on.

use crate::history::{Event, What};

use super::Rules;
use super::times::{Clock, Span, nanos};

#[derive(Debug)]
pub(super) struct Fault<'a> {
    name: &'a str,
    detail: &'a str,
    pub(super) on: u64,
    /// The end of time if it stayed on.
    pub(super) off: u64,
    takes_grants: bool,
}

impl Fault<'_> {
    pub(super) fn say(&self, clock: Clock) -> String {
        let off = if self.off == u64::MAX { "the end".to_owned() } else { clock.say(self.off) };
        format!("{} ({}) from {} to {off}", self.name, self.detail, clock.say(self.on))
    }
}

/// In the order in which they began.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    all: Vec<Fault<'a>>,
    /// How long after its end a fault still shows in what it took away.
    aftermath: u64,
    /// How long after its end a client may not know of it.
    learned: u64,
    /// Ends of faults that had not begun.
    unmatched: Vec<(u64, &'a str)>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(history: &'a [Event], rules: &Rules) -> Self {
        let aftermath = nanos(rules.lease + rules.told_within);
        let learned = nanos(rules.told_within);
        let mut faults = Self { all: Vec::new(), aftermath, learned, unmatched: Vec::new() };
        for event in history {
            let What::Fault { fault, on, detail } = &event.what else { continue };
            if *on {
                let takes_grants = rules.grants_lost_by.contains(fault);
                let off = u64::MAX;
                faults.all.push(Fault { name: fault, detail, on: event.at, off, takes_grants });
            } else {
                faults.end(event.at, fault, detail);
            }
        }
        faults
    }

    /// Ends the oldest that is on, of the same detail if there is one.
    fn end(&mut self, at: u64, name: &'a str, detail: &str) {
        let mut on =
            self.all.iter_mut().filter(|fault| fault.name == name && fault.off == u64::MAX);
        let oldest = on.next();
        let same = match oldest {
            Some(fault) if fault.detail != detail => {
                on.find(|fault| fault.detail == detail).or(Some(fault))
            }
            other => other,
        };
        match same {
            Some(fault) => fault.off = at,
            None => self.unmatched.push((at, name)),
        }
    }

    pub(super) fn malformed(&self, clock: Clock) -> impl Iterator<Item = String> {
        let say = move |(at, name): &(u64, &str)| {
            format!("driver: {name} ends at {} and had not begun", clock.say(*at))
        };
        self.unmatched.iter().map(say)
    }

    /// The last fault that took grants away, and with them what was promised at this time.
    pub(super) fn excuse(&self, at: u64) -> Option<&Fault<'a>> {
        self.took_between(at, at)
    }

    /// The last fault that took grants away between these times, or whose aftermath reaches into them.
    pub(super) fn took_between(&self, from: u64, to: u64) -> Option<&Fault<'a>> {
        let reaches = |fault: &&Fault<'_>| fault.off.saturating_add(self.aftermath) >= from;
        self.begun(to).filter(|fault| fault.takes_grants).find(reaches)
    }

    /// The last fault before `to` that took away what was granted at `granted`: by its end at the latest, or soon after, by
    /// a server of which a client did not know yet that it had been replaced.
    pub(super) fn took_the_grant(&self, granted: u64, to: u64) -> Option<&Fault<'a>> {
        let took = |fault: &&Fault<'_>| fault.off.saturating_add(self.learned) >= granted;
        self.begun(to).filter(|fault| fault.takes_grants).find(took)
    }

    /// Whether no fault is on between these times, nor was for as long before as `margin`.
    pub(super) fn calm(&self, from: u64, to: u64, margin: u64) -> bool {
        self.begun(to).all(|fault| fault.off.saturating_add(margin) < from)
    }

    /// The parts of this time in which no fault is on, nor was for as long before as `margin`.
    pub(super) fn calm_parts(&self, span: Span, margin: u64) -> Vec<Span> {
        let mut calm = Vec::new();
        let mut from = span.from;
        for fault in self.all.iter().take_while(|fault| fault.on <= span.to) {
            if fault.on > from {
                calm.push(Span { from, to: fault.on });
            }
            from = from.max(fault.off.saturating_add(margin));
        }
        if from < span.to {
            calm.push(Span { from, to: span.to });
        }
        calm
    }

    /// The first one that begins after this.
    pub(super) fn next(&self, at: u64) -> Option<&Fault<'a>> {
        self.all.get(self.all.partition_point(|fault| fault.on <= at))
    }

    /// Those that ended, and left no other one on.
    pub(super) fn last_ends(&self) -> impl Iterator<Item = &Fault<'a>> {
        let is_last = |end: &&Fault<'_>| {
            end.off != u64::MAX && self.begun(end.off).all(|fault| fault.off <= end.off)
        };
        self.all.iter().filter(is_last)
    }

    /// The last one first.
    fn begun(&self, by: u64) -> impl Iterator<Item = &Fault<'a>> {
        self.all[..self.all.partition_point(|fault| fault.on <= by)].iter().rev()
    }
}
