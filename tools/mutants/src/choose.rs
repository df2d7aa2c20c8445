//! Chooses a few faults for each commit.

use crate::patch::Patch;

/// Chooses this many faults. The choice depends only on the commit.
pub(crate) fn some<'a>(patches: &'a [Patch], number: usize, commit: &str) -> Vec<&'a Patch> {
    let mut all: Vec<_> = patches
        .iter()
        .map(|patch| (rank(commit, &patch.name), patch))
        .collect();
    // Rank each patch by the hash of the commit and its name, so that a new patch does not change
    // the ranks of others.
    all.sort_by_key(|(rank, _)| *rank);
    all.truncate(number);
    let mut chosen: Vec<_> = all.into_iter().map(|(_, patch)| patch).collect();
    chosen.sort_by(|one, other| one.name.cmp(&other.name));
    chosen
}

/// The FNV-1a hash of both, mixed further so that names which differ in the last letter get very
/// different ranks.
fn rank(commit: &str, name: &str) -> u64 {
    let bytes = commit.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::patch::{Place, Test};

    fn patches(number: u8) -> Vec<Patch> {
        let named = |number| Patch {
            name: format!("fault-{}", char::from(b'a' + number)),
            path: PathBuf::new(),
            fault: String::new(),
            kind: String::new(),
            test: Test {
                place: Place::Lib,
                name: String::new(),
                env: Vec::new(),
            },
            limit: Duration::ZERO,
            hangs: false,
            fault_run: None,
            step: None,
            files: Vec::new(),
        };
        (0..number).map(named).collect()
    }

    fn names(patches: &[Patch], number: usize, commit: &str) -> Vec<String> {
        some(patches, number, commit)
            .iter()
            .map(|patch| patch.name.clone())
            .collect()
    }

    #[test]
    fn each_commit_chooses_its_own_faults() {
        let patches = patches(20);
        assert_eq!(names(&patches, 4, "c0ffee"), names(&patches, 4, "c0ffee"));
        assert_ne!(names(&patches, 4, "c0ffee"), names(&patches, 4, "decade"));
        assert_eq!(
            names(&patches, 4, "c0ffee")
                .iter()
                .collect::<HashSet<_>>()
                .len(),
            4
        );
        assert_eq!(some(&patches, 30, "c0ffee").len(), 20);
    }

    #[test]
    fn every_fault_is_chosen_by_some_commit() {
        let patches = patches(20);
        let chosen = (0..60).flat_map(|commit| names(&patches, 4, &format!("{commit:040x}")));
        assert_eq!(chosen.collect::<HashSet<_>>().len(), 20);
    }

    #[test]
    fn a_new_fault_replaces_at_most_one() {
        let (before, after) = (patches(20), patches(21));
        for commit in 0..50 {
            let commit = format!("{commit:040x}");
            let before: HashSet<_> = names(&before, 4, &commit).into_iter().collect();
            let after = names(&after, 4, &commit).into_iter().collect();
            assert!(before.difference(&after).count() <= 1);
        }
    }
}
