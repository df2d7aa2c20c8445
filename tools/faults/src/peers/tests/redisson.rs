//! Tests the kinds of locks that, apart from leasehold, only Redisson has.

use std::time::Duration;

use super::clients::{Client, Resource, Run};
use super::{Deployment, Kind, count, library, named};
use crate::history::{Doing, Event, Mode, What};
use crate::workload::Workload;

#[test]
#[ignore = "needs Java, and a registry to install from"]
fn the_java_driver_takes_locks_of_each_kind() {
    let peer = named("redisson");
    let (deployment, resource) = (Deployment::start(Kind::Single), Resource::start());
    let workloads: Vec<_> = peer.workloads.iter().map(|one| one.name()).collect();
    let (url, seconds, workers) = (deployment.url(), 15, 2);
    let (resource_at, lease) = (resource.address(), Duration::from_secs(1));
    let workloads = workloads.join(",");
    let run = Run {
        url,
        resource: resource_at,
        seconds,
        workers,
        workloads,
        lease,
        ..Run::default()
    };
    let (pid, history) = Client::start(peer, &run, 1).history();
    assert_eq!(
        history[0].what,
        What::Started {
            pid,
            library: library(peer)
        }
    );

    for (first, workload) in (0..).step_by(2).zip(peer.workloads) {
        let name = workload.name();
        let of = |event: &&Event| event.name.starts_with(&format!("{name}:"));
        let these: Vec<_> = history.iter().filter(of).cloned().collect();
        assert!(
            these
                .iter()
                .all(|event| [first, first + 1].contains(&event.worker)),
            "{name}"
        );
        let granted = count(&these, |what| matches!(what, What::Granted { .. }));
        let failed = count(&these, |what| match what {
            What::Refused { timeout, .. } => !timeout,
            What::Did { error, .. } | What::Released { error } => error.is_some(),
            What::Doubted => true,
            _ => false,
        });
        assert!(
            granted > 10 && failed == 0,
            "{name}: {granted} grants, {failed} failures"
        );
        let asked = |which| {
            count(
                &these,
                |what| matches!(what, What::Asked { mode, .. } if *mode == which),
            )
        };
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit].map(|mode| asked(mode) > 0);
        let expected = match workload {
            Workload::ReadWrite => [true, true, false],
            Workload::Semaphore => [false, false, true],
            _ => [true, false, false],
        };
        assert_eq!(modes, expected, "{name}");
        let did = |which| {
            count(
                &these,
                |what| matches!(what, What::Did { what, .. } if *what == which),
            )
        };
        let fixed = count(&these, |what| {
            matches!(
                what,
                What::Asked {
                    fixed_ms: Some(1000),
                    ..
                }
            )
        });
        let reentered = did(Doing::Reentered);
        println!(
            "{name}: {granted} grants, {fixed} fixed, {reentered} re-entered, {} paused",
            did(Doing::Paused)
        );
        let is_lock = *workload != Workload::Semaphore;
        assert_eq!((fixed > 0, reentered > 0), (is_lock, is_lock), "{name}");
        assert!(did(Doing::Paused) > 0, "{name}");
    }
}
