//! The rights that the page for operators lists.

const PAGE: &str = include_str!("../../docs/operations.md");

/// An ACL rule of the page for locks named `orders:…`, word by word.
pub fn rule(user: &str) -> Vec<&'static str> {
    let begin = format!("ACL SETUSER {user} ");
    let rule = PAGE.lines().find(|line| line.starts_with(&begin));
    rule.expect("the page has the rule")
        .split_whitespace()
        .collect()
}
