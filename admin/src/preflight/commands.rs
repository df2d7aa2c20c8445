//! The commands that a client sends or that its scripts run, and how to find out whether the user
//! may run them.
//!
//! Each question contains the arguments of the command, because the server checks keys and channels
//! too. A script asks all questions with `redis.acl_check_cmd` (Redis 7.0), because that needs no
//! right except those to run scripts. `ACL DRYRUN` is reserved for administrators.

use leasehold::parts::Kind;

/// What a client is used for: each use needs rights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Use {
    /// Plain, non-reentrant, spin and multi locks.
    Lock,
    /// Fair locks.
    FairLock,
    /// Fenced locks.
    FencedLock,
    /// Read/write locks.
    ReadWriteLock,
    /// String locks, and quorum locks of them.
    StringLock,
    /// Semaphores.
    Semaphore,
    /// Permit-expirable semaphores.
    Permits,
    /// Count-down latches.
    Latch,
    /// [`Admin::locks`](crate::Admin::locks).
    Listing,
    /// [`ClientBuilder::describe_holds`](leasehold::ClientBuilder::describe_holds), and a
    /// [purpose](leasehold::Acquire::purpose).
    DescribeHolds,
}

/// What every use needs: scripts, and probing the connections.
pub(super) const ALWAYS: &[&str] = &["evalsha", "eval", "ping"];
/// What waking waiters needs, on one server and within a shard of a cluster.
pub(super) const TO_WAKE: &[&str] = &["publish", "subscribe", "unsubscribe"];
pub(super) const TO_WAKE_A_SHARD: &[&str] = &["spublish", "ssubscribe", "sunsubscribe"];
/// For finding out which node serves a slot, and by which command to publish releases.
pub(super) const IN_A_CLUSTER: &[&str] = &["cluster|slots", "cluster|info", "pubsub|shardnumsub"];
/// For finding out whether a server is the primary.
pub(super) const WITH_SENTINELS: &[&str] = &["role"];

const LOCK: &[&str] = &[
    "exists", "pttl", "pexpire", "del", "hset", "hget", "hexists", "hdel", "hgetall",
];
const FAIR: &[&str] = &[
    "time", "lindex", "linsert", "lpop", "lpush", "rpush", "lrange", "lrem", "persist", "zadd",
    "zcount", "zrem", "zscore",
];
const SEMAPHORE: &[&str] = &[
    "exists",
    "get",
    "set",
    "del",
    "incrby",
    "decrby",
    "time",
    "zadd",
    "zrem",
    "zscore",
    "zrange",
    "zrangebyscore",
    "pttl",
    "pexpire",
    "persist",
];

/// The arguments with which each command is checked. `KEY` and `CHANNEL` are replaced.
const WORDS: &[(&str, &[&str])] = &[
    ("evalsha", &["", "0"]),
    ("eval", &["", "0"]),
    ("publish", &[CHANNEL, "0"]),
    ("spublish", &[CHANNEL, "0"]),
    ("wait", &["1", "1"]),
    ("subscribe", &[CHANNEL]),
    ("ssubscribe", &[CHANNEL]),
    ("exists", &[KEY]),
    ("pttl", &[KEY]),
    ("pexpire", &[KEY, "1"]),
    ("persist", &[KEY]),
    ("del", &[KEY]),
    ("get", &[KEY]),
    ("set", &[KEY, "1"]),
    ("incr", &[KEY]),
    ("decr", &[KEY]),
    ("incrby", &[KEY, "1"]),
    ("decrby", &[KEY, "1"]),
    ("hset", &[KEY, "f", "1"]),
    ("hget", &[KEY, "f"]),
    ("hexists", &[KEY, "f"]),
    ("hdel", &[KEY, "f"]),
    ("hgetall", &[KEY]),
    ("hkeys", &[KEY]),
    ("hlen", &[KEY]),
    ("hrandfield", &[KEY]),
    ("lindex", &[KEY, "0"]),
    ("llen", &[KEY]),
    ("lpop", &[KEY]),
    ("lpush", &[KEY, "e"]),
    ("rpush", &[KEY, "e"]),
    ("lrange", &[KEY, "0", "1"]),
    ("lrem", &[KEY, "0", "e"]),
    ("linsert", &[KEY, "AFTER", "e", "e"]),
    ("zadd", &[KEY, "1", "m"]),
    ("zcard", &[KEY]),
    ("zcount", &[KEY, "0", "1"]),
    ("zrange", &[KEY, "0", "1"]),
    ("zrangebyscore", &[KEY, "0", "1"]),
    ("zrem", &[KEY, "m"]),
    ("zscore", &[KEY, "m"]),
    ("type", &[KEY]),
    ("strlen", &[KEY]),
    ("scan", &["0"]),
];
const KEY: &str = "<key>";
const CHANNEL: &str = "<channel>";

/// Returns for each question, in order: 1 allowed, 0 refused, -1 unknown. A question is a number of
/// words, then the words.
pub(super) const SCRIPT: &str = "\
local answers, at = {}, 1
while ARGV[at] do
  local words = tonumber(ARGV[at])
  local told, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  answers[#answers + 1] = told and (allowed and 1 or 0) or -1
  at = at + 1 + words
end
return answers
";

impl Use {
    /// All of them.
    pub const ALL: [Use; 10] = [
        Use::Lock,
        Use::FairLock,
        Use::FencedLock,
        Use::ReadWriteLock,
        Use::StringLock,
        Use::Semaphore,
        Use::Permits,
        Use::Latch,
        Use::Listing,
        Use::DescribeHolds,
    ];

    /// The commands that its scripts run.
    pub(super) fn commands(self) -> Vec<&'static str> {
        let parts: &[&[&str]] = match self {
            Use::Lock => &[LOCK],
            Use::FairLock => &[LOCK, FAIR],
            Use::FencedLock => &[LOCK, &["get", "incr"]],
            Use::ReadWriteLock => &[LOCK, &["set", "hlen", "hrandfield"]],
            Use::StringLock => &[&["exists", "get", "set", "pttl", "pexpire", "del"]],
            Use::Semaphore => &[SEMAPHORE],
            Use::Permits => &[SEMAPHORE, &["zcard"]],
            Use::Latch => &[&["exists", "get", "set", "decr", "del"]],
            Use::Listing => &[&[
                "scan",
                "type",
                "pttl",
                "hlen",
                "hget",
                "hgetall",
                "llen",
                "exists",
                "strlen",
                "get",
                "time",
                "zrangebyscore",
            ]],
            Use::DescribeHolds => &[&[
                "type",
                "pttl",
                "pexpire",
                "exists",
                "get",
                "hset",
                "hexists",
                "hdel",
                "hgetall",
                "hkeys",
                "hlen",
                "hrandfield",
                "time",
                "zscore",
                "zrange",
            ]],
        };
        parts.concat()
    }

    /// The kind whose keys and channel it needs. `None` if it needs neither.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Use::Lock => Some(Kind::Lock),
            Use::FairLock => Some(Kind::Fair),
            Use::FencedLock => Some(Kind::Fenced),
            Use::ReadWriteLock => Some(Kind::Write),
            Use::StringLock => Some(Kind::String),
            Use::Semaphore => Some(Kind::Semaphore),
            Use::Permits => Some(Kind::Permit),
            Use::Latch => Some(Kind::Latch),
            Use::Listing | Use::DescribeHolds => None,
        }
    }
}

/// The words that ask about a command, and whether the command takes a key.
pub(super) fn question(command: &str, key: &str, channel: &str) -> (Vec<String>, bool) {
    let arguments = WORDS
        .iter()
        .find(|(name, _)| *name == command)
        .map_or(&[][..], |row| row.1);
    let argument = |&word: &&str| match word {
        KEY => key.to_owned(),
        CHANNEL => channel.to_owned(),
        other => other.to_owned(),
    };
    let words = command
        .split('|')
        .map(str::to_owned)
        .chain(arguments.iter().map(argument));
    (words.collect(), arguments.contains(&KEY))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../../docs/operations.md");

    fn row(use_: Use) -> &'static str {
        match use_ {
            Use::Lock => "lock, non-reentrant, spin, multi",
            Use::FairLock => "fair",
            Use::FencedLock => "fenced",
            Use::ReadWriteLock => "read/write",
            Use::StringLock => "string, quorum of string locks",
            Use::Semaphore => "semaphore",
            Use::Permits => "expiring permits",
            Use::Latch => "latch",
            Use::Listing => "list of locks (`leasehold-admin`, `leasehold ls`)",
            Use::DescribeHolds => "`describe_holds`, `purpose`",
        }
    }

    /// The commands in a row of the page. `those …` stands for the commands of another row.
    fn listed(use_: Use) -> BTreeSet<String> {
        let table = PAGE
            .split("| kind | commands within its scripts |")
            .nth(1)
            .expect("the table");
        let begin = format!("| {} |", row(use_));
        let cell = table
            .lines()
            .find_map(|line| line.strip_prefix(&begin))
            .expect("the row");
        let mut commands: BTreeSet<_> = cell
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        if cell.contains("those of a semaphore") {
            commands.extend(listed(Use::Semaphore));
        } else if cell.contains("those") {
            commands.extend(listed(Use::Lock));
        }
        commands
    }

    #[test]
    fn the_page_lists_the_same_commands() {
        for use_ in Use::ALL {
            let ours: BTreeSet<_> = use_.commands().into_iter().map(str::to_owned).collect();
            assert_eq!(ours, listed(use_), "{use_:?}");
        }
    }

    #[test]
    fn the_rules_of_the_page_grant_just_what_is_listed() {
        let granted = |user: &str| -> BTreeSet<&str> {
            let begin = format!("ACL SETUSER {user} ");
            let rule = PAGE
                .lines()
                .find(|line| line.starts_with(&begin))
                .expect("the rule");
            rule.split(' ')
                .filter_map(|word| word.strip_prefix('+'))
                .collect()
        };
        let of = |uses: &[Use]| -> BTreeSet<&str> {
            let sent = ALWAYS.iter().chain(TO_WAKE).copied();
            uses.iter()
                .flat_map(|use_| use_.commands())
                .chain(sent)
                .collect()
        };
        let ours = of(&Use::ALL);
        assert!(
            ours.is_subset(&granted("kinds")),
            "{:?}",
            ours.difference(&granted("kinds"))
        );
        let ours = of(&[Use::Lock]);
        assert!(
            ours.is_subset(&granted("locks")),
            "{:?}",
            ours.difference(&granted("locks"))
        );
    }

    #[test]
    fn every_command_has_its_arguments() {
        let without = ["unsubscribe", "sunsubscribe", "ping", "time"];
        let all = Use::ALL.iter().flat_map(|use_| use_.commands());
        let sent = ALWAYS.iter().chain(TO_WAKE).chain(TO_WAKE_A_SHARD);
        for command in all.chain(sent.copied()) {
            let (words, _) = question(command, "k", "c");
            assert_eq!(words.len() == 1, without.contains(&command), "{command}");
        }
    }
}
