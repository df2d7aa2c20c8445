//! The packages of the workspace: who may depend on whom.

use std::collections::BTreeSet;
use std::fs;

use crate::folder;

/// From the ground up. A package that is not listed is above all of these: a suite, a tool, the
/// command line.
const LEVELS: &[&str] = &[
    "leasehold-engine",
    "leasehold-transport",
    "leasehold",
    "leasehold-admin",
    "leasehold-fred",
    "leasehold-specification",
    "leasehold-testbed",
    "leasehold-tower",
    "leasehold-once",
];

/// A package of the workspace.
struct Member {
    name: String,
    is_published: bool,
    /// Packages of the workspace that its code depends on.
    needs: BTreeSet<String>,
    /// Packages that only its tests depend on.
    tests_need: BTreeSet<String>,
}

impl Member {
    fn read(path: &str) -> Self {
        let manifest = fs::read_to_string(folder(path).join("Cargo.toml"));
        let manifest = manifest.unwrap_or_else(|error| panic!("{path}/Cargo.toml: {error}"));
        let (mut section, mut name, mut is_published) = ("", String::new(), true);
        let (mut needs, mut tests_need) = (BTreeSet::new(), BTreeSet::new());
        for line in manifest.lines() {
            if let Some(title) = line.strip_prefix('[') {
                section = title.trim_end_matches(']');
                continue;
            }
            let Some((key, value)) = line.split_once(" = ") else {
                continue;
            };
            match (section, key) {
                ("package", "name") => value.trim_matches('"').clone_into(&mut name),
                ("package", "publish") => is_published = value != "false",
                (section, key) if section.ends_with("dependencies") && is_ours(key) => {
                    if section.ends_with("dev-dependencies") {
                        tests_need.insert(key.to_owned());
                    } else {
                        needs.insert(key.to_owned());
                    }
                }
                _ => {}
            }
        }
        Member {
            name,
            is_published,
            needs,
            tests_need,
        }
    }

    fn level(&self) -> usize {
        level(&self.name)
    }
}

fn is_ours(name: &str) -> bool {
    name == "leasehold" || name.starts_with("leasehold-")
}

fn level(name: &str) -> usize {
    let named = LEVELS.iter().position(|known| *known == name);
    named.unwrap_or(LEVELS.len())
}

/// The library, and the members that its manifest lists.
fn members() -> Vec<Member> {
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("the manifest");
    let list = manifest.split_once("members = [").expect("a workspace").1;
    let list = list.split_once(']').expect("the end of the list").0;
    let folders = list.lines().filter_map(|line| {
        let word = line.trim().trim_end_matches(',');
        word.strip_prefix('"')?.strip_suffix('"')
    });
    let members: Vec<_> = [""].into_iter().chain(folders).map(Member::read).collect();
    assert!(members.len() > 10, "the look at the workspace is wrong");
    members
}

/// The engine and the transport do not know the library, the library does not know the testbed, and
/// nobody depends on a suite or a tool.
#[test]
fn packages_depend_on_lower_ones() {
    let mut upward = Vec::new();
    for member in members() {
        for needed in &member.needs {
            if level(needed) >= member.level() {
                upward.push(format!("{} -> {needed}", member.name));
            }
        }
        // The library's unit tests need the library itself, with the embedded engine. Anything more
        // would be built for the quickstart, too.
        let highest = LEVELS.len() - 1;
        for needed in &member.tests_need {
            let is_library = member.name == "leasehold" && needed != "leasehold";
            if level(needed) > highest || member.level() == 0 || is_library {
                upward.push(format!("{} -> {needed} in its tests", member.name));
            }
        }
    }
    assert!(
        upward.is_empty(),
        "dependencies that point up:\n{}",
        upward.join("\n")
    );
}

#[test]
fn published_crates_need_only_published_crates() {
    let members = members();
    let published: BTreeSet<_> = members
        .iter()
        .filter(|member| member.is_published)
        .map(|member| member.name.clone())
        .collect();
    let expected = [
        "leasehold",
        "leasehold-admin",
        "leasehold-cli",
        "leasehold-engine",
        "leasehold-fred",
        "leasehold-idempotency",
        "leasehold-leader",
        "leasehold-once",
        "leasehold-tower",
        "leasehold-transport",
    ];
    let expected = expected.map(String::from);
    assert_eq!(published, expected.into());
    for member in members.iter().filter(|member| member.is_published) {
        assert!(
            member.needs.is_subset(&published),
            "{} needs {:?}",
            member.name,
            member.needs
        );
    }
}

/// A behaviour that is renamed would silently be no exception any more.
#[test]
fn each_exception_is_a_behaviour() {
    let read = |name: &str| fs::read_to_string(folder(name));
    let exceptions = read("testbed/src/exceptions.rs").expect("the exceptions");
    let names = exceptions.split('"').skip(1).step_by(2);
    let (mut known, mut unknown) = (0, Vec::new());
    for (module, behaviour) in names.filter_map(|name| name.split_once("::")) {
        let folders = ["tests/conformance", "admin/tests"];
        let files =
            folders.map(|folder| read(&format!("{folder}/{module}.rs")).unwrap_or_default());
        if files.concat().contains(&format!("fn {behaviour}(")) {
            known += 1;
        } else {
            unknown.push(format!("{module}::{behaviour}"));
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(known > 100, "only {known}: the look at the list is wrong");
}
