//! Commands for lists.

use super::super::data::List;
use super::super::number::int;
use super::super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::super::store::Store;
use super::{Command, Words, command, wrong_arity};

pub(super) const COMMANDS: &[Command] = &[
    command("lindex", 3, lindex),
    command("linsert", 5, linsert),
    command("llen", 2, |store, words| {
        Ok(Reply::count(
            store.find::<List>(&words[1])?.map_or(0, |list| list.len()),
        ))
    }),
    command("lpop", -2, |store, words| {
        pop(store, words, "lpop", List::pop_front)
    }),
    command("lpush", -3, |store, words| {
        push(store, words, List::push_front)
    }),
    command("lrange", 4, lrange),
    command("lrem", 4, lrem),
    command("rpop", -2, |store, words| {
        pop(store, words, "rpop", List::pop_back)
    }),
    command("rpush", -3, |store, words| {
        push(store, words, List::push_back)
    }),
];

fn push(store: &mut Store, words: Words<'_>, put: fn(&mut List, Bytes)) -> Outcome {
    let list = store.make::<List>(&words[1])?;
    for word in &words[2..] {
        put(list, word.clone());
    }
    Ok(Reply::count(list.len()))
}

fn pop(
    store: &mut Store,
    words: Words<'_>,
    name: &str,
    take: fn(&mut List) -> Option<Bytes>,
) -> Outcome {
    let count = match words {
        [_, _] => None,
        [_, _, count] => Some(pop_count(count)?),
        _ => return Err(wrong_arity(name)),
    };
    let Some(list) = store.find::<List>(&words[1])? else {
        return Ok(Reply::Nil);
    };
    let reply = match count {
        None => take(list).map_or(Reply::Nil, Reply::Bulk),
        Some(count) => Reply::bulks((0..count.min(list.len())).map_while(|_| take(list))),
    };
    store.prune(&words[1]);
    Ok(reply)
}

fn pop_count(word: &[u8]) -> Result<usize, ErrorReply> {
    let count = int(word).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| "ERR value is out of range, must be positive".into())
}

/// Turns first and last, which count from the end if negative, into a range of positions.
pub(super) fn range(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
    let size = i64::try_from(len).unwrap_or(i64::MAX);
    let place = |index: i64| {
        if index < 0 {
            index.saturating_add(size)
        } else {
            index
        }
    };
    let first = place(first).max(0);
    let end = place(last).saturating_add(1).clamp(0, size);
    if first >= end {
        return 0..0;
    }
    usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0)
}

fn lindex(store: &mut Store, words: Words<'_>) -> Outcome {
    let Some(list) = store.find::<List>(&words[1])? else {
        return Ok(Reply::Nil);
    };
    let index = int(&words[2])?;
    let place = if index < 0 {
        let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        list.len().checked_sub(back)
    } else {
        usize::try_from(index).ok()
    };
    Ok(Reply::bulk_or_nil(place.and_then(|place| list.get(place))))
}

fn linsert(store: &mut Store, words: Words<'_>) -> Outcome {
    let behind = match words[2].to_ascii_lowercase().as_slice() {
        b"before" => 0,
        b"after" => 1,
        _ => return Err("ERR syntax error".into()),
    };
    let Some(list) = store.find::<List>(&words[1])? else {
        return Ok(Reply::Int(0));
    };
    let Some(place) = list.iter().position(|item| *item == words[3]) else {
        return Ok(Reply::Int(-1));
    };
    list.insert(place + behind, words[4].clone());
    Ok(Reply::count(list.len()))
}

fn lrange(store: &mut Store, words: Words<'_>) -> Outcome {
    let (first, last) = (int(&words[2])?, int(&words[3])?);
    let Some(found) = store.find::<List>(&words[1])? else {
        return Ok(Reply::bulks([]));
    };
    let wanted = range(first, last, found.len());
    Ok(Reply::bulks(found.range(wanted).cloned()))
}

fn lrem(store: &mut Store, words: Words<'_>) -> Outcome {
    let count = int(&words[2])?;
    let Some(list) = store.find::<List>(&words[1])? else {
        return Ok(Reply::Int(0));
    };
    let limit = match count.unsigned_abs() {
        0 => usize::MAX,
        some => usize::try_from(some).unwrap_or(usize::MAX),
    };
    let mut found: Vec<usize> = (0..list.len())
        .filter(|place| list[*place] == words[3])
        .collect();
    if count < 0 {
        found.reverse();
    }
    found.truncate(limit);
    let gone = found.len();
    let mut place = 0;
    list.retain(|_| {
        place += 1;
        !found.contains(&(place - 1))
    });
    store.prune(&words[1]);
    Ok(Reply::count(gone))
}
