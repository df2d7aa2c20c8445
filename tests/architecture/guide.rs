//! The pages for users are modules of the documentation.

use std::collections::BTreeSet;

/// The words between two quotes, or before `.md`, that name a page.
fn pages(text: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let (_, rest) = text.split_once(begin).expect("where the list begins");
    let list = rest.split(end).next().unwrap_or_default();
    let words = list.split(|c: char| !(c.is_ascii_lowercase() || "-_.".contains(c)));
    let words = words.filter(|word| !word.contains('_'));
    words
        .filter_map(|word| match word.strip_suffix(".md") {
            Some(page) => Some(page),
            None => list.contains(&format!("\"{word}\"")).then_some(word),
        })
        .filter(|page| !page.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A page that is missing in the script would have dead links on docs.rs.
#[test]
fn each_page_for_users_is_a_module_and_its_links_are_known() {
    let guide = pages(include_str!("../../src/guide.rs"), "\npages! {", "}");
    let script = pages(
        include_str!("../../docs/rustdoc.html"),
        "const pages = [",
        "]",
    );
    let book = pages(
        include_str!("../../docs/SUMMARY.md"),
        "# Using Leasehold",
        "\n# ",
    );
    assert!(guide.len() > 10, "{guide:?}");
    assert_eq!(guide, script);
    assert_eq!(guide, book);
}
