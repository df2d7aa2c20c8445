//! EVAL, EVALSHA and SCRIPT, as far as the profile allows them.

use super::Inner;
use crate::commands::{self, Words};
use crate::number::parse_int;
use crate::profile::{Slots, Undeclared};
use crate::reply::{Bytes, ErrorReply, Outcome, Reply};
use crate::store::Declared;
use crate::{script_text, slot};

impl Inner {
    pub(super) fn eval(&mut self, words: Words<'_>, name: &str) -> Outcome {
        let [_, script, number, rest @ ..] = words else {
            return Err(commands::wrong_arity(name));
        };
        let number = parse_int(number).ok_or("ERR value is not an integer or out of range")?;
        if number < 0 {
            return Err("ERR Number of keys can't be negative".into());
        }
        let (keys, args) = usize::try_from(number)
            .ok()
            .and_then(|number| rest.split_at_checked(number))
            .ok_or("ERR Number of keys can't be greater than number of args")?;
        self.check_keys(keys)?;
        self.count(name);
        let sha1 = if name == "eval" {
            self.load(script)?
        } else {
            String::from_utf8_lossy(script).to_ascii_lowercase()
        };
        if self.scripts.is_loaded(&sha1) {
            *self.scripts_run.entry(sha1.clone()).or_insert(0) += 1;
        }
        let refusal = match self.rules.undeclared {
            Undeclared::Refused(words) => Some(words),
            Undeclared::RefusedUnlessFlagged(words) => {
                (!self.flagged.contains(&sha1)).then_some(words)
            }
            Undeclared::Allowed | Undeclared::RefusedByText(_) => None,
        };
        if let Some(refusal) = refusal {
            let keys = keys.to_vec();
            self.scripts.store().declared = Some(Declared { keys, refusal });
        }
        let outcome = self.scripts.run(&sha1, keys, args);
        self.scripts.store().declared = None;
        outcome
    }

    /// Loads a script, unless the server refuses its text.
    fn load(&mut self, script: &[u8]) -> Result<String, ErrorReply> {
        match self.rules.undeclared {
            Undeclared::RefusedByText(words) if !script_text::declares_its_keys(script) => {
                Err(words.into())
            }
            _ => {
                let sha1 = self.scripts.load(script)?;
                if script.starts_with(Undeclared::ALLOW_UNDECLARED.as_bytes()) {
                    self.flagged.insert(sha1.clone());
                }
                Ok(sha1)
            }
        }
    }

    /// Fails if the profile does not allow these keys.
    fn check_keys(&self, keys: &[Bytes]) -> Result<(), ErrorReply> {
        match self.rules.slots {
            Slots::OneForScripts(words) if !slot::is_one(keys) => Err(words.into()),
            Slots::One if !slot::is_one(keys) => Err(Slots::CROSSSLOT.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn script(&mut self, words: Words<'_>) -> Outcome {
        match &words[1..] {
            [] => Err(commands::wrong_arity("script")),
            [verb, text] if commands::is(verb, "load") => {
                Ok(Reply::Bulk(self.load(text)?.into_bytes()))
            }
            [verb, hashes @ ..] if commands::is(verb, "exists") && !hashes.is_empty() => {
                let loaded = hashes.iter().map(|hash| {
                    let sha1 = String::from_utf8_lossy(hash).to_ascii_lowercase();
                    Ok(Reply::from(self.scripts.is_loaded(&sha1)))
                });
                Ok(Reply::Array(loaded.collect()))
            }
            [verb, ..] if commands::is(verb, "flush") => {
                self.scripts.forget();
                Ok(Reply::ok())
            }
            [verb, ..] => {
                let verb = String::from_utf8_lossy(verb);
                let text = format!("ERR unknown subcommand '{verb}'. Try SCRIPT HELP.");
                Err(text.as_str().into())
            }
        }
    }
}
