//! S10 and S11 measure the smallest sizes, and write them into a copy of the pages.

use std::fs;
use std::path::Path;
use std::process::Output;

use leasehold_testbed::{Folder, command, is_missing};

fn bench(arguments: &str) -> Output {
    command(env!("CARGO_BIN_EXE_bench"))
        .args(arguments.split(' '))
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_page_gets_every_table_and_its_picture() {
    if is_missing() {
        return;
    }
    let folder = Folder::temporary();
    let page = folder.write("growth.md", include_str!("../../docs/dev/growth.md"));
    let docs = Path::new(&page).parent().expect("its folder");
    let short = "--rounds 1 --warmup 0 --seconds 0.2 --threads 1 --docs";
    for scenario in ["S10", "S11 --max 1 --lease 1"] {
        let output = bench(&format!("--scenario {scenario} {short} {}", docs.display()));
        let line = text(&output.stdout);
        assert!(!line.contains("failed"), "{line}{}", text(&output.stderr));
    }
    let page = fs::read_to_string(&page).expect("it was written");
    for head in [
        "| names held | 1 |",
        "| waiters for one name | 1 |",
        "| waiters, each for a name of its own | 1 |",
        "| client processes | 1 |",
        "| distance, ms there and back | 1 | 5 | 20 |",
    ] {
        assert!(page.contains(head), "{head}: {page}");
    }
    for name in ["held", "one-name", "names", "processes", "distance"] {
        let picture = docs.join(format!("pictures/growth-{name}.svg"));
        let svg = fs::read_to_string(&picture).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(svg.contains("<circle"), "{name}");
    }
}

#[test]
fn bad_options_are_refused_before_anything_is_measured() {
    for (arguments, error) in [
        ("--max 0", "--max cannot be 0"),
        ("--table x", "--table is one of"),
        ("--part x", "--part is one of"),
        ("--url redis://127.0.0.1:1", "without --url"),
        ("--docs /nowhere", "/nowhere/growth.md: No such file"),
    ] {
        let output = bench(&format!("--scenario S11 {arguments}"));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(error), "{arguments}: {said}");
    }
}
