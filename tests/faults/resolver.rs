//! A host name that does not resolve for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold_testbed::{Outside, Server, eventually_within, preload};

use crate::testbed::{Running, alone, beside, builder, child, note};

const LIMIT: Duration = Duration::from_secs(60);
const CHILD: &str = "resolver::process_that_knows_a_name";

/// What `redis.test` resolves to in processes started with it.
struct Names {
    folder: PathBuf,
}

impl Names {
    fn new() -> Self {
        let folder =
            std::env::temp_dir().join(format!("leasehold-resolver-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let names = Names { folder };
        let library = names.path("resolver.so");
        preload::compile(concat!(env!("CARGO_MANIFEST_DIR"), "/resolver.c"), &library);
        names
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Gives the name an address, or none.
    fn point_to(&self, address: &str) {
        // In one step, because it may be read at the same time.
        fs::write(self.path("next"), address).expect("written");
        fs::rename(self.path("next"), self.path("address")).expect("renamed");
    }

    fn refused(&self) -> usize {
        fs::read(self.path("refused")).map_or(0, |refused| refused.len())
    }

    fn child(&self, server: &Server) -> Running {
        let text = |path: &Path| path.display().to_string();
        child(
            CHILD,
            &[
                (preload::VARIABLE, text(&self.path("resolver.so"))),
                ("RESOLVES_TO", text(&self.path("address"))),
                ("REFUSED", text(&self.path("refused"))),
                (
                    "LEASEHOLD_CHILD_URL",
                    format!("redis://redis.test:{}", server.port()),
                ),
            ],
        )
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Other clients keep the failure and do not ask again.
#[test]
fn a_name_that_does_not_resolve_for_a_while_is_asked_for_again() {
    alone(LIMIT, async {
        let (server, names) = (Server::start(), Names::new());
        let mut outside = Outside::of(&server);
        outside.command(&["HSET", "end", "somebody:1", "1"]);
        names.point_to("127.0.0.1");
        let process = names.child(&server);
        eventually_within(LIMIT, "held", async || outside.exists("n")).await;
        names.point_to("");
        for kind in ["normal", "pubsub"] {
            outside.command(&["CLIENT", "KILL", "TYPE", kind]);
        }
        eventually_within(LIMIT, "refused", async || names.refused() >= 3).await;
        assert!(server.clients("name=leasehold:").is_empty());
        names.point_to("127.0.0.1");
        let known = Instant::now();
        eventually_within(LIMIT, "back", async || {
            server.clients("name=leasehold:").len() == 3
        })
        .await;
        note(&format!(
            "connected {:?} after the name was known again",
            known.elapsed()
        ));
        outside.command(&["DEL", "end"]);
        process.finish();
        assert_eq!(outside.keys(), 0);
    });
}

/// The process of the test above: it holds a lock until it gets another one.
#[test]
#[ignore = "a child of another test"]
fn process_that_knows_a_name() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    beside(LIMIT, async move {
        let client = builder(&url).connect().await.expect("it resolves");
        let guard = client.lock("n").lock().await.expect("free");
        let end = client.lock("end").lock().await.expect("in the end");
        end.unlock().await.expect("held");
        guard.unlock().await.expect("held all the time");
    });
}
