//! The picture of S9: what was measured, with its spread, and what the model says.

use std::fmt::{self, Write as _};

use super::Measured;
use super::model::{Bounds, Setting};
use super::spread::Spread;
use crate::report::count;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// The axes.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 460.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 340.0;
/// Lines of the legend.
const LEGEND: f64 = 480.0;
const LINE: f64 = 24.0;
/// Half of the bar at each end of a spread.
const WHISKER: f64 = 6.0;
/// Pairs per second between two marks of the axis.
const STEP: f64 = 50_000.0;

/// A line of the model: what it is called, how it is drawn, and its rate.
type Line = (&'static str, &'static str, fn(Bounds) -> f64);

const LINES: [Line; 5] = [
    (
        "servers: masters ÷ s",
        "stroke=\"#1a8f3c\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.servers,
    ),
    (
        "client: threads ÷ c",
        "stroke=\"#1f5fd0\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.client,
    ),
    (
        "machine: cores ÷ (c + s)",
        "stroke=\"#d08a10\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.cores,
    ),
    (
        "model, cores enough",
        "stroke=\"#888\" stroke-width=\"4\" stroke-dasharray=\"8 4\"",
        |of| of.with_enough_cores(),
    ),
    (
        "model: the least of them",
        "stroke=\"#000\" stroke-width=\"2\"",
        Bounds::rate,
    ),
];

/// From numbers to places.
struct Axes {
    masters: usize,
    rate: f64,
}

impl Axes {
    fn of(measured: &[Measured], bounds: &[Bounds]) -> Self {
        let masters = measured.iter().map(|one| one.masters).max().unwrap_or(1);
        let seen = measured.iter().map(|one| one.pairs_per_s.greatest);
        let said = bounds.iter().map(|of| of.with_enough_cores().max(of.cores));
        let one_server = bounds.first().map(|of| of.servers);
        let rate = seen.chain(said).chain(one_server).fold(0.0, f64::max);
        Axes {
            masters,
            rate: (rate * 1.1 / STEP).ceil() * STEP,
        }
    }

    fn x(&self, masters: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (count(masters) - 0.5) / count(self.masters)
    }

    fn y(&self, rate: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * rate / self.rate
    }
}

pub(super) fn svg(measured: &[Measured], setting: Setting) -> String {
    let bounds: Vec<_> = measured
        .iter()
        .map(|one| setting.bounds(one.masters, one.costs()))
        .collect();
    let axes = Axes::of(measured, &bounds);
    let mut svg = String::new();
    draw(&mut svg, &axes, measured, &bounds).expect("a text takes everything");
    svg
}

fn draw(svg: &mut String, axes: &Axes, measured: &[Measured], bounds: &[Bounds]) -> fmt::Result {
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" \
         role=\"img\" style=\"background:#FFFFFF\">"
    )?;
    writeln!(
        svg,
        "<title>Pairs per second against the number of masters</title>"
    )?;
    writeln!(
        svg,
        "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
    )?;
    draw_axes(svg, axes, measured)?;
    draw_lines(svg, axes, measured, bounds)?;
    draw_points(svg, axes, measured)?;
    writeln!(svg, "</svg>")
}

fn draw_axes(svg: &mut String, axes: &Axes, measured: &[Measured]) -> fmt::Result {
    let mut rate = 0.0;
    while rate <= axes.rate {
        let y = axes.y(rate);
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        )?;
        text(
            svg,
            (LEFT - 8.0, y + 4.0),
            "end",
            &format!("{:.0}", rate / 1e3),
        )?;
        rate += STEP;
    }
    writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" stroke=\"#000\" fill=\"none\"/>"
    )?;
    for one in measured {
        text(
            svg,
            (axes.x(one.masters), BOTTOM + 20.0),
            "middle",
            &one.masters.to_string(),
        )?;
    }
    text(
        svg,
        (f64::midpoint(LEFT, RIGHT), BOTTOM + 44.0),
        "middle",
        "masters",
    )?;
    let middle = f64::midpoint(TOP, BOTTOM);
    writeln!(svg, "<g transform=\"rotate(-90 20 {middle})\">")?;
    text(svg, (20.0, middle), "middle", "thousand pairs per second")?;
    writeln!(svg, "</g>")
}

fn draw_lines(
    svg: &mut String,
    axes: &Axes,
    measured: &[Measured],
    bounds: &[Bounds],
) -> fmt::Result {
    // A bound far above all rates is not drawn beyond the axes.
    let (width, height) = (RIGHT - LEFT, BOTTOM - TOP);
    writeln!(
        svg,
        "<clipPath id=\"inside\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" \
         height=\"{height}\"/></clipPath>"
    )?;
    for (number, (name, style, rate)) in LINES.iter().enumerate() {
        let points = measured.iter().zip(bounds);
        let points = points.map(|(one, of)| (axes.x(one.masters), axes.y(rate(*of))));
        let points: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" clip-path=\"url(#inside)\" {style}/>"
        )?;
        let y = legend_line(number + 1);
        writeln!(svg, "<path d=\"M{LEGEND} {y}h30\" {style}/>")?;
        text(svg, (LEGEND + 40.0, y + 4.0), "start", name)?;
    }
    Ok(())
}

fn draw_points(svg: &mut String, axes: &Axes, measured: &[Measured]) -> fmt::Result {
    for one in measured {
        let x = axes.x(one.masters);
        point(svg, x, one.pairs_per_s.map(|rate| axes.y(rate)))?;
    }
    let y = legend_line(0);
    let example = Spread {
        least: y + 8.0,
        median: y,
        greatest: y - 8.0,
    };
    point(svg, LEGEND + 15.0, example)?;
    text(
        svg,
        (LEGEND + 40.0, y + 4.0),
        "start",
        "measured, with its spread",
    )
}

/// A median, and its spread.
fn point(svg: &mut String, x: f64, at: Spread) -> fmt::Result {
    let Spread {
        least,
        median,
        greatest,
    } = at;
    let (left, whisker) = (x - WHISKER, 2.0 * WHISKER);
    writeln!(
        svg,
        "<path d=\"M{x:.1} {least:.1}V{greatest:.1}M{left:.1} {least:.1}h{whisker}\
         M{left:.1} {greatest:.1}h{whisker}\" stroke=\"#c22\"/>"
    )?;
    writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{median:.1}\" r=\"4\" fill=\"#c22\"/>"
    )
}

fn legend_line(number: usize) -> f64 {
    TOP + LINE * (count(number) + 0.5)
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) -> fmt::Result {
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}
