//! What a server can do, and which uses work there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use leasehold_transport::{Abilities, Protocol, Scripts};

use super::commands::Use;
use super::needs::Verdict;

/// The uses of the client on one server.
#[derive(Clone, Debug, Default)]
pub(super) struct UsesOfServer {
    abilities: Abilities,
    verdicts: Vec<(Use, Verdict)>,
    /// Uses for which the user lacks a right.
    not_allowed: Vec<Use>,
}

impl UsesOfServer {
    pub(super) fn new(uses: &[Use], abilities: Abilities, unusable: &BTreeSet<Use>) -> Self {
        let (not_allowed, allowed): (Vec<Use>, Vec<Use>) =
            uses.iter().partition(|use_| unusable.contains(use_));
        let verdicts = allowed.into_iter().map(|use_| (use_, use_.on(&abilities)));
        UsesOfServer {
            verdicts: verdicts.collect(),
            not_allowed,
            abilities,
        }
    }

    /// Whether the server does not know this command.
    pub(super) fn lacks(&self, command: &str) -> bool {
        let words = self.abilities.refused.get(command);
        words.is_some_and(|words| !words.is_missing_right())
    }

    /// The uses with the same verdict, in words. Without those for which the user lacks a right.
    pub(super) fn by_verdict(&self) -> BTreeMap<&Verdict, String> {
        let mut groups = BTreeMap::<_, Vec<Use>>::new();
        for (use_, verdict) in &self.verdicts {
            groups.entry(verdict).or_default().push(*use_);
        }
        let joined = groups
            .into_iter()
            .map(|(verdict, uses)| (verdict, joined(&uses)));
        joined.collect()
    }
}

fn joined(uses: &[Use]) -> String {
    let words: Vec<_> = uses.iter().map(Use::to_string).collect();
    words.join(", ")
}

/// One line about what the server can do, and one for each group of uses.
impl fmt::Display for UsesOfServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abilities = &self.abilities;
        let protocol = match abilities.protocol {
            Some(Protocol::Resp3) => "RESP3",
            Some(Protocol::Resp2) => "RESP2",
            None => return Ok(()),
        };
        let scripts = match &abilities.scripts {
            Some(Scripts::Any) => "scripts",
            Some(Scripts::WithKeys) => "scripts with keys",
            Some(Scripts::None(_)) => "no scripts",
            None => "scripts ?",
        };
        let messages = match (&abilities.no_messages, abilities.sharded_messages) {
            (Some(_), _) => "no messages",
            (None, Some(true)) => "messages, also within a shard",
            (None, _) => "messages",
        };
        let keys = if abilities.one_slot_only {
            ", one slot a call"
        } else {
            ""
        };
        let declared = if abilities.declared_keys_only {
            ", declared keys only"
        } else {
            ""
        };
        let wait = if self.lacks("WAIT") {
            ", no WAIT"
        } else {
            ", WAIT"
        };
        writeln!(
            f,
            "  {protocol}, {scripts}{keys}{declared}, {messages}{wait}"
        )?;
        if !abilities.refused.is_empty() {
            let refused: Vec<_> = abilities.refused.keys().map(String::as_str).collect();
            writeln!(f, "  refuses {}", refused.join(", "))?;
        }
        for (verdict, uses) in self.by_verdict() {
            match verdict {
                Verdict::Works => writeln!(f, "  works: {uses}")?,
                Verdict::With(how) => writeln!(f, "  works, but {how}: {uses}")?,
                Verdict::Refused(reason) => writeln!(f, "  refused, because {reason}: {uses}")?,
            }
        }
        if !self.not_allowed.is_empty() {
            writeln!(f, "  this user may not use: {}", joined(&self.not_allowed))?;
        }
        Ok(())
    }
}
