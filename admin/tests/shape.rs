//! What the types promise to code that stores, sends and shares them.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use leasehold::EmbeddedRedis;
use leasehold_admin::preflight::{
    CheckedServer, Finding, Preflight, PreflightCheck, Requirements, Severity, Use,
};
use leasehold_admin::{
    Admin, Connection, LockInfo, LockKind, LockList, Refusal, Unmet, unlock_after,
};

fn may_go_anywhere<T: Send + Sync + Debug + 'static>() {}

fn may_be_sent<T: Send>(value: T) -> T {
    value
}

#[test]
fn every_type_may_be_sent_shared_and_printed() {
    may_go_anywhere::<(Admin, Connection)>();
    may_go_anywhere::<(LockList, LockInfo, LockKind)>();
    may_go_anywhere::<(Refusal, Unmet)>();
    may_go_anywhere::<(Preflight, CheckedServer, Finding, Severity, Use)>();
    may_go_anywhere::<(PreflightCheck<'static>, Requirements)>();
}

#[tokio::test(start_paused = true)]
async fn every_future_may_be_sent() {
    let client = EmbeddedRedis::new().client();
    let admin = Admin::new(&client);
    drop(may_be_sent(admin.locks("*")));
    drop(may_be_sent(admin.lock_at(b"x")));
    drop(may_be_sent(admin.force_unlock_at(b"\xff", "")));
    drop(may_be_sent(admin.connections()));
    drop(may_be_sent(admin.require(&Requirements::new())));
    may_be_sent(admin.preflight().into_future())
        .await
        .expect("it is here");
    let guard = client.fenced_lock("x").lock().await.expect("free");
    may_be_sent(unlock_after(guard, Duration::from_secs(1)))
        .await
        .expect("held");
}

/// Each call documents what its caller must know.
#[test]
fn every_call_says_what_it_costs_leaves_and_fails_with() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut calls, mut said) = (0, String::new());
    for file in ["admin.rs", "after.rs"] {
        let text = std::fs::read_to_string(sources.join(file)).expect("a source");
        for line in text.lines().map(str::trim) {
            let call = line
                .strip_prefix("pub async fn ")
                .or_else(|| line.strip_prefix("pub fn unlock_after"));
            if let Some(name) = call {
                calls += 1;
                for section in ["# Redis cost", "# Cancel safety", "# Errors"] {
                    assert!(said.contains(section), "{name} has no {section}");
                }
            }
            if line.starts_with("///") {
                said.push_str(line);
            } else if !line.starts_with('#') {
                said.clear();
            }
        }
    }
    assert_eq!(calls, 6, "the sources are looked at");
}
