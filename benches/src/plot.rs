//! A picture of figures that grow: a column for each size, lines and points with their spread.

mod scale;

use std::fmt::{self, Write as _};

pub(crate) use scale::Scale;

use crate::report::count;
use crate::spread::Spread;
use crate::table::rounded;

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

#[derive(Debug)]
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// What the columns are.
    pub(crate) across: &'a str,
    pub(crate) columns: Vec<String>,
    /// What the values are.
    pub(crate) upwards: &'a str,
    pub(crate) scale: Scale,
    pub(crate) series: Vec<Series<'a>>,
}

#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) look: Look<'a>,
    /// Of each column, if it has one.
    pub(crate) values: Vec<Option<Spread>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Look<'a> {
    /// A calculated line, with these attributes.
    Line(&'a str),
    /// Measured points of this colour.
    Points(&'a str),
    /// The same, and a line through them.
    Curve(&'a str),
}

impl Plot<'_> {
    pub(crate) fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).expect("a text takes everything");
        svg
    }

    fn draw(&self, svg: &mut String) -> fmt::Result {
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" \
             role=\"img\" style=\"background:#FFFFFF\">"
        )?;
        writeln!(svg, "<title>{}</title>", self.title)?;
        writeln!(
            svg,
            "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
        )?;
        self.draw_marks(svg)?;
        self.draw_heads(svg)?;
        // A bound far above all values is not drawn beyond the axes.
        let (width, height) = (RIGHT - LEFT, BOTTOM - TOP);
        writeln!(
            svg,
            "<clipPath id=\"inside\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" \
             height=\"{height}\"/></clipPath>"
        )?;
        for (number, series) in self.series.iter().enumerate() {
            self.draw_series(svg, series)?;
            series.draw_legend(svg, TOP + LINE * (count(number) + 0.5))?;
        }
        writeln!(svg, "</svg>")
    }

    fn draw_marks(&self, svg: &mut String) -> fmt::Result {
        for mark in self.scale.marks() {
            let y = self.y(mark);
            writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
            )?;
            text(svg, (LEFT - 8.0, y + 4.0), "end", &mark_text(mark))?;
        }
        writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" stroke=\"#000\" fill=\"none\"/>"
        )
    }

    /// The names of columns and axes.
    fn draw_heads(&self, svg: &mut String) -> fmt::Result {
        for (column, head) in self.columns.iter().enumerate() {
            text(svg, (self.x(column), BOTTOM + 20.0), "middle", head)?;
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        text(svg, (middle, BOTTOM + 44.0), "middle", self.across)?;
        let middle = f64::midpoint(TOP, BOTTOM);
        writeln!(svg, "<g transform=\"rotate(-90 16 {middle})\">")?;
        text(svg, (16.0, middle), "middle", self.upwards)?;
        writeln!(svg, "</g>")
    }

    fn draw_series(&self, svg: &mut String, series: &Series<'_>) -> fmt::Result {
        let points: Vec<_> = (series.values.iter().enumerate())
            .filter_map(|(column, value)| Some((self.x(column), (*value)?)))
            .map(|(x, value)| (x, value.map(|value| self.y(value))))
            .collect();
        let line = |svg: &mut String, style: &str| {
            let points: Vec<_> = points
                .iter()
                .map(|(x, at)| format!("{x:.1},{:.1}", at.median))
                .collect();
            let points = points.join(" ");
            writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" clip-path=\"url(#inside)\" {style}/>"
            )
        };
        let colour = match series.look {
            Look::Line(style) => return line(svg, style),
            Look::Points(colour) => colour,
            Look::Curve(colour) => {
                line(svg, &format!("stroke=\"{colour}\" stroke-width=\"2\""))?;
                colour
            }
        };
        for (x, at) in &points {
            point(svg, *x, *at, colour)?;
        }
        Ok(())
    }

    fn x(&self, column: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (count(column) + 0.5) / count(self.columns.len())
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.scale.height(value)
    }
}

impl Series<'_> {
    fn draw_legend(&self, svg: &mut String, y: f64) -> fmt::Result {
        let example = Spread {
            least: y + 8.0,
            median: y,
            greatest: y - 8.0,
        };
        match self.look {
            Look::Line(style) => writeln!(svg, "<path d=\"M{LEGEND} {y}h30\" {style}/>")?,
            Look::Points(colour) => point(svg, LEGEND + 15.0, example, colour)?,
            Look::Curve(colour) => {
                writeln!(
                    svg,
                    "<path d=\"M{LEGEND} {y}h30\" stroke=\"{colour}\" stroke-width=\"2\"/>"
                )?;
                point(svg, LEGEND + 15.0, example, colour)?;
            }
        }
        text(svg, (LEGEND + 40.0, y + 4.0), "start", self.name)
    }
}

/// A median, and its spread.
fn point(svg: &mut String, x: f64, at: Spread, colour: &str) -> fmt::Result {
    let Spread {
        least,
        median,
        greatest,
    } = at;
    let (left, whisker) = (x - WHISKER, 2.0 * WHISKER);
    writeln!(
        svg,
        "<path d=\"M{x:.1} {least:.1}V{greatest:.1}M{left:.1} {least:.1}h{whisker}\
         M{left:.1} {greatest:.1}h{whisker}\" stroke=\"{colour}\"/>"
    )?;
    writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{median:.1}\" r=\"4\" fill=\"{colour}\"/>"
    )
}

/// A mark is a round number.
fn mark_text(mark: f64) -> String {
    let text = rounded(mark);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) -> fmt::Result {
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

#[cfg(test)]
mod tests;
