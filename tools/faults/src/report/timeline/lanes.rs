//! A lane for each lock and process: bars, waits and ticks, merged into one path for each kind.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::holds::{Hold, Span, Story, overlaps};
use super::{LINE, meets};
use crate::history::Mode;
use crate::report::svg::Svg;

/// From the release of one process to the grant of another.
const HAND_OVER: u64 = 10_000_000;
/// Story beside each other, in one process.
const ROWS: usize = 6;

/// Seconds to the right.
pub(super) struct Scale {
    pub(super) window: Span,
    pub(super) left: u64,
    pub(super) right: u64,
}

impl Scale {
    pub(super) fn x(&self, at: u64) -> u64 {
        let Span { start, end } = self.window;
        let width = u128::from(self.right - self.left);
        let part =
            u128::from(at.clamp(start, end) - start) * width / u128::from(end - start).max(1);
        self.left + u64::try_from(part).expect("within the picture")
    }

    /// From one pixel to another, of what lies in the window.
    fn pixels(&self, span: &Span) -> Option<Pixels> {
        meets(span, &self.window).then(|| {
            let from = self.x(span.start);
            (from, self.x(span.end).max(from + 1))
        })
    }
}

type Pixels = (u64, u64);

pub(super) struct Lanes<'a> {
    groups: Vec<Group<'a>>,
    scale: &'a Scale,
    pub(super) bottom: u64,
}

/// A lock.
struct Group<'a> {
    lock: &'a str,
    top: u64,
    lanes: Vec<Lane<'a>>,
    overlaps: Vec<Span>,
}

/// A process at that lock.
struct Lane<'a> {
    process: u32,
    top: u64,
    /// In the order of their rows: holds that last at the same time lie below each other.
    rows: Vec<Vec<&'a Hold>>,
    waits: Vec<&'a Span>,
    refused: Vec<u64>,
    told: Vec<u64>,
    /// Grants that came right after another's release.
    taken_over: Vec<u64>,
}

impl<'a> Lanes<'a> {
    pub(super) fn arrange(
        all: &'a Story,
        processes: &BTreeSet<u32>,
        locks: &'a [String],
        scale: &'a Scale,
        top: u64,
    ) -> Self {
        let mut bottom = top;
        let mut groups = Vec::new();
        for lock in locks {
            let holds: Vec<_> = all.holds.iter().filter(|hold| hold.lock == *lock).collect();
            let holds: Vec<_> = holds
                .into_iter()
                .filter(|hold| meets(&hold.all, &scale.window))
                .collect();
            let mut group = Group {
                lock,
                top: bottom,
                lanes: Vec::new(),
                overlaps: overlaps(&holds),
            };
            bottom += LINE + 2;
            for &process in processes {
                let lane = Lane::of(process, all, &holds, scale, bottom);
                bottom += lane.height();
                group.lanes.push(lane);
            }
            bottom += 6;
            groups.push(group);
        }
        Self {
            groups,
            scale,
            bottom: bottom.max(top + LINE),
        }
    }

    /// Says which marks were made, for the legend.
    pub(super) fn draw(&self, svg: &mut Svg) -> Vec<(&'static str, &'static str)> {
        let mut seen = BTreeSet::new();
        let mut readers = "reader, valid";
        for group in &self.groups {
            svg.text((16, group.top + LINE - 2), "", group.lock);
            for lane in &group.lanes {
                let middle = lane.top + lane.height() / 2;
                svg.text((16, middle + 4), "m", &format!("process {}", lane.process));
                for (class, d) in lane.paths(self.scale, &group.overlaps) {
                    if !d.is_empty() {
                        seen.insert(class);
                    }
                    svg.path(class, &d);
                }
                if lane.holds().any(|hold| hold.mode == Mode::Permit) {
                    readers = "permit, valid";
                }
            }
        }
        let legend = [
            ("v", "valid hold"),
            ("s", readers),
            ("o", "past its deadline, in doubt, or ending"),
            ("x", "two valid holds at once"),
            ("w", "waits"),
            ("t", "hand-over"),
            ("n", "write refused"),
            ("d", "told that it is lost"),
            ("k", "last sign of a process"),
        ];
        legend
            .into_iter()
            .filter(|(class, _)| seen.contains(class))
            .collect()
    }
}

impl<'a> Lane<'a> {
    fn of(process: u32, all: &'a Story, of_lock: &[&'a Hold], scale: &Scale, top: u64) -> Self {
        let mine = of_lock
            .iter()
            .copied()
            .filter(|hold| hold.process == process);
        let mut rows: Vec<Vec<&Hold>> = Vec::new();
        let mut taken_over = Vec::new();
        for hold in mine {
            let free = rows
                .iter()
                .position(|row| row.last().is_none_or(|last| last.all.end <= hold.all.start));
            match free {
                Some(row) => rows[row].push(hold),
                None if rows.len() < ROWS => rows.push(vec![hold]),
                None => rows[ROWS - 1].push(hold),
            }
            let mut others = of_lock.iter().filter(|other| other.process != process);
            if others.any(|other| hands_over(other, hold)) {
                taken_over.push(hold.all.start);
            }
        }
        let lock = of_lock.first().map(|hold| hold.lock.as_str());
        let here = |of: u32, name: &str| of == process && Some(name) == lock;
        let waits = all
            .waits
            .iter()
            .filter(|(of, name, _)| here(*of, name))
            .map(|(.., span)| span);
        let moments = |of: &[(u32, String, u64)]| {
            let here = of
                .iter()
                .filter(|(of, name, _)| here(*of, name))
                .map(|(.., at)| *at);
            here.filter(|at| scale.window.contains(at)).collect()
        };
        let (refused, told) = (moments(&all.refused), moments(&all.told));
        Self {
            process,
            top,
            rows,
            waits: waits.collect(),
            refused,
            told,
            taken_over,
        }
    }

    fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.rows.iter().flatten().copied()
    }

    fn height(&self) -> u64 {
        let rows = u64::try_from(self.rows.len()).expect("few rows");
        if rows > 1 { 8 + 7 * rows } else { 20 }
    }

    fn y(&self, row: usize) -> u64 {
        let row = u64::try_from(row).expect("few rows");
        if self.rows.len() > 1 {
            self.top + 8 + 7 * row
        } else {
            self.top + 10
        }
    }

    fn paths(&self, scale: &Scale, overlaps: &[Span]) -> [(&'static str, String); 9] {
        let [mut alone, mut beside, mut doubtful, mut twice, mut cuts] =
            [const { String::new() }; 5];
        for (row, holds) in self.rows.iter().enumerate() {
            let y = self.y(row);
            let valid = |shared: bool| {
                let of_mode = holds
                    .iter()
                    .filter(move |hold| (hold.mode != Mode::Exclusive) == shared);
                of_mode
                    .flat_map(|hold| &hold.valid)
                    .filter_map(|span| scale.pixels(span))
                    .collect::<Vec<_>>()
            };
            bars(&mut alone, y, valid(false));
            bars(&mut beside, y, valid(true));
            let rest = holds
                .iter()
                .flat_map(|hold| rest(hold))
                .filter_map(|span| scale.pixels(&span));
            bars(
                &mut doubtful,
                y,
                rest.filter(|(from, to)| to - from > 1).collect(),
            );
            let both = overlaps
                .iter()
                .flat_map(|both| holds.iter().flat_map(move |hold| common(hold, both)));
            let both = both
                .filter_map(|span| scale.pixels(&span))
                .map(|(from, to)| (from, to.max(from + 2)));
            bars(&mut twice, y, both.collect());
            let cut = holds
                .iter()
                .filter_map(|hold| hold.cut)
                .filter(|cut| scale.window.contains(cut));
            cuts.extend(cut.map(|cut| cross(scale.x(cut), y)));
        }
        let [mut waits, mut ticks, mut refused, mut told] = [const { String::new() }; 4];
        let bottom = self.top + self.height() - 3;
        bars(
            &mut waits,
            bottom,
            self.waits
                .iter()
                .filter_map(|span| scale.pixels(span))
                .filter(|(from, to)| to - from > 1)
                .collect(),
        );
        marks(
            &mut ticks,
            self.top,
            self.taken_over.iter().map(|at| scale.x(*at)).collect(),
        );
        refused.extend(self.refused.iter().map(|at| peak(scale.x(*at), bottom)));
        told.extend(self.told.iter().map(|at| flag(scale.x(*at), self.top)));
        [
            ("w", waits),
            ("o", doubtful),
            ("v", alone),
            ("s", beside),
            ("x", twice),
            ("t", ticks),
            ("n", refused),
            ("d", told),
            ("k", cuts),
        ]
    }
}

/// What is left of a hold beside its valid parts.
fn rest(hold: &Hold) -> Vec<Span> {
    let mut from = hold.all.start;
    let mut rest = Vec::new();
    for valid in &hold.valid {
        rest.push(from..valid.start);
        from = valid.end;
    }
    rest.push(from..hold.all.end);
    rest.retain(|span| span.start < span.end);
    rest
}

fn common(hold: &Hold, both: &Span) -> Vec<Span> {
    let common = hold
        .valid
        .iter()
        .map(|valid| valid.start.max(both.start)..valid.end.min(both.end));
    common.filter(|span| span.start < span.end).collect()
}

fn hands_over(one: &Hold, next: &Hold) -> bool {
    let granted = next.all.start;
    one.releasing
        .is_some_and(|from| (from..=one.all.end + HAND_OVER).contains(&granted))
}

/// Lines on one height, by relative steps; those that touch become one.
fn bars(d: &mut String, y: u64, mut spans: Vec<Pixels>) {
    spans.sort_unstable();
    let mut merged: Vec<Pixels> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    let mut at = None;
    for (from, to) in merged {
        match at {
            None => write!(d, "M{from} {y}h{}", to - from),
            Some(at) => write!(d, "m{} 0h{}", from - at, to - from),
        }
        .expect("a text takes everything");
        at = Some(to);
    }
}

/// Short strokes downwards.
fn marks(d: &mut String, y: u64, mut at: Vec<u64>) {
    at.sort_unstable();
    at.dedup();
    let mut before = None;
    for x in at {
        match before {
            None => write!(d, "M{x} {y}v4"),
            Some(before) => write!(d, "m{}-4v4", x - before),
        }
        .expect("a text takes everything");
        before = Some(x);
    }
}

pub(super) fn cross(x: u64, y: u64) -> String {
    format!("M{} {}l8 8m0-8l-8 8", x - 4, y - 4)
}

pub(super) fn peak(x: u64, y: u64) -> String {
    format!("M{} {y}l4-7l4 7z", x - 4)
}

/// Its point downwards.
pub(super) fn flag(x: u64, y: u64) -> String {
    format!("M{} {y}l4 7l4-7z", x - 4)
}
