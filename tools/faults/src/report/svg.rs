//! Writes SVG as text, without a crate. A picture is a handful of long paths. It must be small and
//! follow the light or dark mode of the reader, which needs a style sheet and no drawing calls.

use std::fmt::{Arguments, Write};

/// The styles that all pictures share. The colours of the pictures are from Okabe and Ito's
/// palette, which colour-blind readers can tell apart.
const STYLE: &str = "\
text{fill:#1f2328}path{fill:none}\
.a{font-weight:bold;font-size:15px}.m{fill:#59636e}.e{text-anchor:end}.c{text-anchor:middle}\
.bg{fill:#fff}.g{stroke:#d9dee3}.ax{stroke:#59636e}";
const DARK_STYLE: &str =
    "text{fill:#e6edf3}.m{fill:#9198a1}.bg{fill:#0d1117}.g{stroke:#30363d}.ax{stroke:#9198a1}";

pub(super) struct Svg {
    head: String,
    body: String,
}

/// The style sheet of one kind of picture, for light and dark mode. The dark rules override the
/// light ones.
pub(super) struct Style {
    pub(super) light: &'static str,
    pub(super) dark: &'static str,
}

impl Svg {
    pub(super) fn new(title: &str, style: &Style) -> Self {
        let (Style { light, dark }, title) = (style, escaped(title));
        let dark = format!("@media(prefers-color-scheme:dark){{{DARK_STYLE}{dark}}}");
        let head = format!("<title>{title}</title>\n<style>{STYLE}{light}\n{dark}</style>\n");
        Self {
            head,
            body: String::new(),
        }
    }

    pub(super) fn put(&mut self, what: Arguments<'_>) {
        self.body
            .write_fmt(what)
            .expect("writing to a string does not fail");
    }

    pub(super) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            self.put(format_args!("<path class=\"{class}\" d=\"{d}\"/>\n"));
        }
    }

    /// Draws text. The class is empty for plain text that begins at `x`.
    pub(super) fn text(&mut self, (x, y): (u64, u64), class: &str, text: &str) {
        let text = escaped(text);
        if class.is_empty() {
            self.put(format_args!("<text x=\"{x}\" y=\"{y}\">{text}</text>\n"));
        } else {
            self.put(format_args!(
                "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>\n"
            ));
        }
    }

    pub(super) fn end(self, (width, height): (u64, u64)) -> String {
        let Self { head, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" \
             role=\"img\">\n{head}<rect class=\"bg\" width=\"{width}\" \
             height=\"{height}\"/>\n{body}</svg>\n"
        )
    }
}

/// Escapes text for XML. Control characters, which XML does not allow, become the replacement
/// character.
pub(super) fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;");
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

/// The approximate width of a text in pixels. The exact width depends on the reader's font.
pub(super) fn width(text: &str) -> u64 {
    u64::try_from(text.chars().count()).expect("a line") * 13 / 2
}
