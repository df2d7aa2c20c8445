//! A script. It is sent by its hash, or by its text if the server does not know the hash.

use std::sync::OnceLock;

/// The text of a script and its hash.
#[derive(Debug)]
pub struct Script {
    /// A name for humans. It is not sent to the server.
    pub name: &'static str,
    /// What the server runs.
    pub text: &'static str,
    /// True if the script reads keys that it does not declare.
    pub reads_undeclared_keys: bool,
    sha1: OnceLock<String>,
    undeclared: OnceLock<(String, String)>,
}

/// The preamble of a script whose keys are passed as arguments, after their number. Such a script
/// must not pass keys of several slots to one command. `ARGV.undeclared` tells the script that this
/// rule applies.
const UNDECLARED: &str = "\
local KEYS, ARGV = (function(all)
  local number, keys, args = tonumber(all[1]), {}, {}
  for at = 2, #all do
    if at <= number + 1 then keys[at - 1] = all[at] else args[at - 1 - number] = all[at] end
  end
  args.undeclared = true
  return keys, args
end)(ARGV)
";

impl Script {
    /// A script with this name and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Script {
            name,
            text,
            reads_undeclared_keys: false,
            sha1: OnceLock::new(),
            undeclared: OnceLock::new(),
        }
    }

    /// Marks a script that reads keys that it does not declare, in the same slot.
    ///
    /// While a slot moves from one node to another, its keys are spread over both. The source refuses access to a
    /// key that has moved. The target treats a key that has not arrived as missing, so a marked script is not sent
    /// there.
    #[must_use = "it returns the script with its mark"]
    pub const fn reads_undeclared_keys(mut self) -> Self {
        self.reads_undeclared_keys = true;
        self
    }

    /// True if both are the same script.
    pub fn is(&self, other: &Script) -> bool {
        std::ptr::eq(self, other)
    }

    /// The hash by which EVALSHA knows this script: 40 lower-case hex digits.
    pub fn sha1(&self) -> &str {
        self.sha1.get_or_init(|| hash(self.text))
    }

    /// Text and hash of the same script with undeclared keys. A cluster node accepts declared keys
    /// of one slot only, and undeclared keys of all its own slots.
    pub(crate) fn undeclared(&self) -> (&str, &str) {
        let (text, sha1) = self.undeclared.get_or_init(|| {
            let text = format!("{UNDECLARED}{}", self.text);
            let sha1 = hash(&text);
            (text, sha1)
        });
        (text, sha1)
    }
}

fn hash(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
