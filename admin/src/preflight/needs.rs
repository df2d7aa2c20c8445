//! What each use needs of a server, and what follows if the server lacks it. No other file says
//! which kind needs what.

use std::fmt;

use leasehold_transport::{Abilities, Scripts};

use super::commands::Use;

/// What follows for a use from what a server can do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It works as on Redis.
    Works,
    /// It works, with this difference.
    With(&'static str),
    /// It is refused before anything is sent, for this reason.
    Refused(String),
}

impl Use {
    /// Whether it works on a server with these abilities. What is not known counts as able.
    pub(super) fn on(self, abilities: &Abilities) -> Verdict {
        if let Some(reason) = abilities.why_no_scripts() {
            return Verdict::Refused(reason);
        }
        let by_key = abilities.declared_keys_only || abilities.scripts == Some(Scripts::WithKeys);
        if self == Use::Listing && by_key {
            return Verdict::With("the search asks for each key that it finds");
        }
        if self.is_waited_for() && abilities.no_messages.is_some() {
            return Verdict::With("waiters ask, because the server has no messages");
        }
        Verdict::Works
    }

    /// Whether its waiters listen for a release.
    fn is_waited_for(self) -> bool {
        !matches!(self, Use::StringLock | Use::Listing | Use::DescribeHolds)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Use::Lock => "lock",
            Use::FairLock => "fair lock",
            Use::FencedLock => "fenced lock",
            Use::ReadWriteLock => "read/write lock",
            Use::StringLock => "string lock",
            Use::Semaphore => "semaphore",
            Use::Permits => "permits",
            Use::Latch => "latch",
            Use::Listing => "list of locks",
            Use::DescribeHolds => "described holds",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_transport::Fault;

    fn with_scripts(scripts: Scripts) -> Abilities {
        let mut abilities = Abilities::default();
        abilities.scripts = Some(scripts);
        abilities
    }

    #[test]
    fn each_use_has_a_verdict_by_what_the_server_lacks() {
        let all = |abilities: &Abilities| Use::ALL.map(|use_| use_.on(abilities));
        assert!(
            all(&Abilities::default())
                .iter()
                .all(|one| *one == Verdict::Works)
        );
        let unknown = Fault("ERR unknown command 'EVAL'".to_owned());
        let without_scripts = all(&with_scripts(Scripts::None(unknown.clone())));
        let words = |one: &Verdict| matches!(one, Verdict::Refused(why) if why.contains("'EVAL'"));
        assert!(without_scripts.iter().all(words), "{without_scripts:?}");
        let with_keys = with_scripts(Scripts::WithKeys);
        let refused = Use::ALL
            .iter()
            .filter(|use_| use_.on(&with_keys) != Verdict::Works);
        assert_eq!(refused.collect::<Vec<_>>(), [&Use::Listing]);
        let mut silent = Abilities::default();
        silent.no_messages = Some(unknown);
        let asks = Use::ALL
            .iter()
            .filter(|use_| use_.on(&silent) != Verdict::Works);
        let listens =
            |use_: &&Use| !matches!(use_, Use::StringLock | Use::Listing | Use::DescribeHolds);
        assert!(asks.eq(Use::ALL.iter().filter(listens)));
    }
}
