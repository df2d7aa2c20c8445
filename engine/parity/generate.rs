//! Random steps: commands from templates, with arguments that fit and some that do not.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use crate::compare::{Numbers, Step};
use crate::scripts::{Header, Part, headers};

/// One letter stands for one random word: K a string, H a hash, L a list, Z a sorted set, A any
/// key; f a field or member, v a value, i an integer, s a score, r a bound of scores, t a lease,
/// c a channel, p a pattern. Anything else is itself.
const TEMPLATES: &[&str] = &[
    "get K",
    "set K v",
    "strlen K",
    "set K i",
    "set K v px t",
    "set K v nx px t",
    "set K v ex i",
    "set K v xx keepttl",
    "set K v nx get",
    "set K v px t nx",
    "set A v px t get",
    "incr K",
    "decr K",
    "incrby K i",
    "decrby K i",
    "del A A",
    "exists A A A",
    "type A",
    "pttl A",
    "ttl A",
    "pexpire A t",
    "expire A i",
    "pexpireat A i",
    "persist A",
    "keys p",
    "scan 0 match p count 1000",
    "hset H f v",
    "hset H f i f i",
    "hget H f",
    "hdel H f f",
    "hexists H f",
    "hincrby H f i",
    "hlen H",
    "hgetall H",
    "hkeys H",
    "hvals H",
    "hmget H f f f",
    "hsetnx H f v",
    "lpush L f f",
    "rpush L f f",
    "lpop L",
    "rpop L",
    "lpop L i",
    "rpop L i",
    "lrange L i i",
    "lrem L i f",
    "linsert L before f f",
    "linsert L after f f",
    "linsert L v f f",
    "llen L",
    "lindex L i",
    "zadd Z s f",
    "zadd Z s f s f",
    "zadd Z nx s f",
    "zadd Z xx s f",
    "zadd Z ch gt s f",
    "zadd Z xx ch lt s f s f",
    "zrem Z f f",
    "zscore Z f",
    "zincrby Z s f",
    "zrange Z i i",
    "zrange Z i i withscores",
    "zrangebyscore Z r r",
    "zrangebyscore Z r r withscores limit i i",
    "zremrangebyscore Z r r",
    "zcard Z",
    "zrank Z f",
    "zcount Z r r",
    "publish c v",
    "spublish c v",
    "echo v",
];

const KEYS: &[&str] = &["k1", "k2", "h1", "h2", "l1", "l2", "z1", "z2"];
const FIELDS: &[&str] = &[
    "a",
    "b",
    "c",
    "mode",
    "owner:1",
    "owner:2",
    "owner:2:write",
    "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:4000000000000000007",
];
/// Holds of a semaphore, and ids of permits.
const HOLDS: &[&str] = &["o:1", "o:2", "p:1", "q", ":0"];
const IDS: &[&str] = &[
    "00000000000000000000000000000001",
    "ff00000000000000000000000a0d0002",
    "0000000000000000000000000000000100000000000000000000000000000003",
    "1234",
    "",
];
const VALUES: &[&str] = &[
    "", "v", "0", "1", "01", "+1", " 1", "-0", "1.5", "ä€", "a b\r\nc", "read",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "-3",
    "7",
    "100",
    "9223372036854775807",
    "x",
    "",
    "-9223372036854775808",
    "9223372036854775808",
    "1.0",
    "1e3",
    "inf",
    "-7",
];
const SCORES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "1.5",
    "0.1",
    "-2.25",
    "1e3",
    "inf",
    "-inf",
    "+5",
    "1700000000000",
    "922337203685477",
    "nan",
    "x",
    "",
    "1e400",
    "-0",
    ".5",
    "5.",
];
const BOUNDS: &[&str] = &[
    "0", "1", "(1", "-inf", "+inf", "inf", "(-inf", "(2", "1.5", "1e3", "x", "(", "", "nan", "-1",
];
/// Milliseconds. No sum of pauses is close to one of them, so both sides agree on what has expired.
const LEASES: &[&str] = &[
    "25",
    "45",
    "65",
    "105",
    "5000",
    "30000",
    "60000",
    "0",
    "-1",
    "x",
    "",
    "1.0",
    "1e3",
    "inf",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
];
const PATTERNS: &[&str] = &[
    "*", "h*", "?1", "[kl]*", "[^z]?", "k1", "none", "[a-k]1", "\\h1", "[", "",
];
const CHANNELS: &[&str] = &["ch", "redisson_lock__channel:{x}"];

type Words = BoxedStrategy<Vec<String>>;

fn one_of(pool: &'static [&'static str]) -> BoxedStrategy<String> {
    select(pool).prop_map(str::to_owned).boxed()
}

/// Mostly a key of the wanted type.
fn key(kind: &'static [&'static str]) -> BoxedStrategy<String> {
    prop_oneof![9 => one_of(kind), 1 => one_of(KEYS)].boxed()
}

/// Mostly usable: the front of the pool.
fn mostly(pool: &'static [&'static str], usable: usize) -> BoxedStrategy<String> {
    prop_oneof![9 => one_of(&pool[..usable]), 1 => one_of(pool)].boxed()
}

fn lease() -> BoxedStrategy<String> {
    mostly(LEASES, 7)
}

fn word(letter: &'static str) -> BoxedStrategy<String> {
    match letter {
        "K" => key(&KEYS[..2]),
        "H" => key(&KEYS[2..4]),
        "L" => key(&KEYS[4..6]),
        "Z" => key(&KEYS[6..]),
        "A" => one_of(KEYS),
        "f" => one_of(FIELDS),
        "v" => one_of(VALUES),
        "i" => mostly(INTEGERS, 9),
        "s" => mostly(SCORES, 12),
        "r" => mostly(BOUNDS, 10),
        "t" => lease(),
        "c" => one_of(CHANNELS),
        "p" => one_of(PATTERNS),
        _ => Just(letter.to_owned()).boxed(),
    }
}

fn command() -> Words {
    let template = select(TEMPLATES)
        .prop_flat_map(|template| template.split(' ').map(word).collect::<Vec<_>>());
    (template, 0..40_u8, any::<prop::sample::Index>())
        .prop_map(spoil)
        .boxed()
}

/// Sometimes a word too few or too many, or in another case.
fn spoil((mut words, how, place): (Vec<String>, u8, prop::sample::Index)) -> Vec<String> {
    let place = place.index(words.len());
    match how {
        0 if words.len() > 1 && place > 0 => drop(words.remove(place)),
        1 => words.insert(place + 1, words[place].clone()),
        2 => words[0] = words[0].to_uppercase(),
        _ => {}
    }
    words
}

/// An argument by its name in the header of a script.
fn argument(part: &Part) -> BoxedStrategy<String> {
    match part.name.as_str() {
        "channel" => one_of(CHANNELS),
        "publish" => prop_oneof![
            8 => one_of(&["PUBLISH", "SPUBLISH"]),
            1 => one_of(&["nope", "get", ""]),
        ]
        .boxed(),
        "hold" => one_of(HOLDS),
        "ids" => one_of(IDS),
        name if name.ends_with("_ms") => lease(),
        name if ["holds", "count"].contains(&name) || part.text.contains("integer") => {
            mostly(INTEGERS, 4)
        }
        _ => prop_oneof![8 => one_of(FIELDS), 1 => one_of(VALUES)].boxed(),
    }
}

fn key_of(part: &Part) -> BoxedStrategy<String> {
    match part.name.as_str() {
        "hash" => word("H"),
        "list" => word("L"),
        "zset" | "sorted" => word("Z"),
        "string" => word("K"),
        _ => word("A"),
    }
}

/// Fixed parts once, the others `times` times.
fn filled(
    fixed: &[Part],
    repeated: &[Part],
    times: usize,
    word: fn(&Part) -> BoxedStrategy<String>,
) -> Words {
    let again = (0..times).flat_map(|_| repeated);
    fixed
        .iter()
        .chain(again)
        .map(word)
        .collect::<Vec<_>>()
        .boxed()
}

/// A search visits keys in an order that differs between engines.
fn ordered() -> Vec<Header> {
    headers()
        .iter()
        .filter(|header| header.name != "locks_scan")
        .cloned()
        .collect()
}

fn script() -> Words {
    let one = (select(ordered()), 1..4_usize, 0..4_usize).prop_flat_map(|(header, keys, args)| {
        let Header {
            text,
            keys: (fixed, repeated),
            args: (needed, more),
            ..
        } = header;
        let paired = more.iter().any(|part| part.index.contains('i'));
        let keys = filled(&fixed, &repeated, keys, key_of);
        let by_key = move |keys: Vec<String>| {
            let times = if paired { keys.len() } else { args };
            (Just(keys), filled(&needed, &more, times, argument))
        };
        (Just(text), keys.prop_flat_map(by_key))
    });
    let call = |(text, (keys, args)): (&'static str, (Vec<String>, Vec<String>))| {
        let mut words = vec!["eval".to_owned(), text.to_owned(), keys.len().to_string()];
        words.extend(keys);
        words.extend(args);
        words
    };
    (one.prop_map(call), 0..30_u8).prop_map(cut_short).boxed()
}

/// Sometimes a script lacks its last argument.
fn cut_short((mut words, how): (Vec<String>, u8)) -> Vec<String> {
    if how == 0 && words.len() > 4 {
        words.pop();
    }
    words
}

fn pause() -> impl Strategy<Value = Duration> {
    prop_oneof![
        12 => Just(Duration::ZERO),
        1 => select(&[10_u64, 30, 70, 130][..]).prop_map(Duration::from_millis),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = prop_oneof![3 => command(), 2 => script()];
    let step = (words, pause()).prop_map(|(words, pause)| {
        let first = words[0].to_ascii_lowercase();
        let leases = ["pttl", "ttl", "eval"].contains(&first.as_str());
        Step {
            words,
            numbers: if leases {
                Numbers::Leases
            } else {
                Numbers::Exact
            },
            pause,
        }
    });
    proptest::collection::vec(step, 1..60)
}
