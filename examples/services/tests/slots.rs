//! No more workers than slots, over all processes; and the slots of a dead process come back.

use leasehold_testbed::Server;

use crate::process::Process;
use crate::resource::Resource;

const PROGRAM: &str = env!("CARGO_BIN_EXE_slots");

fn start(server: &Server, resource: &Resource, tasks: &str, jobs: &str) -> Process {
    let address = resource.address();
    let arguments = [
        "--slots", "3", "--tasks", tasks, "--jobs", jobs, "--lease", "3000",
    ];
    Process::start(
        PROGRAM,
        server,
        &[&arguments[..], &["--resource", &address]].concat(),
    )
}

#[test]
fn workers_of_all_processes_share_the_slots() {
    let (server, resource) = (Server::start(), Resource::start());
    let mut processes = [(); 4].map(|()| start(&server, &resource, "2", "3"));
    resource.until_inside(3);
    resource.open();
    for process in &mut processes {
        assert!(process.ended().success(), "{:#?}", process.lines());
    }
    assert_eq!((resource.most(), resource.visits()), (3, 4 * 2 * 3));
}

#[test]
fn the_slots_of_a_process_that_died_come_back() {
    let (server, resource) = (Server::start(), Resource::start());
    let mut first = start(&server, &resource, "3", "1");
    resource.until_inside(3);
    let mut next = start(&server, &resource, "1", "1");
    let killed = first.kill();
    let taken = next.says("task 0 begins job 0").at - killed;
    println!("SIGKILL to the next worker in the slot: {taken:?}, with a lease of 3 s");
    resource.open();
    assert!(next.ended().success());
    assert_eq!(resource.most(), 3);
}
