//! What is expected of each cell. A cell that is not named works.
//!
//! A cell that does better than expected fails the test as well, so that this list and the page say
//! what is.

use crate::behaviour::ASKS;
use crate::cell::Result;
use crate::columns::CLIENT;

/// What a cell comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Works,
    /// With this difference.
    With(&'static str),
    /// The client does not connect, and its error has these words.
    Refused(&'static str),
    /// Something does not work yet, and the first failure has these words.
    Fails(&'static str),
}

use Expected::{Fails, Refused, With};

/// The kinds of a row: all, some, or the client itself.
#[derive(Clone, Copy)]
enum Of {
    All,
    Kinds(&'static [&'static str]),
}

struct Row(&'static str, Of, Expected);

/// Their waiters always ask, and so does the client's own column.
const NEVER_LISTEN: &[&str] = &["spin", "string", "quorum", CLIENT];

/// The first row that names a cell counts.
const ROWS: &[Row] = &[
    Row(
        "Alibaba Tair, cluster behind a proxy",
        Of::All,
        Refused("refuses scripts: ERR bad lua script"),
    ),
    // Its scripts publish nothing.
    Row(
        "Alibaba Tair, script_check_enable 0",
        Of::Kinds(NEVER_LISTEN),
        Expected::Works,
    ),
    Row("Alibaba Tair, script_check_enable 0", Of::All, With(ASKS)),
    Row(
        "Garnet, without --lua",
        Of::All,
        Refused("refuses scripts: ERR This instance has Lua scripting support disabled"),
    ),
    Row(
        "OCI Cache, sharded",
        Of::All,
        Refused("refuses scripts: ERR unknown command 'EVAL'"),
    ),
    // These kinds never listen.
    Row("Envoy", Of::Kinds(NEVER_LISTEN), Expected::Works),
    Row("Envoy", Of::All, With(ASKS)),
    Row(
        "Twemproxy",
        Of::All,
        Refused("a proxy that takes no HELLO, such as Twemproxy?"),
    ),
    // It has no HRANDFIELD, which a release beside more than sixteen readers needs.
    Row(
        "jedis-mock 1.1.8",
        Of::Kinds(&["read"]),
        Fails("Error running"),
    ),
    // It closes a connection after each error reply.
    Row(
        "fakeredis 2.40.0",
        Of::All,
        Refused("closed the connection"),
    ),
    Row(
        "Envoy 1.40.0 itself",
        Of::Kinds(NEVER_LISTEN),
        Expected::Works,
    ),
    Row("Envoy 1.40.0 itself", Of::All, With(ASKS)),
    Row(
        "Envoy 1.40.0, two servers",
        Of::All,
        Refused("by the first key of a script, as Envoy does"),
    ),
    Row(
        "Twemproxy itself",
        Of::All,
        Refused("a proxy that takes no HELLO, such as Twemproxy?"),
    ),
];

pub(crate) fn expected(profile: &str, kind: &str) -> Expected {
    let of = |row: &&Row| {
        row.0 == profile
            && match row.1 {
                Of::All => true,
                Of::Kinds(kinds) => kinds.contains(&kind),
            }
    };
    ROWS.iter().find(of).map_or(Expected::Works, |row| row.2)
}

impl Expected {
    pub(crate) fn is(self, result: &Result) -> bool {
        match (self, result) {
            (Expected::Works, Result::Works) => true,
            (With(expected), Result::With(with)) => expected == *with,
            (Refused(words), Result::Refused(why)) | (Fails(words), Result::Fails(_, why)) => {
                why.contains(words)
            }
            _ => false,
        }
    }
}
