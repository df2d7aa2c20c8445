//! The engine's switches and inspection for this crate's own tests; no promise of stability.

use std::collections::BTreeMap;
use std::ops::Deref;

use leasehold_engine::Engine;
pub use leasehold_engine::{
    ConnectionControl, Delay, Direction, Dumped, ErrorReply, Faults, Hello, LinkControl, Profile,
    Refusal, Refused, Reply, Restart, Slots, Undeclared,
};

use super::EmbeddedRedis;
use crate::protocol::all_scripts;

/// Name, text and SHA-1 of every script.
pub fn scripts() -> Vec<(&'static str, &'static str, &'static str)> {
    all_scripts()
        .map(|script| (script.name, script.text, script.sha1()))
        .collect()
}

#[doc(hidden)]
impl Deref for EmbeddedRedis {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl EmbeddedRedis {
    /// An engine that refuses what another server refuses. A client has to await its handshake:
    /// make it by `builder().connect()`.
    #[doc(hidden)]
    pub fn with_profile(profile: Profile) -> Self {
        Self::of(Engine::with_profile(profile))
    }

    /// How often clients ran each script, by its name.
    #[doc(hidden)]
    pub fn scripts_run(&self) -> BTreeMap<&'static str, u64> {
        let by_sha1 = self.engine.scripts_run();
        all_scripts()
            .filter_map(|script| Some((script.name, *by_sha1.get(script.sha1())?)))
            .collect()
    }
}
