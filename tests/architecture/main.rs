//! The layers of `docs/dev/architecture.md`: which package may depend on which, that imports in
//! `src` point down, and that no file imports itself through others.
//!
//! A file may name what its ancestors define: `lock/guard.rs` belongs to `lock.rs`. A re-export
//! counts as an import of the file that defines the item. Unit tests are ignored.
#![expect(clippy::panic, reason = "a test fails by it, also in its helpers")]

mod graph;
mod guide;
mod members;
mod programs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use graph::{Graph, each_file, each_source};

/// The layers, from the ground up. A module at the top of `src` that is not listed is a public
/// type.
const LAYERS: [&[&str]; 4] = [
    &[
        "client_id",
        "clock",
        "durability",
        "error",
        "fencing",
        "harness",
        "holder",
        "lease",
        "stats",
        "telemetry",
        "wake",
    ],
    &["protocol"],
    &["embedded"],
    &["session"],
];

fn layer(module: &str) -> usize {
    let top = module.split("::").next().unwrap_or_default();
    LAYERS
        .iter()
        .position(|layer| layer.contains(&top))
        .unwrap_or(LAYERS.len())
}

/// The sources of the library, of its connections, of the engine, and of the crate for operators.
const LIBRARY: &str = "src";
const TRANSPORT: &str = "transport/src";
const ENGINE: &str = "engine/src";
const ADMIN: &str = "admin/src";

/// A folder of the repository.
fn folder(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the repository").join(name)
}

#[test]
fn imports_point_down() {
    let graph = Graph::of(&folder(LIBRARY));
    let mut upward = Vec::new();
    let mut arrows = 0;
    for module in graph.modules.keys() {
        for imported in graph.imported_by(module) {
            arrows += 1;
            if layer(&imported) > layer(module) {
                upward.push(format!("{module} -> {imported}"));
            }
        }
    }
    assert!(
        arrows > 200,
        "only {arrows} imports were found: the look at the sources is wrong"
    );
    assert!(
        upward.is_empty(),
        "imports that point up:\n{}",
        upward.join("\n")
    );
}

#[test]
fn no_file_imports_itself_through_others() {
    let mut circles = Vec::new();
    for src in [LIBRARY, TRANSPORT, ENGINE, ADMIN] {
        for circle in Graph::of(&folder(src)).circles() {
            circles.push(format!("{src}: {circle:?}"));
        }
    }
    assert!(
        circles.is_empty(),
        "files that import each other:\n{}",
        circles.join("\n")
    );
}

/// The text before the unit tests, if these are in the same file.
fn without_tests(text: &str) -> &str {
    let is_elsewhere = |rest: &str| rest.lines().nth(2).is_some_and(|line| line.ends_with(';'));
    let mut modules = text.match_indices("\n#[cfg(test)]\nmod ");
    let tests = modules.find(|(at, _)| !is_elsewhere(&text[*at..]));
    tests.map_or(text, |(at, _)| &text[..at])
}

/// What one reads at a sitting.
const LINES_MAX: usize = 800;

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for src in [LIBRARY, TRANSPORT, ADMIN] {
        each_source(&folder(src), &mut |path, text| {
            let lines = text.lines().count();
            if lines > LINES_MAX {
                long.push(format!("{}: {lines}", path.display()));
            }
        });
    }
    assert!(long.is_empty(), "more than {LINES_MAX} lines: {long:?}");
}

/// As in `rustfmt.toml`, which leaves comments, strings and macros as they are.
const COLUMNS_MAX: usize = 100;

/// A row of a table in the documentation, or an address with at most one word before it: neither
/// can be broken.
fn may_be_wide(line: &str) -> bool {
    let line = line.trim_start();
    let is_row = line.starts_with("//! |") || line.starts_with("/// |");
    is_row || line.contains("://") && line.split(' ').count() <= 2
}

#[test]
fn lines_have_at_most_100_columns() {
    let (mut wide, mut files) = (Vec::new(), 0);
    each_file(&folder(""), &mut |path, text| {
        files += 1;
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !may_be_wide(line) {
                wide.push(format!("{}:{number}: {columns}", path.display()));
            }
        }
    });
    assert!(files > 800, "only {files} files were found");
    assert!(
        wide.is_empty(),
        "more than {COLUMNS_MAX} columns:\n{}",
        wide.join("\n")
    );
}

#[test]
fn the_engine_knows_nothing_of_the_library() {
    let mut files = 0;
    each_source(&folder(ENGINE), &mut |path, text| {
        files += 1;
        // Its own name contains that of the library.
        let others = text.replace("leasehold_engine", "");
        assert!(
            !others.contains("leasehold"),
            "{} names the library",
            path.display()
        );
    });
    assert!(
        files > 20,
        "only {files} files were found: the look at the sources is wrong"
    );
}

#[test]
fn only_the_embedded_client_names_the_engine() {
    let src = folder(LIBRARY);
    let mut found = BTreeSet::new();
    each_source(&src, &mut |path, text| {
        if text.contains("leasehold_engine") {
            found.insert(path.strip_prefix(&src).expect("in src").to_owned());
        }
    });
    let right = ["embedded.rs", "embedded/testing.rs"].map(PathBuf::from);
    assert_eq!(found, right.into());
}

/// The error patterns by which the client recognizes a server are in the file that remembers what
/// servers can do.
#[test]
fn only_abilities_know_the_error_patterns_of_servers() {
    let patterns = [
        "\"CROSSSLOT",
        "bad lua script",
        "unknown command",
        "unknown subcommand",
        "not supported\"",
        "support disabled",
    ];
    let abilities = folder(TRANSPORT).join("abilities.rs");
    let (mut found, mut known) = (Vec::new(), BTreeSet::<&str>::new());
    for src in [LIBRARY, TRANSPORT, ADMIN] {
        each_source(&folder(src), &mut |path, text| {
            let code = without_tests(text)
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                let named = patterns.iter().filter(|pattern| line.contains(**pattern));
                if path == abilities {
                    known.extend(named);
                } else {
                    found.extend(named.map(|pattern| format!("{}: {pattern}", path.display())));
                }
            }
        });
    }
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(known.len(), patterns.len(), "only {known:?}");
}
