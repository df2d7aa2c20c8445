//! When faults were on, and what they reached.

use crate::elections;
use crate::history::{Event, Scope, What};

use super::Rules;
use super::times::{Clock, Span, nanos};

/// What a fault does to the grants of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A server is replaced by one that is behind.
    Replaces,
    /// A server forgets what it had.
    Empties,
    /// No grant is lost by it.
    Other,
}

#[derive(Debug)]
pub(super) struct Fault<'a> {
    name: &'a str,
    detail: &'a str,
    pub(super) on: u64,
    /// The end of time if it stayed on.
    pub(super) off: u64,
    pub(super) effect: Effect,
    scope: &'a Scope,
}

impl Fault<'_> {
    pub(super) fn say(&self, clock: Clock) -> String {
        let off = if self.off == u64::MAX {
            "the end".to_owned()
        } else {
            clock.say(self.off)
        };
        format!(
            "{} ({}) from {} to {off}",
            self.name,
            self.detail,
            clock.say(self.on)
        )
    }

    /// Elections follow from faults, and are none that somebody injected.
    pub(super) fn is_injection(&self) -> bool {
        self.name != elections::NAME
    }

    pub(super) fn reaches_slot(&self, slot: u16) -> bool {
        let contains = |&(first, last): &(u16, u16)| (first..=last).contains(&slot);
        self.scope.slots.is_empty() || self.scope.slots.iter().any(contains)
    }

    pub(super) fn names(&self, process: u32) -> bool {
        self.scope.processes.contains(&process)
    }

    /// Whether it reaches this process, or one of these locks.
    pub(super) fn reaches(&self, process: u32, slots: &[u16]) -> bool {
        let reaches_a_lock = || slots.iter().any(|slot| self.reaches_slot(*slot));
        self.names(process)
            || (self.scope.processes.is_empty() || !self.scope.slots.is_empty()) && reaches_a_lock()
    }

    /// Whether it is on at some time in the span, or ended at most `margin` before it.
    fn is_on_in(&self, span: Span, margin: u64) -> bool {
        self.on <= span.to && self.off.saturating_add(margin) >= span.from
    }
}

/// In the order in which they began.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    all: Vec<Fault<'a>>,
    /// How long after its end a client may not know of it.
    pub(super) learned: u64,
    /// When the history ends.
    last: u64,
    /// When the machine had no time for a process.
    stalls: Vec<Span>,
    /// Ends of faults that had not begun.
    unmatched: Vec<(u64, &'a str)>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(history: &'a [Event], rules: &Rules) -> Self {
        let learned = nanos(rules.told_within);
        let last = history.last().map_or(0, |event| event.at);
        let mut faults = Self {
            all: Vec::new(),
            learned,
            last,
            stalls: stalls(history),
            unmatched: Vec::new(),
        };
        for event in history {
            let What::Fault {
                fault: name,
                on,
                detail,
                scope,
            } = &event.what
            else {
                continue;
            };
            if *on {
                let effect = effect(name, rules);
                let (on, off) = (event.at, u64::MAX);
                faults.all.push(Fault {
                    name,
                    detail,
                    on,
                    off,
                    effect,
                    scope,
                });
            } else {
                faults.end(event.at, name, detail);
            }
        }
        faults
    }

    /// Ends the oldest that is on, of the same detail if there is one.
    fn end(&mut self, at: u64, name: &'a str, detail: &str) {
        let mut on = self
            .all
            .iter_mut()
            .filter(|fault| fault.name == name && fault.off == u64::MAX);
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
            format!(
                "driver: {name} ends at {} and had not begun",
                clock.say(*at)
            )
        };
        self.unmatched.iter().map(say)
    }

    /// A fault that can have cost this process a hold in this time: also one that ended a little before, because
    /// clients learn of it later. While a shard of a cluster is down all others refuse calls, too.
    pub(super) fn cause(&self, process: u32, span: Span) -> Option<&Fault<'a>> {
        let concerns = |fault: &Fault<'_>| {
            let Scope { processes, slots } = fault.scope;
            processes.is_empty() || !slots.is_empty() || processes.contains(&process)
        };
        self.begun(span.to)
            .find(|fault| fault.is_on_in(span, self.learned) && concerns(fault))
    }

    /// Whether a fault that is on in this time is aimed at this process.
    pub(super) fn hold_up(&self, process: u32, span: Span) -> bool {
        let is_aimed = |fault: &Fault<'_>| fault.names(process);
        self.begun(span.to)
            .any(|fault| is_aimed(fault) && fault.is_on_in(span, 0))
    }

    /// Those that take grants away from servers and had begun by then, the last one first.
    pub(super) fn takers(&self, by: u64) -> impl Iterator<Item = &Fault<'a>> {
        self.begun(by).filter(|fault| fault.effect != Effect::Other)
    }

    /// Those that somebody injected, each with its time within the history.
    pub(super) fn injections(&self) -> impl Iterator<Item = (&Fault<'a>, Span)> {
        let injections = self.all.iter().filter(|fault| fault.is_injection());
        injections.map(|fault| {
            (
                fault,
                Span {
                    from: fault.on,
                    to: fault.off.min(self.last),
                },
            )
        })
    }

    /// Whether no fault is on between these times, nor was for as long before as `margin`.
    pub(super) fn calm(&self, from: u64, to: u64, margin: u64) -> bool {
        let span = Span { from, to };
        !self.begun(to).any(|fault| fault.is_on_in(span, margin))
    }

    /// The parts of this time in which no fault is on, nor was for as long before as `margin`, and the machine had time
    /// for everybody.
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
        calm.into_iter()
            .flat_map(|calm| self.without_stalls(calm))
            .collect()
    }

    fn without_stalls(&self, span: Span) -> Vec<Span> {
        let (mut from, mut rest) = (span.from, Vec::new());
        for stall in self.stalls.iter().filter_map(|stall| stall.common(span)) {
            rest.push(Span {
                from,
                to: stall.from.max(from),
            });
            from = from.max(stall.to);
        }
        rest.push(Span { from, to: span.to });
        rest
    }

    pub(super) fn first(&self) -> Option<&Fault<'a>> {
        self.all.first()
    }

    /// The first one that begins after this.
    pub(super) fn next(&self, at: u64) -> Option<&Fault<'a>> {
        self.all
            .get(self.all.partition_point(|fault| fault.on <= at))
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
        self.all[..self.all.partition_point(|fault| fault.on <= by)]
            .iter()
            .rev()
    }
}

fn stalls(history: &[Event]) -> Vec<Span> {
    let stall = |event: &Event| {
        let What::Stalled { millis } = event.what else {
            return None;
        };
        Some(Span {
            from: event.at.saturating_sub(millis * 1_000_000),
            to: event.at,
        })
    };
    Span::united(history.iter().filter_map(stall).collect(), 0)
}

fn effect(name: &str, rules: &Rules) -> Effect {
    if rules.emptied_by.contains(name) {
        Effect::Empties
    } else if rules.replaced_by.contains(name) {
        Effect::Replaces
    } else {
        Effect::Other
    }
}
