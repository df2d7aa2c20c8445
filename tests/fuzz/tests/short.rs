//! Every target, for a few seconds; `LEASEHOLD_FUZZ` is the number of inputs of each.

use leasehold_fuzz::{Limit, Plan, TARGETS, Watch};

#[test]
fn every_target_stands_bad_input() {
    let inputs = std::env::var("LEASEHOLD_FUZZ").ok().map(|text| text.parse().expect("a number"));
    let limit = Limit::Inputs(inputs.unwrap_or(150));
    for target in TARGETS {
        let plan = Plan::new(target, 1).expect("a corpus that can be read");
        let tally = plan.run(limit, &Watch::default(), |_| {});
        assert!(tally.failures.is_empty(), "{}: {:#?}", target.name, tally.failures);
        assert_eq!(tally.inputs, inputs.unwrap_or(150), "{}", target.name);
    }
}
