//! Reads the keys in the engine, and checks that each has the layout that its kind requires.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::test_util::Dumped;
use leasehold_testbed::count_of;

use crate::kind::Kind;
use crate::ledger::Side;
use crate::plan::{Plan, name_of};

/// With more fields, a release may leave the hash a longer expiry than its holds have. One that
/// finds more than 16 fields looks at eight readers only. It removes those that have expired, so
/// nine fields may be left.
const EXACT_MOST: usize = 8;

/// What the engine has for one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisState {
    /// The owner fields that hold the lock, each with the rest of its own lease in ms.
    pub(crate) holds: BTreeMap<String, i64>,
    /// How the lock is held, if it is.
    pub(crate) side: Option<Side>,
    /// The owner fields that wait in Redis, the next one first.
    pub(crate) queue: Vec<String>,
    /// The owner fields whose place in that queue is kept.
    pub(crate) kept: BTreeSet<String>,
}

pub(crate) type Dump = BTreeMap<Vec<u8>, Dumped>;

/// The two keys of a queue of waiters.
pub(crate) fn keys_of_queue(name: &str) -> [String; 2] {
    [
        format!("{QUEUE}{{{name}}}"),
        format!("{DEADLINES}{{{name}}}"),
    ]
}

const QUEUE: &str = "redisson_lock_queue:";
const DEADLINES: &str = "redisson_lock_timeout:";
const TOKENS: &str = "redisson_lock_token:";
/// A queue is kept for a day, and no run lasts an hour.
const LONGEST_SEEN: i64 = 23 * 60 * 60 * 1000;
const LIVES: &str = ":rwlock_timeout:1";

/// True for keys that stay when everything has ended.
pub(crate) fn stays(kind: Kind, key: &str) -> bool {
    kind == Kind::Fenced && key.starts_with(TOKENS)
}

/// The state of each name, or the first key with a wrong layout.
pub(crate) fn read(plan: &Plan, dump: &Dump) -> Result<BTreeMap<usize, RedisState>, String> {
    let kind = plan.kind;
    let mut all = BTreeMap::new();
    let mut known = BTreeSet::new();
    for number in 0..plan.names {
        let name = name_of(number);
        let mut one = Reading {
            name: &name,
            dump,
            known: &mut known,
        };
        let state = match kind {
            Kind::Plain | Kind::NonReentrant | Kind::Spin => one.hash(),
            Kind::String => one.string(),
            Kind::ReadWrite => one.sides(),
            Kind::Fair => one.hash().and_then(|state| one.queue(state)),
            Kind::Fenced => one.hash().and_then(|state| one.counter(state)),
            other => unreachable!("{other} has a checker of its own"),
        };
        all.insert(number, state?);
    }
    match dump
        .keys()
        .map(|key| String::from_utf8_lossy(key))
        .find(|key| !known.contains(&**key))
    {
        Some(key) => Err(format!("{key} belongs to no {kind} lock")),
        None => Ok(all),
    }
}

/// The content of a key and the rest of its lease.
type Found<Left> = Result<Option<(Vec<String>, Left)>, String>;

struct Reading<'a> {
    name: &'a str,
    dump: &'a Dump,
    known: &'a mut BTreeSet<String>,
}

impl Reading<'_> {
    fn key(&mut self, key: &str, kind: &str) -> Found<Option<i64>> {
        let Some(entry) = self.dump.get(key.as_bytes()) else {
            return Ok(None);
        };
        self.known.insert(key.to_owned());
        if entry.kind != kind {
            return Err(format!("{key} is not a {kind}: {entry:?}"));
        }
        let text = |part: &Vec<u8>| String::from_utf8_lossy(part).into_owned();
        Ok(Some((entry.content.iter().map(text).collect(), entry.pttl)))
    }

    fn leased(&mut self, key: &str, kind: &str) -> Found<i64> {
        match self.key(key, kind)? {
            Some((content, None)) => Err(format!("{key} has no expiry: {content:?}")),
            Some((content, Some(left))) => Ok(Some((content, left))),
            None => Ok(None),
        }
    }

    fn unleased(&mut self, key: &str, kind: &str) -> Result<Vec<String>, String> {
        match self.key(key, kind)? {
            Some((content, Some(left))) => Err(format!("{key} ends in {left} ms: {content:?}")),
            Some((content, None)) => Ok(content),
            None => Ok(Vec::new()),
        }
    }

    /// A key that expires long after every place in it.
    fn outlasts_places(&mut self, key: &str, kind: &str) -> Result<Vec<String>, String> {
        match self.leased(key, kind)? {
            Some((content, left)) if left < LONGEST_SEEN => {
                Err(format!("{key} ends in {left} ms: {content:?}"))
            }
            found => Ok(found.unwrap_or_default().0),
        }
    }

    fn held_by_one(owner: &str, left: i64) -> RedisState {
        let holds = BTreeMap::from([(owner.to_owned(), left)]);
        RedisState {
            holds,
            side: Some(Side::Write),
            ..RedisState::default()
        }
    }

    /// One owner with its count, and perhaps its waiters.
    fn hash(&mut self) -> Result<RedisState, String> {
        match self.leased(self.name, "hash")? {
            None => Ok(RedisState::default()),
            Some((fields, left)) => match &fields[..] {
                [owner, value] if count_of(value).is_some_and(|count| count > 0) => {
                    Ok(Self::held_by_one(owner, left))
                }
                _ => Err(format!("{} is not one hold: {fields:?}", self.name)),
            },
        }
    }

    /// One owner and nothing else.
    fn string(&mut self) -> Result<RedisState, String> {
        let found = self.leased(self.name, "string")?;
        Ok(found.map_or_else(RedisState::default, |(owner, left)| {
            Self::held_by_one(&owner[0], left)
        }))
    }

    /// A mode; one writer or none; readers, each with a key that expires with its hold.
    fn sides(&mut self) -> Result<RedisState, String> {
        let mut lives = BTreeMap::new();
        let ours = format!("{{{}}}:", self.name);
        let keys: Vec<_> = self
            .dump
            .keys()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .collect();
        for key in keys {
            let field = key
                .strip_prefix(&ours)
                .and_then(|rest| rest.strip_suffix(LIVES));
            let Some(field) = field else { continue };
            if let Some((_, left)) = self.leased(&key, "string")? {
                lives.insert(field.to_owned(), left);
            }
        }
        let name = self.name;
        let Some((fields, left)) = self.leased(name, "hash")? else {
            return Ok(RedisState::default());
        };
        let odd = |what: &str| {
            Err(format!(
                "{name} {what}: {fields:?} for {left} ms, {lives:?}"
            ))
        };
        let fields_and_counts: BTreeMap<_, _> = fields
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect();
        let mode = fields_and_counts.get("mode").map(String::as_str);
        let owners = fields_and_counts.keys().filter(|field| *field != "mode");
        let (writers, readers): (Vec<_>, Vec<_>) =
            owners.cloned().partition(|owner| owner.ends_with(":write"));
        let side = match (mode, writers.len()) {
            (Some("read"), 0) if !readers.is_empty() => Side::Read,
            (Some("write"), 1) => Side::Write,
            _ => return odd("is neither read nor written"),
        };
        let mut holds: BTreeMap<_, _> = writers.into_iter().map(|owner| (owner, left)).collect();
        for reader in readers {
            if let Some(own) = lives.get(&reader) {
                holds.insert(reader, *own);
            }
        }
        let longest = holds.values().copied().max().unwrap_or(0);
        if longest > left + 1 {
            return odd("ends before its holds");
        }
        // Among many readers, a release does not check each of them.
        if left > longest + 1 && fields_and_counts.len() <= EXACT_MOST {
            return odd("outlives its holds");
        }
        Ok(RedisState {
            holds,
            side: Some(side),
            ..RedisState::default()
        })
    }

    /// A queue, and for each entry until when its place is kept.
    fn queue(&mut self, state: RedisState) -> Result<RedisState, String> {
        let [queue, deadlines] = keys_of_queue(self.name);
        let queue = self.outlasts_places(&queue, "list")?;
        let places = self.outlasts_places(&deadlines, "zset")?;
        let kept: BTreeSet<_> = places.chunks(2).map(|pair| pair[0].clone()).collect();
        let in_queue: BTreeSet<_> = queue.iter().collect();
        if in_queue.len() != queue.len() {
            return Err(format!("somebody waits twice for {}: {queue:?}", self.name));
        }
        if let Some(owner) = queue.iter().find(|owner| state.holds.contains_key(*owner)) {
            return Err(format!("{owner} holds {} and waits for it", self.name));
        }
        Ok(RedisState {
            queue,
            kept,
            ..state
        })
    }

    /// The last token, which stays forever.
    fn counter(&mut self, state: RedisState) -> Result<RedisState, String> {
        let token = self.unleased(&format!("{TOKENS}{{{}}}", self.name), "string")?;
        match token.first().map(|token| token.parse::<i64>()) {
            None if state.holds.is_empty() => Ok(state),
            Some(Ok(token)) if token > 0 => Ok(state),
            other => Err(format!("the last token of {} is {other:?}", self.name)),
        }
    }
}
