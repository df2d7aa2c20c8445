//! Each error text on the troubleshooting page is one that the library produces.

use std::fs;
use std::path::Path;

fn sources(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_error_text_of_the_page_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = String::new();
    for folder in ["src", "transport/src", "admin/src"] {
        sources(&root.join(folder), &mut all);
    }
    let page = fs::read_to_string(root.join("docs/troubleshooting.md")).unwrap();
    let (_, by_text) = page.split_once("## By the text").unwrap();
    let (by_text, _) = by_text.split_once("## By what").unwrap();
    let mut texts = 0;
    for line in by_text.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).unwrap();
        for text in cell.split('`').skip(1).step_by(2) {
            assert!(all.contains(text), "no error says `{text}`");
            texts += 1;
        }
    }
    assert!(texts > 20, "the table is read: {texts}");
}
