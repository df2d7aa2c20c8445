//! A real server whose wall clock is set forward while it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::Lease;
use leasehold_testbed::{Server, eventually, ms, preload, take_and_release};

use crate::testbed::{LONG, NAME, Servers, in_vain};

/// A server whose wall clock the test sets, by a library that is compiled here.
struct Clock {
    server: Server,
    offset: PathBuf,
}

impl Clock {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("leasehold-clock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (offset, library) = (folder.join("offset"), folder.join("clock.so"));
        fs::write(&offset, [0; 8]).unwrap();
        preload::compile(preload::CLOCK, &library);
        let of = |path: &Path| path.display().to_string();
        let (library, path) = (of(&library), of(&offset));
        let environment = [(preload::VARIABLE, &*library), ("CLOCK_OFFSET", &*path)];
        Clock {
            server: Server::start_in(&environment, &[]),
            offset,
        }
    }
}

/// Sets a clock that stands in `offset` so far forward.
fn jump(offset: &Path, by: Duration) {
    // In place: the server has the file mapped.
    let mut file = fs::OpenOptions::new().write(true).open(offset).unwrap();
    let micros = i64::try_from(by.as_micros()).unwrap();
    std::io::Write::write_all(&mut file, &micros.to_ne_bytes()).unwrap();
}

#[tokio::test]
async fn a_server_whose_clock_jumps_forward_does_not_free_the_lock() {
    let mut servers = Servers::start(4);
    let Clock { server, offset } = Clock::start();
    servers.0.push(server);
    let (ours, theirs) = (servers.clients().await, servers.clients().await);
    let lock = ours.lock();
    let guard = ours.held_by_all(&servers, &lock, Lease::Renewed).await;

    jump(&offset, Duration::from_secs(7200));
    let gone = || servers.0[4].command(&["EXISTS", NAME]).int() == 0;
    eventually("its lease is over there", async || gone()).await;
    assert_eq!(servers.holding(NAME), 4);
    let refused = theirs.lock().try_lock(ms(500), LONG).await.unwrap_err();
    in_vain(&refused);
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    take_and_release(&theirs.lock()).await;
    fs::remove_dir_all(offset.parent().unwrap()).unwrap();
}
