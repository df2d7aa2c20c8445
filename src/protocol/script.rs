//! A script: one `.lua` file preceded by shared ones, sent by its hash and loaded on demand.

use std::sync::OnceLock;

/// The text of a script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    #[cfg_attr(
        not(feature = "test-util"),
        expect(dead_code, reason = "the engine counts by name")
    )]
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    sha1: OnceLock<String>,
    undeclared: OnceLock<(String, String)>,
}

/// Precedes a script whose keys come as arguments, after their number. Such a script must not give
/// keys of several slots to one command; `ARGV.undeclared` tells it so.
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
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script {
            name,
            text,
            sha1: OnceLock::new(),
            undeclared: OnceLock::new(),
        }
    }

    /// True if the script reads keys that it does not declare: those of other readers of a
    /// read/write lock, in the same slot.
    ///
    /// While a slot moves from one node to another, its keys are spread over both. The source
    /// refuses access to a key that has moved. The target treats a key that has not arrived as
    /// missing, so the script would overlook a living reader.
    pub(crate) fn reads_undeclared_keys(&self) -> bool {
        self.text
            .contains(include_str!("read_write/read_holds.lua"))
    }

    /// True if both are the same script.
    pub(crate) fn is(&self, other: &Script) -> bool {
        std::ptr::eq(self, other)
    }

    /// The hash by which EVALSHA knows this script: 40 lower-case hex digits.
    pub(crate) fn sha1(&self) -> &str {
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

/// The scripts of a kind: `CONSTANT = "name" from "file"…;`. The files are joined. The last one is
/// the script, and the ones before it define local functions for it.
macro_rules! scripts {
    ($($constant:ident = $name:literal from $($file:literal)+;)*) => {
        $(pub(crate) static $constant: $crate::protocol::Script =
            $crate::protocol::Script::new($name, concat!($(include_str!($file)),+));)*

        /// All scripts, for tests that compare engines.
        #[cfg(feature = "test-util")]
        pub(super) static SCRIPTS: &[&$crate::protocol::Script] = &[$(&$constant),*];
    };
}

pub(super) use scripts;
