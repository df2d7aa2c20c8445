//! Draws the timeline of a cell: which process held which lock when, as far as the processes
//! reported it, and the faults.

mod holds;
mod lanes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::deployment_name;
use super::svg::{Style, Svg, width};
use crate::history::Event;
use crate::result::Cell;
use holds::{Activity, Fault, Mark, faults, overlaps};
use lanes::{Lanes, Scale};

const SECOND: u64 = 1_000_000_000;
/// The size that a picture should not exceed, because some pictures are committed. A picture that
/// would be larger shows fewer locks.
const BYTES: usize = 8_000;
/// The most locks in one picture.
const LOCKS: usize = 3;
const WIDTH: u64 = 960;
const LEFT: u64 = 96;
const RIGHT: u64 = WIDTH - 16;
const LINE: u64 = 16;
/// The most rows of fault names.
const LABEL_ROWS: usize = 3;

const STYLE: Style = Style {
    light: "\
        .v{stroke:#0072b2;stroke-width:10}.s{stroke:#009e73;stroke-width:5}\
        .o{stroke:#7fb8d8;stroke-width:3}.x{stroke:#d55e00;stroke-width:10}\
        .w{stroke:#8c959f}.t{stroke:#1f2328}.k,.n,.d{stroke:#1f2328;stroke-width:2}\
        .n{stroke:#d55e00}.f{fill:#e69f00;fill-opacity:.3}",
    dark: "\
        .v{stroke:#3aa0dc}.s{stroke:#23b98f}.o{stroke:#6fa8c9}.x,.n{stroke:#ff7b1c}\
        .w{stroke:#8b949e}.t,.k,.d{stroke:#e6edf3}.f{fill-opacity:.22}",
};

/// The longest time that a picture shows.
const LONGEST: u64 = 20 * SECOND;
/// How much time a picture shows after the events that it is about.
const AFTER: u64 = 3 * SECOND;

/// The time to show by default: some seconds around the first fault.
pub(crate) fn window(history: &[Event]) -> Range<u64> {
    let first = history.first().map_or(0, |event| event.at);
    let last = history.last().map_or(0, |event| event.at);
    let fault = faults(history).into_iter().next().map(|fault| fault.time);
    let fault = fault.unwrap_or(first..first);
    let from = fault.start.saturating_sub(SECOND).max(first);
    let to = (fault.end + AFTER).clamp(from + 6 * SECOND, from + LONGEST);
    from..to.min(last).max(from + SECOND)
}

/// The most interesting time: around two holders at once, a refused write, or a reported loss, in
/// this order. It includes the fault that came before. Returns `None` if nothing like that
/// happened.
fn focus(activity: &Activity, faults: &[Fault]) -> Option<Range<u64>> {
    let mut by_lock: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for hold in &activity.holds {
        by_lock.entry(&hold.lock).or_default().push(hold);
    }
    let first_overlap = by_lock
        .values()
        .flat_map(|holds| overlaps(holds))
        .min_by_key(|span| span.start);
    let first = |marks: &[Mark]| marks.iter().map(|(.., at)| *at..*at).next();
    let event = first_overlap
        .or_else(|| first(&activity.refused_writes))
        .or_else(|| first(&activity.reported_losses))?;
    // Of several active faults, the first one is the cause: an election, for example, follows from
    // another fault.
    let begun = || {
        faults
            .iter()
            .filter(|fault| fault.time.start <= event.start)
    };
    let cause = begun()
        .find(|fault| fault.time.end >= event.start)
        .or_else(|| begun().next_back());
    let before = cause.map(|fault| fault.time.start);
    let from = before
        .unwrap_or(event.start)
        .max(event.start.saturating_sub(LONGEST / 2));
    let from = from.saturating_sub(SECOND);
    Some(from..(event.end + AFTER).clamp(from + 6 * SECOND, from + LONGEST))
}

/// Draws the most interesting time of the history, or the given window if there is none. The cell
/// is used for titles only.
pub(crate) fn draw(history: &[Event], cell: &Cell, window: Range<u64>) -> String {
    let (activity, faults) = (Activity::of(history), faults(history));
    let begin = history.first().map_or(window.start, |event| event.at);
    let window =
        focus(&activity, &faults).map_or(window, |focus| focus.start.max(begin)..focus.end);
    let processes = history
        .iter()
        .map(|event| event.process)
        .filter(|process| *process > 0);
    let processes = processes.collect();
    let picture = Picture {
        cell,
        activity,
        faults,
        processes,
        begin,
        window,
    };
    let mut smallest = picture.draw(LOCKS);
    for locks in (1..LOCKS).rev() {
        if smallest.len() <= BYTES {
            break;
        }
        smallest = picture.draw(locks);
    }
    smallest
}

struct Picture<'a> {
    cell: &'a Cell,
    activity: Activity,
    faults: Vec<Fault>,
    processes: BTreeSet<u32>,
    /// When the run began.
    begin: u64,
    window: Range<u64>,
}

impl Picture<'_> {
    fn draw(&self, locks: usize) -> String {
        let (chosen, of) = self.choose(locks);
        let labels = self.labels();
        let lanes_top = 52 + LINE * u64::try_from(labels.len()).expect("few rows");
        let scale = Scale {
            window: self.window.clone(),
            left: LEFT,
            right: RIGHT,
        };
        let lanes = Lanes::arrange(&self.activity, &self.processes, &chosen, &scale, lanes_top);
        let bottom = lanes.bottom;
        let Cell {
            workload,
            fault,
            deployment,
            ..
        } = self.cell;
        let title = format!("{workload} under {fault}, {}", deployment_name(deployment));
        let mut svg = Svg::new(&title, &STYLE);
        svg.text((16, 24), "a", &title);
        svg.text((16, 42), "m", &self.subtitle(chosen.len(), of));
        self.draw_faults(&mut svg, &scale, &labels, lanes_top, bottom);
        self.draw_axis(&mut svg, &scale, lanes_top, bottom);
        let mut legend = lanes.draw(&mut svg);
        if !self.visible_faults().is_empty() {
            legend.push(("f", "fault"));
        }
        let last = draw_legend(&mut svg, &legend, bottom + 60);
        svg.end((WIDTH, last + 12))
    }

    fn subtitle(&self, shown: usize, of: usize) -> String {
        let Cell {
            library,
            version,
            server,
            seed,
            ..
        } = self.cell;
        // A driver that does not know the version of its library reports the name as version.
        let version = if version == library { "" } else { version };
        let mut parts = vec![
            format!("{library} {version}").trim().to_owned(),
            server.clone(),
        ];
        parts.push(format!("seed {seed}"));
        parts.push(match (shown, of) {
            (_, 0) => "nobody held or wanted a lock in these seconds".to_owned(),
            _ if shown < of => format!("{shown} of {of} locks are shown"),
            _ => String::new(),
        });
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }

    /// Returns the locks to show, and how many locks there are. Locks with the most overlaps are
    /// chosen first, then those with the most marks, then those with the most holds.
    fn choose(&self, locks: usize) -> (Vec<String>, usize) {
        let mut by_lock: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for hold in self
            .activity
            .holds
            .iter()
            .filter(|hold| intersects(&hold.all, &self.window))
        {
            by_lock.entry(&hold.lock).or_default().push(hold);
        }
        for (_, lock, _) in self
            .activity
            .waits
            .iter()
            .filter(|wait| intersects(&wait.2, &self.window))
        {
            by_lock.entry(lock).or_default();
        }
        let mut ranked: Vec<_> = by_lock.iter().map(|(lock, holds)| (*lock, holds)).collect();
        let marks = |lock: &str| {
            let marks = self.activity.refused_writes.iter();
            let marks = marks.chain(&self.activity.reported_losses);
            marks
                .filter(|(_, of, at)| of == lock && self.window.contains(at))
                .count()
        };
        ranked.sort_by_cached_key(|(lock, holds)| {
            std::cmp::Reverse((overlaps(holds).len(), marks(lock), holds.len()))
        });
        let mut chosen: Vec<_> = ranked
            .iter()
            .take(locks)
            .map(|(lock, _)| (*lock).to_owned())
            .collect();
        chosen.sort();
        (chosen, by_lock.len())
    }

    fn visible_faults(&self) -> Vec<&Fault> {
        self.faults
            .iter()
            .filter(|fault| intersects(&fault.time, &self.window))
            .collect()
    }

    /// Arranges the names of the faults in rows, so that they do not touch. A fault whose name fits
    /// in no row has only its band.
    fn labels(&self) -> Vec<Vec<(u64, &str)>> {
        let scale = Scale {
            window: self.window.clone(),
            left: LEFT,
            right: RIGHT,
        };
        let mut rows: Vec<Vec<(u64, &str)>> = Vec::new();
        for fault in self.visible_faults() {
            let x = scale
                .x(fault.time.start)
                .min(RIGHT.saturating_sub(width(&fault.name)));
            let free = |row: &Vec<(u64, &str)>| {
                row.last()
                    .is_none_or(|(at, name)| at + width(name) + 8 <= x)
            };
            match rows.iter().position(free) {
                Some(row) => rows[row].push((x, &fault.name)),
                None if rows.len() < LABEL_ROWS => rows.push(vec![(x, &fault.name)]),
                None => {}
            }
        }
        rows
    }

    fn draw_faults(
        &self,
        svg: &mut Svg,
        scale: &Scale,
        labels: &[Vec<(u64, &str)>],
        top: u64,
        bottom: u64,
    ) {
        for fault in self.visible_faults() {
            let (x, end) = (scale.x(fault.time.start), scale.x(fault.time.end));
            let width = end.saturating_sub(x).max(3);
            let (height, detail) = (bottom - top, super::svg::escaped(&fault.detail));
            svg.put(format_args!(
                "<rect class=\"f\" x=\"{x}\" y=\"{top}\" width=\"{width}\" \
                 height=\"{height}\"><title>{detail}</title></rect>\n"
            ));
        }
        let mut y = top - LINE * u64::try_from(labels.len()).expect("few rows");
        for row in labels {
            y += LINE;
            for (x, name) in row {
                svg.text((*x, y - 4), "", name);
            }
        }
    }

    fn draw_axis(&self, svg: &mut Svg, scale: &Scale, top: u64, bottom: u64) {
        let seconds = (self.window.end - self.window.start) / SECOND;
        let step = if seconds > 12 { 2 } else { 1 };
        let first = (self.window.start - self.begin.min(self.window.start)).div_ceil(SECOND);
        let mut grid = Vec::new();
        for second in (first..).step_by(step) {
            let at = self.begin + second * SECOND;
            if at > self.window.end {
                break;
            }
            let x = scale.x(at);
            grid.push(format!("M{x} {top}V{}", bottom + 4));
            svg.text((x, bottom + 18), "c m", &second.to_string());
        }
        svg.path("g", &grid.concat());
        svg.path("ax", &format!("M{LEFT} {bottom}H{RIGHT}"));
        let pixel = (self.window.end - self.window.start) / (RIGHT - LEFT) / 1_000_000;
        let label = format!(
            "seconds since the run began; marks less than {} ms apart touch",
            pixel + 1
        );
        svg.text((LEFT.midpoint(RIGHT), bottom + 36), "c m", &label);
    }
}

fn intersects(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// Draws the legend. Returns the vertical position of its last row.
fn draw_legend(svg: &mut Svg, entries: &[(&'static str, &str)], mut y: u64) -> u64 {
    let mut x = 16;
    for (class, text) in entries {
        if x + 23 + width(text) > RIGHT {
            (x, y) = (16, y + LINE + 2);
        }
        let mark = match *class {
            "f" => format!("M{x} {}h18v10h-18z", y - 9),
            "t" => format!("M{} {}v6", x + 9, y - 8),
            "k" => lanes::cross(x + 9, y - 4),
            "n" => lanes::triangle_up(x + 9, y),
            "d" => lanes::triangle_down(x + 9, y - 8),
            _ => format!("M{x} {}h18", y - 4),
        };
        svg.path(class, &mark);
        svg.text((x + 23, y), "m", text);
        x += 23 + width(text) + 10;
    }
    y
}
