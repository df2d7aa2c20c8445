//! Runs every target for a few seconds. `LEASEHOLD_FUZZ` is the number of inputs for each.

use std::fs;

use leasehold_fuzz::{Limit, Plan, TARGETS, Verdict, Watch, judge, target};

#[test]
fn every_target_survives_bad_input() {
    let inputs = std::env::var("LEASEHOLD_FUZZ")
        .ok()
        .map(|text| text.parse().expect("a number"));
    let limit = Limit::Inputs(inputs.unwrap_or(150));
    for target in TARGETS {
        let plan = Plan::new(target, 1).expect("a corpus that can be read");
        let tally = plan.run(limit, &Watch::default(), |_| {});
        assert!(
            tally.failures.is_empty(),
            "{}: {:#?}",
            target.name,
            tally.failures
        );
        assert_eq!(tally.inputs, inputs.unwrap_or(150), "{}", target.name);
    }
}

/// Each file is an input that once made a target hang. Its name begins with the name of the target.
#[test]
fn inputs_that_once_failed_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/mended");
    let files: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
    for file in &files {
        let name = file.file_name().into_string().expect("a name");
        let target = name
            .split('-')
            .next()
            .and_then(target)
            .expect("a target of that name");
        let verdict = judge(target, &fs::read(file.path()).expect("a file"));
        assert!(matches!(verdict, Verdict::Fine(_)), "{name}: {verdict:?}");
    }
    assert!(files.len() >= 5);
}
