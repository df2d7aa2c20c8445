//! How a server differs from Redis: what it refuses, and with which words.
//!
//! A profile is data. It is made from the documentation of a vendor, which it names. Where the
//! documentation says nothing, the engine behaves like Redis.

use std::time::Duration;

use super::commands::Words;

/// A server that is not quite Redis. [`Engine::with_profile`](crate::Engine::with_profile) makes an
/// engine like it.
///
/// # Examples
///
/// ```
/// use leasehold_engine::{Profile, Refusal, Refused};
///
/// const MANAGED: Profile = Profile {
///     name: "managed",
///     refused: &[Refused { commands: &["CONFIG", "CLIENT SETINFO"], with: Refusal::Forbidden }],
///     ..Profile::REDIS
/// };
/// # leasehold_engine::Engine::with_profile(MANAGED);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name of the server.
    pub name: &'static str,
    /// The address of the documentation.
    pub source: &'static str,
    /// How the server answers HELLO 3. A connection speaks RESP2 before.
    pub hello: Hello,
    /// The commands that clients may not use. The first match counts. Scripts may use them.
    pub refused: &'static [Refused],
    /// The commands that scripts may not use, although clients may. They fail with the words of
    /// Redis for an unknown command.
    pub not_in_scripts: &'static [&'static str],
    /// Whether scripts may use keys that their caller has not declared.
    pub undeclared: Undeclared,
    /// The words for a script that is called without keys, if that is refused.
    pub without_keys: Option<&'static str>,
    /// Whether one command may name keys of several slots.
    pub slots: Slots,
    /// Whether the server is the only node of a cluster.
    pub is_cluster: bool,
    /// Whether PING is answered before the login, as proxies do.
    pub pings_before_login: bool,
    /// The server ends a connection so long after its last login.
    pub login_lasts: Option<Duration>,
}

/// How a server answers HELLO 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// It speaks RESP3 from then on.
    Resp3,
    /// It refuses with these words, and goes on in RESP2. It accepts HELLO 2.
    Refused(&'static str),
    /// It welcomes the client, and goes on in RESP2.
    Resp2,
}

/// Commands that a server refuses in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `CONFIG`, or `CLIENT SETINFO` for one subcommand.
    pub commands: &'static [&'static str],
    /// How.
    pub with: Refusal,
}

/// How a server refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With the words of Redis for a command or a subcommand that it does not know.
    Unknown,
    /// With the words of Redis for a user without the permission.
    Forbidden,
    /// With these words.
    Words(&'static str),
    /// It ends the connection, and says nothing.
    Closed,
}

/// What happens if a script uses a key that its caller has not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// Nothing.
    Allowed,
    /// The command within the script fails with these words.
    Refused(&'static str),
    /// The same, unless the script begins with [`ALLOW_UNDECLARED`](Undeclared::ALLOW_UNDECLARED).
    RefusedUnlessFlagged(&'static str),
    /// The server reads the text of each script. In `redis.call` and `redis.pcall`, the name of the
    /// command must be a literal, and `KEYS[i]` must stand where the command has its keys.
    /// Otherwise the server refuses the script with these words, whatever keys its caller declares.
    RefusedByText(&'static str),
}

impl Undeclared {
    /// The first line of a script that may use undeclared keys on Dragonfly.
    pub const ALLOW_UNDECLARED: &str = "--!df flags=allow-undeclared-keys\n";
}

/// Whether one command may name keys of several slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Yes.
    Several,
    /// Scripts may not, and fail with these words. Other commands may.
    OneForScripts(&'static str),
    /// No. The words are those of Redis.
    One,
}

impl Slots {
    /// The words of Redis for keys of several slots.
    pub const CROSSSLOT: &'static str = "CROSSSLOT Keys in request don't hash to the same slot";
}

impl Profile {
    /// Redis itself.
    pub const REDIS: Profile = Profile {
        name: "Redis",
        source: "https://redis.io/docs/latest/commands/",
        hello: Hello::Resp3,
        refused: &[],
        not_in_scripts: &[],
        undeclared: Undeclared::Allowed,
        without_keys: None,
        slots: Slots::Several,
        is_cluster: false,
        pings_before_login: false,
        login_lasts: None,
    };

    /// How this command is refused, and its name among the refused ones.
    pub(crate) fn refusal(&self, words: Words<'_>) -> Option<(&'static str, Refusal)> {
        self.refused.iter().find_map(|refused| {
            let mut commands = refused.commands.iter();
            let found = commands.find(|command| begins_with(words, command))?;
            Some((*found, refused.with))
        })
    }
}

fn begins_with(words: Words<'_>, command: &str) -> bool {
    let mut given = words.iter();
    let mut wanted = command.split(' ');
    wanted.all(|wanted| {
        given
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
    })
}
