//! Commands for strings and counters.

use super::super::data::Data;
use super::super::number::int;
use super::super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::super::store::Store;
use super::{Command, SYNTAX, Words, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("decr", 2, |store, words| add(store, &words[1], -1)),
    command("decrby", 3, |store, words| {
        let by = int(&words[2])?
            .checked_neg()
            .ok_or("ERR decrement would overflow")?;
        add(store, &words[1], by)
    }),
    command("get", 2, get),
    command("incr", 2, |store, words| add(store, &words[1], 1)),
    command("incrby", 3, |store, words| {
        add(store, &words[1], int(&words[2])?)
    }),
    command("set", -3, set),
    command("strlen", 2, |store, words| {
        Ok(Reply::count(
            store.find::<Bytes>(&words[1])?.map_or(0, |text| text.len()),
        ))
    }),
];

pub(crate) const OVERFLOW: &str = "ERR increment or decrement would overflow";

fn get(store: &mut Store, words: Words<'_>) -> Outcome {
    Ok(Reply::bulk_or_nil(
        store.find::<Bytes>(&words[1])?.as_deref(),
    ))
}

fn add(store: &mut Store, key: &[u8], by: i64) -> Outcome {
    let old = match store.find::<Bytes>(key)? {
        Some(text) => int(text)?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    *store.make::<Bytes>(key)? = new.to_string().into_bytes();
    Ok(Reply::Int(new))
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each word of the command"
)]
struct SetOptions<'a> {
    absent: bool,
    present: bool,
    keep: bool,
    answer_old: bool,
    expiry: Option<(&'a Bytes, i64)>,
}

impl<'a> SetOptions<'a> {
    fn parse(words: &'a [Bytes]) -> Result<Self, ErrorReply> {
        let mut options = SetOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let free = options.expiry.is_none() && !options.keep;
            match word {
                _ if is(word, "nx") && !options.present => options.absent = true,
                _ if is(word, "xx") && !options.absent => options.present = true,
                _ if is(word, "keepttl") && options.expiry.is_none() => options.keep = true,
                _ if is(word, "get") => options.answer_old = true,
                _ if is(word, "px") && free => {
                    options.expiry = Some((words.next().ok_or(SYNTAX)?, 1));
                }
                _ if is(word, "ex") && free => {
                    options.expiry = Some((words.next().ok_or(SYNTAX)?, 1000));
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }

    fn deadline(&self, now: i64) -> Result<Option<i64>, ErrorReply> {
        let Some((text, scale)) = self.expiry else {
            return Ok(None);
        };
        let given = int(text)?;
        let deadline = given.checked_mul(scale).and_then(|ms| ms.checked_add(now));
        match deadline {
            Some(deadline) if given > 0 => Ok(Some(deadline)),
            _ => Err("ERR invalid expire time in 'set' command".into()),
        }
    }
}

fn set(store: &mut Store, words: Words<'_>) -> Outcome {
    let options = SetOptions::parse(&words[3..])?;
    let deadline = options.deadline(store.now_ms())?;
    let key = &words[1];
    let old = if options.answer_old {
        store.find::<Bytes>(key)?.cloned()
    } else {
        None
    };
    let refused = match store.entry(key) {
        Some(_) => options.absent,
        None => options.present,
    };
    if !refused {
        let kept = store
            .entry(key)
            .and_then(|entry| entry.expires_at)
            .filter(|_| options.keep);
        store.put(key, Data::Text(words[2].clone()), deadline.or(kept));
    }
    Ok(match (options.answer_old, refused) {
        (true, _) => old.map_or(Reply::Nil, Reply::Bulk),
        (false, true) => Reply::Nil,
        (false, false) => Reply::ok(),
    })
}
