//! Commands for hashes.

use super::super::data::Hash;
use super::super::number::{int, parse_int};
use super::super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::super::store::Store;
use super::strings::OVERFLOW;
use super::{Command, SYNTAX, Words, command, wrong_arity};

pub(super) const COMMANDS: &[Command] = &[
    command("hdel", -3, hdel),
    command("hexists", 3, |store, words| {
        let hash = store.find::<Hash>(&words[1])?;
        Ok(Reply::from(
            hash.is_some_and(|hash| hash.get(&words[2]).is_some()),
        ))
    }),
    command("hget", 3, |store, words| {
        let hash = store.find::<Hash>(&words[1])?;
        Ok(Reply::bulk_or_nil(
            hash.and_then(|hash| hash.get(&words[2])),
        ))
    }),
    command("hgetall", 2, |store, words| {
        let fields = fields(store, &words[1])?;
        Ok(Reply::bulks(
            fields.into_iter().flat_map(|(field, value)| [field, value]),
        ))
    }),
    command("hincrby", 4, hincrby),
    command("hkeys", 2, |store, words| {
        Ok(Reply::bulks(
            fields(store, &words[1])?
                .into_iter()
                .map(|(field, _)| field),
        ))
    }),
    command("hlen", 2, |store, words| {
        Ok(Reply::count(
            store.find::<Hash>(&words[1])?.map_or(0, |hash| hash.len()),
        ))
    }),
    command("hmget", -3, |store, words| {
        let hash = store.find::<Hash>(&words[1])?.as_deref().map(|hash| {
            words[2..]
                .iter()
                .map(|field| hash.get(field).cloned())
                .collect::<Vec<_>>()
        });
        let values = hash.unwrap_or_else(|| vec![None; words.len() - 2]);
        Ok(Reply::Array(
            values
                .into_iter()
                .map(|value| Ok(value.map_or(Reply::Nil, Reply::Bulk)))
                .collect(),
        ))
    }),
    command("hrandfield", -2, hrandfield),
    command("hset", -4, hset),
    command("hsetnx", 4, |store, words| {
        let hash = store.make::<Hash>(&words[1])?;
        let new = hash.get(&words[2]).is_none();
        if new {
            hash.set(&words[2], words[3].clone());
        }
        Ok(Reply::from(new))
    }),
    command("hvals", 2, |store, words| {
        Ok(Reply::bulks(
            fields(store, &words[1])?
                .into_iter()
                .map(|(_, value)| value),
        ))
    }),
];

fn fields(store: &mut Store, key: &[u8]) -> Result<Vec<(Bytes, Bytes)>, ErrorReply> {
    Ok(store
        .find::<Hash>(key)?
        .map_or_else(Vec::new, |hash| hash.in_order()))
}

/// Several different fields, or one.
fn hrandfield(store: &mut Store, words: Words<'_>) -> Outcome {
    let (key, options) = (&words[1], &words[2..]);
    let Some((count, options)) = options.split_first() else {
        let one = drawn(store, key, 1)?.pop();
        return Ok(one.map_or(Reply::Nil, |(field, _)| Reply::Bulk(field)));
    };
    let count = usize::try_from(int(count)?).map_err(|_| "ERR negative counts are not known")?;
    let with_values = match options {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"withvalues") => true,
        _ => return Err(SYNTAX.into()),
    };
    let fields = drawn(store, key, count)?;
    let shown = |(field, value)| {
        if with_values {
            vec![field, value]
        } else {
            vec![field]
        }
    };
    Ok(Reply::bulks(fields.into_iter().flat_map(shown)))
}

fn drawn(store: &mut Store, key: &[u8], count: usize) -> Result<Vec<(Bytes, Bytes)>, ErrorReply> {
    let mut fields = fields(store, key)?;
    if count < fields.len() {
        for place in 0..count {
            let drawn = place + store.draw(fields.len() - place);
            fields.swap(place, drawn);
        }
        fields.truncate(count);
    }
    Ok(fields)
}

fn hset(store: &mut Store, words: Words<'_>) -> Outcome {
    let (pairs, odd) = words[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(wrong_arity("hset"));
    }
    let hash = store.make::<Hash>(&words[1])?;
    let new = pairs
        .iter()
        .filter(|[field, value]| hash.set(field, value.clone()))
        .count();
    Ok(Reply::count(new))
}

fn hdel(store: &mut Store, words: Words<'_>) -> Outcome {
    let Some(hash) = store.find::<Hash>(&words[1])? else {
        return Ok(Reply::Int(0));
    };
    let gone = words[2..].iter().filter(|field| hash.remove(field)).count();
    store.prune(&words[1]);
    Ok(Reply::count(gone))
}

fn hincrby(store: &mut Store, words: Words<'_>) -> Outcome {
    let by = int(&words[3])?;
    let old = match store
        .find::<Hash>(&words[1])?
        .and_then(|hash| hash.get(&words[2]))
    {
        Some(text) => parse_int(text).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    store
        .make::<Hash>(&words[1])?
        .set(&words[2], new.to_string().into_bytes());
    Ok(Reply::Int(new))
}
