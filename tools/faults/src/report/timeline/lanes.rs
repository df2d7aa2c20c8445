//! Draws a lane for each process at each lock. All marks of one kind in a lane are merged into one
//! path, which keeps the picture small.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::holds::{Activity, Hold, Mark, Span, overlaps};
use super::{LINE, intersects};
use crate::history::Mode;
use crate::report::svg::Svg;

/// A grant within this time of another process's release is drawn as a hand-over.
const HAND_OVER: u64 = 10_000_000;
/// The most rows of a lane, for simultaneous holds of one process.
const ROWS: usize = 6;

/// Maps time to horizontal positions.
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

    /// The horizontal extent of a span, at least one pixel wide. `None` if the span is outside the
    /// window.
    fn pixels(&self, span: &Span) -> Option<Pixels> {
        intersects(span, &self.window).then(|| {
            let from = self.x(span.start);
            (from, self.x(span.end).max(from + 1))
        })
    }
}

/// From one horizontal position to another.
type Pixels = (u64, u64);

pub(super) struct Lanes<'a> {
    groups: Vec<Group<'a>>,
    scale: &'a Scale,
    pub(super) bottom: u64,
}

/// All lanes of one lock.
struct Group<'a> {
    lock: &'a str,
    top: u64,
    lanes: Vec<Lane<'a>>,
    overlaps: Vec<Span>,
}

/// One process at one lock.
struct Lane<'a> {
    process: u32,
    top: u64,
    /// The holds by row. Holds at the same time are in different rows, as far as the rows suffice.
    rows: Vec<Vec<&'a Hold>>,
    waits: Vec<&'a Span>,
    refused_writes: Vec<u64>,
    reported_losses: Vec<u64>,
    /// Grants right after the release of another process.
    hand_overs: Vec<u64>,
}

impl<'a> Lanes<'a> {
    pub(super) fn arrange(
        activity: &'a Activity,
        processes: &BTreeSet<u32>,
        locks: &'a [String],
        scale: &'a Scale,
        top: u64,
    ) -> Self {
        let mut bottom = top;
        let mut groups = Vec::new();
        for lock in locks {
            let holds: Vec<_> = activity
                .holds
                .iter()
                .filter(|hold| hold.lock == *lock)
                .collect();
            let holds: Vec<_> = holds
                .into_iter()
                .filter(|hold| intersects(&hold.all, &scale.window))
                .collect();
            let mut group = Group {
                lock,
                top: bottom,
                lanes: Vec::new(),
                overlaps: overlaps(&holds),
            };
            bottom += LINE + 2;
            for &process in processes {
                let lane = Lane::of(process, activity, &holds, scale, bottom);
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

    /// Draws the lanes. Returns the entries of the legend for the marks that occur.
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
            ("o", "past its deadline, in doubt, or in release"),
            ("x", "two valid holds at once"),
            ("w", "waits"),
            ("t", "hand-over"),
            ("n", "write refused"),
            ("d", "loss reported"),
            ("k", "last sign of a process"),
        ];
        legend
            .into_iter()
            .filter(|(class, _)| seen.contains(class))
            .collect()
    }
}

impl<'a> Lane<'a> {
    fn of(
        process: u32,
        activity: &'a Activity,
        of_lock: &[&'a Hold],
        scale: &Scale,
        top: u64,
    ) -> Self {
        let mine = of_lock
            .iter()
            .copied()
            .filter(|hold| hold.process == process);
        let mut rows: Vec<Vec<&Hold>> = Vec::new();
        let mut hand_overs = Vec::new();
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
                hand_overs.push(hold.all.start);
            }
        }
        let lock = of_lock.first().map(|hold| hold.lock.as_str());
        let here = |of: u32, name: &str| of == process && Some(name) == lock;
        let waits = activity
            .waits
            .iter()
            .filter(|(of, name, _)| here(*of, name))
            .map(|(.., span)| span);
        let moments = |marks: &[Mark]| {
            let here = marks
                .iter()
                .filter(|(of, name, _)| here(*of, name))
                .map(|(.., at)| *at);
            here.filter(|at| scale.window.contains(at)).collect()
        };
        let refused_writes = moments(&activity.refused_writes);
        let reported_losses = moments(&activity.reported_losses);
        Self {
            process,
            top,
            rows,
            waits: waits.collect(),
            refused_writes,
            reported_losses,
            hand_overs,
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
        let [
            mut exclusive,
            mut shared_bars,
            mut not_valid,
            mut overlapping,
            mut crosses,
        ] = [const { String::new() }; 5];
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
            bars(&mut exclusive, y, valid(false));
            bars(&mut shared_bars, y, valid(true));
            let rest = holds
                .iter()
                .flat_map(|hold| invalid_times(hold))
                .filter_map(|span| scale.pixels(&span));
            bars(
                &mut not_valid,
                y,
                rest.filter(|(from, to)| to - from > 1).collect(),
            );
            let both = overlaps
                .iter()
                .flat_map(|both| holds.iter().flat_map(move |hold| valid_within(hold, both)));
            let both = both
                .filter_map(|span| scale.pixels(&span))
                .map(|(from, to)| (from, to.max(from + 2)));
            bars(&mut overlapping, y, both.collect());
            let last_signs = holds
                .iter()
                .filter_map(|hold| hold.last_sign)
                .filter(|at| scale.window.contains(at));
            crosses.extend(last_signs.map(|at| cross(scale.x(at), y)));
        }
        let [mut waits, mut hand_overs, mut refused, mut losses] = [const { String::new() }; 4];
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
        ticks(
            &mut hand_overs,
            self.top,
            self.hand_overs.iter().map(|at| scale.x(*at)).collect(),
        );
        refused.extend(
            self.refused_writes
                .iter()
                .map(|at| triangle_up(scale.x(*at), bottom)),
        );
        losses.extend(
            self.reported_losses
                .iter()
                .map(|at| triangle_down(scale.x(*at), self.top)),
        );
        [
            ("w", waits),
            ("o", not_valid),
            ("v", exclusive),
            ("s", shared_bars),
            ("x", overlapping),
            ("t", hand_overs),
            ("n", refused),
            ("d", losses),
            ("k", crosses),
        ]
    }
}

/// The times of a hold in which it was not valid.
fn invalid_times(hold: &Hold) -> Vec<Span> {
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

/// The parts of an overlap in which this hold was valid.
fn valid_within(hold: &Hold, both: &Span) -> Vec<Span> {
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

/// Adds horizontal lines to a path. Lines that touch are merged, and relative coordinates keep the
/// path short.
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
        .expect("writing to a string does not fail");
        at = Some(to);
    }
}

/// Adds short vertical strokes to a path.
fn ticks(d: &mut String, y: u64, mut at: Vec<u64>) {
    at.sort_unstable();
    at.dedup();
    let mut before = None;
    for x in at {
        match before {
            None => write!(d, "M{x} {y}v4"),
            Some(before) => write!(d, "m{}-4v4", x - before),
        }
        .expect("writing to a string does not fail");
        before = Some(x);
    }
}

pub(super) fn cross(x: u64, y: u64) -> String {
    format!("M{} {}l8 8m0-8l-8 8", x - 4, y - 4)
}

/// A triangle with its tip at the top.
pub(super) fn triangle_up(x: u64, y: u64) -> String {
    format!("M{} {y}l4-7l4 7z", x - 4)
}

/// A triangle with its tip at the bottom.
pub(super) fn triangle_down(x: u64, y: u64) -> String {
    format!("M{} {y}l4 7l4-7z", x - 4)
}
