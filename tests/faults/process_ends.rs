//! A process that ends right after a drop, without a shutdown.

use std::process::exit;
use std::time::Duration;

use leasehold_testbed::{Borrowed, Outside, SOON, eventually_within, take_and_release};

use crate::testbed::{alone, builder, child};

const LIMIT: Duration = Duration::from_secs(60);
const CHILD: &str = "process_ends::process_that_drops_a_guard";
const URL: &str = "LEASEHOLD_CHILD_URL";
const NAME: &str = "LEASEHOLD_CHILD_NAME";
const TIMES: usize = 40;

fn name_of(how: &str, time: usize) -> String {
    format!("{how}:{time}")
}

/// Starts processes that drop a guard and end. Each leaves its lock free, long before the lease
/// ends.
fn leaves_nothing(how: &str) {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        // A server that does not know the script of a release yet asks for its text, and gets it
        // only from a process that lives.
        let client = builder(&server.url()).connect().await.expect("it answers");
        for time in 0..TIMES {
            let lock = client.lock(name_of(how, time));
            take_and_release(&lock).await;
        }
        for time in 0..TIMES {
            let name = name_of(how, time);
            child(CHILD, &[(URL, server.url()), (NAME, name.clone())]).finish();
            // What a process has sent may be executed after its end.
            eventually_within(SOON, &name, async || !outside.exists(&name)).await;
        }
    });
}

/// As at the end of `main`. Before the drop of a client waited, 11 of 40 locks were left.
#[test]
fn a_process_that_drops_its_client_leaves_nothing() {
    leaves_nothing("client");
}

/// The client is in a static: only the drop of the guard can send anything.
#[test]
fn a_process_that_only_drops_its_guard_leaves_nothing() {
    leaves_nothing("guard");
}

#[test]
#[ignore = "a child of the other tests"]
fn process_that_drops_a_guard() {
    let (Ok(url), Ok(name)) = (std::env::var(URL), std::env::var(NAME)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = builder(&url).connect().await.expect("it answers");
        let guard = client.lock(&*name).lock().await.expect("free");
        drop(guard);
        if name.starts_with("client") {
            drop(client);
        } else {
            std::mem::forget(client);
        }
    });
    // Nothing else runs after that, unlike at the end of a test.
    exit(0);
}
