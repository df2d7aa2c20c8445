//! Commands for sorted sets.

use super::super::data::{Score, Zset};
use super::super::number::int;
use super::super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::super::store::Store;
use super::lists::range;
use super::scores::{Bounds, score, score_reply, score_text};
use super::{Command, SYNTAX, Words, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("zadd", -4, zadd),
    command("zcard", 2, |store, words| {
        Ok(Reply::count(
            store.find::<Zset>(&words[1])?.map_or(0, |zset| zset.len()),
        ))
    }),
    command("zcount", 4, |store, words| {
        let bounds = Bounds::parse(&words[2], &words[3])?;
        Ok(Reply::count(within(store, &words[1], bounds)?.len()))
    }),
    command("zincrby", 4, zincrby),
    command("zrange", -4, zrange),
    command("zrangebyscore", -4, zrangebyscore),
    command("zrank", 3, |store, words| {
        let Some(zset) = store.find::<Zset>(&words[1])? else {
            return Ok(Reply::Nil);
        };
        let rank = zset.in_order().position(|(_, member)| *member == words[2]);
        Ok(rank.map_or(Reply::Nil, Reply::count))
    }),
    command("zrem", -3, |store, words| {
        let gone = remove(store, &words[1], &words[2..])?;
        Ok(Reply::count(gone))
    }),
    command("zremrangebyscore", 4, |store, words| {
        let bounds = Bounds::parse(&words[2], &words[3])?;
        let found = within(store, &words[1], bounds)?;
        let members: Vec<Bytes> = found.into_iter().map(|(_, member)| member).collect();
        Ok(Reply::count(remove(store, &words[1], &members)?))
    }),
    command("zscore", 3, |store, words| {
        let zset = store.find::<Zset>(&words[1])?;
        Ok(zset
            .and_then(|zset| zset.score(&words[2]))
            .map_or(Reply::Nil, score_reply))
    }),
];

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each word of the command"
)]
struct AddOptions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
}

impl AddOptions {
    /// Also returns the position of the first score.
    fn parse(words: Words<'_>) -> Result<(Self, usize), ErrorReply> {
        let mut options = AddOptions::default();
        let mut place = 2;
        for word in &words[2..] {
            match word {
                _ if is(word, "nx") => options.absent = true,
                _ if is(word, "xx") => options.present = true,
                _ if is(word, "gt") => options.greater = true,
                _ if is(word, "lt") => options.less = true,
                _ if is(word, "ch") => options.changed = true,
                _ => break,
            }
            place += 1;
        }
        let pairs = words.len() - place;
        if pairs == 0 || !pairs.is_multiple_of(2) {
            return Err(SYNTAX.into());
        }
        if options.absent && options.present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let both = options.greater && options.less;
        if both || options.absent && (options.greater || options.less) {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(text.into());
        }
        Ok((options, place))
    }

    fn allow(&self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.present,
            Some(old) => !(self.absent || self.greater && new <= old || self.less && new >= old),
        }
    }
}

fn zadd(store: &mut Store, words: Words<'_>) -> Outcome {
    let (options, place) = AddOptions::parse(words)?;
    let (pairs, _) = words[place..].as_chunks::<2>();
    let scores = pairs
        .iter()
        .map(|[text, _]| score(text))
        .collect::<Result<Vec<_>, _>>()?;
    if store.find::<Zset>(&words[1])?.is_none() && options.present {
        return Ok(Reply::Int(0));
    }
    let zset = store.make::<Zset>(&words[1])?;
    let (mut added, mut updated) = (0, 0);
    for (score, [_, member]) in scores.into_iter().zip(pairs) {
        let old = zset.score(member);
        if options.allow(old, score) {
            added += usize::from(old.is_none());
            updated += usize::from(old.is_some_and(|old| Score(old) != Score(score)));
            zset.set(member, score);
        }
    }
    Ok(Reply::count(if options.changed {
        added + updated
    } else {
        added
    }))
}

fn zincrby(store: &mut Store, words: Words<'_>) -> Outcome {
    let by = score(&words[2])?;
    let old = store
        .find::<Zset>(&words[1])?
        .and_then(|zset| zset.score(&words[3]));
    let new = old.map_or(by, |old| old + by);
    if new.is_nan() {
        return Err("ERR resulting score is not a number (NaN)".into());
    }
    store.make::<Zset>(&words[1])?.set(&words[3], new);
    Ok(score_reply(new))
}

fn remove(store: &mut Store, key: &[u8], members: &[Bytes]) -> Result<usize, ErrorReply> {
    let Some(zset) = store.find::<Zset>(key)? else {
        return Ok(0);
    };
    let gone = members.iter().filter(|member| zset.remove(member)).count();
    store.prune(key);
    Ok(gone)
}

fn within(store: &mut Store, key: &[u8], bounds: Bounds) -> Result<Vec<(f64, Bytes)>, ErrorReply> {
    let Some(zset) = store.find::<Zset>(key)? else {
        return Ok(Vec::new());
    };
    let found = zset.in_order().filter(|(score, _)| bounds.hold(*score));
    Ok(found
        .map(|(score, member)| (score, member.clone()))
        .collect())
}

fn members(found: impl IntoIterator<Item = (f64, Bytes)>) -> Reply {
    Reply::bulks(found.into_iter().map(|(_, member)| member))
}

fn with_scores(found: impl IntoIterator<Item = (f64, Bytes)>) -> Reply {
    Reply::bulks(
        found
            .into_iter()
            .flat_map(|(score, member)| [member, score_text(score)]),
    )
}

/// By position only. BYSCORE, BYLEX and REV are missing.
fn zrange(store: &mut Store, words: Words<'_>) -> Outcome {
    let options = &words[4..];
    if !options.iter().all(|word| is(word, "withscores")) {
        return Err(SYNTAX.into());
    }
    let (first, last) = (int(&words[2])?, int(&words[3])?);
    let Some(zset) = store.find::<Zset>(&words[1])? else {
        return Ok(Reply::bulks([]));
    };
    let wanted = range(first, last, zset.len());
    let found = zset.in_order().skip(wanted.start).take(wanted.len());
    let found = found.map(|(score, member)| (score, member.clone()));
    Ok(if options.is_empty() {
        members(found)
    } else {
        with_scores(found)
    })
}

fn zrangebyscore(store: &mut Store, words: Words<'_>) -> Outcome {
    let (mut scored, mut skip, mut take) = (false, 0, -1);
    let mut options = words[4..].iter();
    while let Some(word) = options.next() {
        if is(word, "withscores") {
            scored = true;
        } else if is(word, "limit") {
            let (first, number) = (options.next(), options.next().ok_or(SYNTAX)?);
            skip = int(first.ok_or(SYNTAX)?)?;
            take = int(number)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let bounds = Bounds::parse(&words[2], &words[3])?;
    let found = within(store, &words[1], bounds)?;
    // A negative offset matches nothing. A negative count means all.
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let take = usize::try_from(take).unwrap_or(usize::MAX);
    let found = found.into_iter().skip(skip).take(take);
    Ok(if scored {
        with_scores(found)
    } else {
        members(found)
    })
}
