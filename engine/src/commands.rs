//! The commands that the scripts and their tests need. Any other command is an error that says so.

mod hashes;
mod keys;
mod lists;
mod scores;
mod strings;
mod zsets;

use super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::store::{Channel, Message, Store};

/// The words of a command, its name first.
pub(crate) type Words<'a> = &'a [Bytes];

struct Command {
    name: &'static str,
    /// The number of words including the name. Negative: at least that many.
    arity: i32,
    run: fn(&mut Store, Words<'_>) -> Outcome,
}

pub(crate) const SYNTAX: &str = "ERR syntax error";

static TABLE: &[&[Command]] = &[
    OWN,
    keys::COMMANDS,
    strings::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    zsets::COMMANDS,
];

const fn command(
    name: &'static str,
    arity: i32,
    run: fn(&mut Store, Words<'_>) -> Outcome,
) -> Command {
    Command { name, arity, run }
}

const OWN: &[Command] = &[
    command("ping", -1, ping),
    command("echo", 2, |_, words| Ok(Reply::Bulk(words[1].clone()))),
    command("info", -1, |store, words| {
        let info = store.info(words.get(1).map(Vec::as_slice));
        Ok(Reply::Bulk(info.into_bytes()))
    }),
    command("time", 1, time),
    command("publish", 3, publish),
    command("spublish", 3, publish),
    command("pubsub", -2, pubsub),
];

/// Why a command cannot be run. Clients and scripts get different texts.
pub(crate) enum Unusable {
    Unknown,
    WrongArity(&'static str),
}

/// Finds a command and runs it.
pub(crate) fn run(store: &mut Store, words: Words<'_>) -> Result<Outcome, Unusable> {
    let name = words.first().map(Vec::as_slice).unwrap_or_default();
    let command = TABLE
        .iter()
        .flat_map(|group| group.iter())
        .find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
        .ok_or(Unusable::Unknown)?;
    let wanted = usize::try_from(command.arity.unsigned_abs()).unwrap_or(usize::MAX);
    let fits = if command.arity < 0 {
        words.len() >= wanted
    } else {
        words.len() == wanted
    };
    if !fits {
        return Err(Unusable::WrongArity(command.name));
    }
    if let Some(count) = store.commands_run.get_mut(command.name) {
        *count += 1;
    } else {
        store.commands_run.insert(command.name.to_owned(), 1);
    }
    Ok((command.run)(store, words))
}

/// Which words of a command are keys.
pub(crate) enum KeyWords {
    None,
    /// The one after the name.
    First,
    /// All but the name.
    All,
}

/// For the commands that the engine knows.
pub(crate) fn key_words(name: &[u8]) -> KeyWords {
    match name.to_ascii_lowercase().as_slice() {
        b"ping" | b"echo" | b"time" | b"publish" | b"spublish" | b"pubsub" | b"dbsize"
        | b"flushall" | b"info" | b"keys" | b"scan" => KeyWords::None,
        b"del" | b"exists" => KeyWords::All,
        _ => KeyWords::First,
    }
}

/// The keys of a command.
pub(crate) fn keys(words: Words<'_>) -> &[Bytes] {
    let Some((name, rest)) = words.split_first() else {
        return &[];
    };
    match key_words(name) {
        KeyWords::None => &[],
        KeyWords::First => &rest[..rest.len().min(1)],
        KeyWords::All => rest,
    }
}

pub(crate) fn wrong_arity(name: &str) -> ErrorReply {
    ErrorReply(format!(
        "ERR wrong number of arguments for '{name}' command"
    ))
}

/// The error text for a client.
pub(crate) fn unusable(why: &Unusable, words: Words<'_>) -> ErrorReply {
    match why {
        Unusable::WrongArity(name) => wrong_arity(name),
        Unusable::Unknown => {
            let given: Vec<String> = words[1..].iter().map(|word| show(word)).collect();
            // Each word in quotes, followed by a space.
            let given = given
                .iter()
                .flat_map(|word| ["'", word, "' "])
                .collect::<String>();
            let name = show(&words[0]);
            let text = format!("ERR unknown command '{name}', with args beginning with: {given}");
            ErrorReply(text)
        }
    }
}

fn show(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(128).collect()
}

/// Whether an argument is this keyword, in upper or lower case.
pub(crate) fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

fn ping(_: &mut Store, words: Words<'_>) -> Outcome {
    match words {
        [_] => Ok(Reply::Status("PONG".to_owned())),
        [_, text] => Ok(Reply::Bulk(text.clone())),
        _ => Err(wrong_arity("ping")),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a command")]
fn time(store: &mut Store, _: Words<'_>) -> Outcome {
    let now = store.now_us();
    let part = |number: i64| number.to_string().into_bytes();
    Ok(Reply::bulks([part(now / 1_000_000), part(now % 1_000_000)]))
}

/// Only the subcommands that count subscribers.
fn pubsub(store: &mut Store, words: Words<'_>) -> Outcome {
    let (sharded, plain) = (is(&words[1], "shardnumsub"), is(&words[1], "numsub"));
    if !sharded && !plain {
        return Err(ErrorReply(format!(
            "ERR unknown subcommand '{}'. Try PUBSUB HELP.",
            show(&words[1])
        )));
    }
    let of = |name: &Bytes| {
        let channel = Channel {
            is_sharded: sharded,
            name: name.clone(),
        };
        let subscribers = store.subscribers.get(&channel).copied().unwrap_or(0);
        [Ok(Reply::Bulk(channel.name)), Ok(Reply::count(subscribers))]
    };
    Ok(Reply::Array(words[2..].iter().flat_map(of).collect()))
}

#[expect(clippy::unnecessary_wraps, reason = "a command")]
fn publish(store: &mut Store, words: Words<'_>) -> Outcome {
    let channel = Channel {
        is_sharded: is(&words[0], "spublish"),
        name: words[1].clone(),
    };
    let receivers = store.subscribers.get(&channel).copied().unwrap_or(0);
    if receivers > 0 {
        store.outbox.push(Message {
            channel,
            payload: words[2].clone(),
        });
    }
    Ok(Reply::count(receivers))
}
