//! The table of managed services: what a preflight says about each profile.

use std::path::PathBuf;

use leasehold::EmbeddedRedis;
use leasehold::test_util::Profile;
use leasehold_testbed::PROFILES;
use tokio::runtime::Builder;

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-profiles --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/managed-services.md")
}

/// The page with the present table.
pub(crate) fn filled(page: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let rows: Vec<_> = PROFILES
        .iter()
        .filter(|profile| **profile != Profile::REDIS)
        .map(|profile| format!("| {} | {} |", profile.name, preflight(*profile)))
        .collect();
    let rows = rows.join("\n");
    format!("{before}{BEGIN}\n| server | preflight says |\n| --- | --- |\n{rows}\n\n{END}{after}")
}

/// What the server can do, and what it refuses.
fn preflight(profile: Profile) -> String {
    let paused = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    paused.block_on(async {
        let engine = EmbeddedRedis::with_profile(profile);
        let Ok(client) = engine.builder().connect().await else {
            return "nothing: `connect` fails".to_owned();
        };
        let report = client.preflight().await.expect("it answers").to_string();
        let mut lines = report.lines().map(str::trim);
        let able = lines.find(|line| line.starts_with("RESP"));
        let able = able.expect("it says what the server can do");
        let refused = lines.find_map(|line| line.strip_prefix("refuses "));
        let refused: Vec<_> = refused
            .into_iter()
            .flat_map(|commands| commands.split(", "))
            .filter(|command| is_documented(profile, command))
            .collect();
        match refused[..] {
            [] => format!("`{able}`"),
            _ => format!("`{able}`; `refuses {}`", refused.join(", ")),
        }
    })
}

/// The engine itself lacks commands that Redis has.
fn is_documented(profile: Profile, command: &str) -> bool {
    let mut named = profile.refused.iter().flat_map(|all| all.commands);
    named.any(|name| command == *name || command.starts_with(&format!("{name} ")))
}
