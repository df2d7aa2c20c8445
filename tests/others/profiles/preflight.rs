//! What a preflight says about each profile.

use leasehold::EmbeddedRedis;
use leasehold::test_util::Profile;
use leasehold_admin::Admin;
use tokio::runtime::Builder;

/// What most servers can do.
const ALL: &str = "RESP3, scripts, messages, also within a shard, WAIT";

/// What the server can do, and what it refuses. Nothing for Redis itself, and where no client
/// connects.
pub(crate) fn preflight(profile: Profile) -> String {
    if profile == Profile::REDIS {
        return String::new();
    }
    let paused = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    paused.block_on(async {
        let engine = EmbeddedRedis::with_profile(profile);
        let Ok(client) = engine.builder().connect().await else {
            return String::new();
        };
        let report = Admin::new(&client)
            .preflight()
            .await
            .expect("it answers")
            .to_string();
        let mut lines = report.lines().map(str::trim);
        let able = lines.find(|line| line.starts_with("RESP"));
        let able = able.expect("it says what the server can do");
        let refused = lines.find_map(|line| line.strip_prefix("refuses "));
        let refused: Vec<_> = refused
            .into_iter()
            .flat_map(|commands| commands.split(", "))
            .filter(|command| is_documented(profile, command))
            .collect();
        let able = match able {
            ALL => "all".to_owned(),
            _ => format!("`{able}`"),
        };
        match refused[..] {
            [] => able,
            _ => format!("{able}; `refuses {}`", refused.join(", ")),
        }
    })
}

/// The engine itself lacks commands that Redis has.
fn is_documented(profile: Profile, command: &str) -> bool {
    let mut named = profile.refused.iter().flat_map(|all| all.commands);
    named.any(|name| command == *name || command.starts_with(&format!("{name} ")))
}
