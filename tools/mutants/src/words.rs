//! Search for words in sources.

use std::path::Path;

/// Whether a Rust source in a folder contains this word.
pub(crate) fn is_written(folder: &Path, word: &str) -> bool {
    visit(folder, &mut |path, text| {
        path.extension() == Some("rs".as_ref()) && has_word(text, word)
    })
}

/// Passes all texts in a folder and its subfolders to `is_right` until it returns true. Whether it
/// did.
pub(crate) fn visit(folder: &Path, is_right: &mut dyn FnMut(&Path, &str) -> bool) -> bool {
    let Ok(entries) = folder.read_dir() else {
        return false;
    };
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    paths.any(|path| {
        if path.is_dir() {
            return visit(&path, is_right);
        }
        std::fs::read_to_string(&path).is_ok_and(|text| is_right(&path, &text))
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !word.is_empty() && !before.ends_with(part) && !after.starts_with(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_match() {
        assert!(has_word("fn it_holds() {}", "it_holds"));
        assert!(!has_word("fn it_holds_on() {}", "it_holds"));
        assert!(!has_word("fn so_it_holds() {}", "it_holds"));
        assert!(!has_word("fn it_holds() {}", ""));
    }
}
