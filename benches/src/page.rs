//! The places in the pages of `docs` that scenarios fill.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

const END: &str = "<!-- The end of what is written. -->";

#[derive(Debug)]
pub(crate) struct Place {
    page: PathBuf,
    begin: String,
}

impl Place {
    /// The place of `bench` with these arguments. A page without it is found before anything is
    /// measured.
    pub(crate) fn find(docs: &Path, page: &str, arguments: &str) -> Result<Place, Failure> {
        let place = Place {
            page: docs.join(page),
            begin: format!("<!-- Written by `bench {arguments} --docs docs/dev`. -->\n"),
        };
        place.filled("")?;
        Ok(place)
    }

    /// The one of the page.
    pub(crate) fn folder(&self) -> &Path {
        self.page.parent().unwrap_or(Path::new("."))
    }

    pub(crate) fn fill(&self, text: &str) -> Result<(), Failure> {
        Ok(fs::write(&self.page, self.filled(text)?)?)
    }

    fn filled(&self, text: &str) -> Result<String, Failure> {
        let page = fs::read_to_string(&self.page)
            .map_err(|error| format!("{}: {error}", self.page.display()))?;
        between(&page, &self.begin, text)
            .ok_or_else(|| format!("{} has no {}", self.page.display(), self.begin.trim()).into())
    }
}

/// The page with this text after `begin`, instead of what was there.
fn between(page: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::{END, between};

    #[test]
    fn only_the_named_place_is_filled() {
        let page = format!("a\n<!-- 1 -->\nold\n{END}\nb\n<!-- 2 -->\nold\n{END}\nc\n");
        let filled = between(&page, "<!-- 2 -->\n", "new\n").expect("it has the place");
        assert_eq!(
            filled,
            format!("a\n<!-- 1 -->\nold\n{END}\nb\n<!-- 2 -->\n\nnew\n\n{END}\nc\n")
        );
        assert_eq!(
            between(&filled, "<!-- 2 -->\n", "new").as_ref(),
            Some(&filled)
        );
    }

    #[test]
    fn a_page_without_the_place_is_refused() {
        assert_eq!(between("a\n", "<!-- 1 -->\n", ""), None);
        assert_eq!(between("<!-- 1 -->\nno end\n", "<!-- 1 -->\n", ""), None);
    }
}
