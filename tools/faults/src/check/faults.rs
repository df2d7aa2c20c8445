//! When faults were on, and which processes and locks they reached.

use crate::elections;
use crate::history::{Event, Scope, What};

use super::Rules;
use super::times::{Clock, Span, nanos};

/// What a fault does to the holds that a server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The server is replaced by one that lags behind.
    Replaces,
    /// The server loses its data.
    Empties,
    /// No grant is lost.
    Other,
}

#[derive(Debug)]
pub(super) struct Fault<'a> {
    name: &'a str,
    detail: &'a str,
    pub(super) on: u64,
    /// `u64::MAX` if the fault was never switched off.
    pub(super) off: u64,
    pub(super) effect: Effect,
    scope: &'a Scope,
}

impl Fault<'_> {
    pub(super) fn describe(&self, clock: Clock) -> String {
        let off = if self.off == u64::MAX {
            "the end".to_owned()
        } else {
            clock.format(self.off)
        };
        format!(
            "{} ({}) from {} to {off}",
            self.name,
            self.detail,
            clock.format(self.on)
        )
    }

    /// False for an election: it is a consequence of a fault, and was not injected itself.
    pub(super) fn is_injection(&self) -> bool {
        self.name != elections::NAME
    }

    pub(super) fn reaches_slot(&self, slot: u16) -> bool {
        let contains = |&(first, last): &(u16, u16)| (first..=last).contains(&slot);
        self.scope.slots.is_empty() || self.scope.slots.iter().any(contains)
    }

    pub(super) fn names_process(&self, process: u32) -> bool {
        self.scope.processes.contains(&process)
    }

    /// Whether the fault reaches this process, or one of the locks in these slots.
    pub(super) fn reaches(&self, process: u32, slots: &[u16]) -> bool {
        let reaches_a_lock = || slots.iter().any(|slot| self.reaches_slot(*slot));
        self.names_process(process)
            || (self.scope.processes.is_empty() || !self.scope.slots.is_empty()) && reaches_a_lock()
    }

    /// Whether the fault is on at some time in the span, or ended at most `margin` before the span.
    fn is_on_in(&self, span: Span, margin: u64) -> bool {
        self.on <= span.to && self.off.saturating_add(margin) >= span.from
    }
}

/// All faults of a history.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    /// Sorted by their beginning.
    all: Vec<Fault<'a>>,
    /// How long after the end of a fault a client may not yet have noticed its consequences.
    pub(super) learn_time: u64,
    /// The end of the history.
    last: u64,
    /// When a timer of a process fired late, because the machine was busy.
    stalls: Vec<Span>,
    /// Events that end a fault that had not begun.
    unmatched: Vec<(u64, &'a str)>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(history: &'a [Event], rules: &Rules) -> Self {
        let learn_time = nanos(rules.notice_within);
        let last = history.last().map_or(0, |event| event.at);
        let mut faults = Self {
            all: Vec::new(),
            learn_time,
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

    /// Ends the oldest fault of this name that is on. One with the same detail takes precedence.
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
                "driver: fault {name} ended at {}, but had not begun",
                clock.format(*at)
            )
        };
        self.unmatched.iter().map(say)
    }

    /// A fault that may have made this process lose a hold in this time. The fault may have ended a
    /// little before, because clients notice the consequences later. Slots do not matter: while one
    /// shard of a cluster is down, the other shards refuse calls too.
    pub(super) fn cause(&self, process: u32, span: Span) -> Option<&Fault<'a>> {
        let concerns = |fault: &Fault<'_>| {
            let Scope { processes, slots } = fault.scope;
            processes.is_empty() || !slots.is_empty() || processes.contains(&process)
        };
        self.begun_by(span.to)
            .find(|fault| fault.is_on_in(span, self.learn_time) && concerns(fault))
    }

    /// Whether a fault that names this process is on in this time, and so delays it.
    pub(super) fn delays(&self, process: u32, span: Span) -> bool {
        self.begun_by(span.to)
            .any(|fault| fault.names_process(process) && fault.is_on_in(span, 0))
    }

    /// The faults that began by this time and make servers forget grants, the last one first.
    pub(super) fn forgetting(&self, by: u64) -> impl Iterator<Item = &Fault<'a>> {
        self.begun_by(by)
            .filter(|fault| fault.effect != Effect::Other)
    }

    /// The injected faults, each with the time in which it was on.
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

    /// Whether no fault is on between these times, or was on within `margin` before.
    pub(super) fn is_calm(&self, from: u64, to: u64, margin: u64) -> bool {
        let span = Span { from, to };
        !self.begun_by(to).any(|fault| fault.is_on_in(span, margin))
    }

    /// The parts of this time in which no fault is on, no fault was on within `margin` before, and
    /// no timer was late.
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

    /// The first fault that begins after this time.
    pub(super) fn next(&self, at: u64) -> Option<&Fault<'a>> {
        self.all
            .get(self.all.partition_point(|fault| fault.on <= at))
    }

    /// The faults at whose end no other fault was on.
    pub(super) fn undisturbed_ends(&self) -> impl Iterator<Item = &Fault<'a>> {
        let is_undisturbed = |end: &&Fault<'_>| {
            end.off != u64::MAX && self.begun_by(end.off).all(|fault| fault.off <= end.off)
        };
        self.all.iter().filter(is_undisturbed)
    }

    /// The faults that began by this time, the last one first.
    fn begun_by(&self, by: u64) -> impl Iterator<Item = &Fault<'a>> {
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
