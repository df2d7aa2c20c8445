//! Converts Lua values to replies and back, by the rules of Redis (RESP2).

use mlua::{Lua, Table, Value};

use super::number::format_float;
use super::reply::{Bytes, ErrorReply, Outcome, Reply};

/// An argument of `redis.call`: a string or a number. Other values are not allowed.
#[expect(
    clippy::cast_precision_loss,
    reason = "a number of Lua 5.1 is a double"
)]
pub(crate) fn word_of(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(format_float(*number as f64).into_bytes()),
        Value::Number(number) => Some(format_float(*number).into_bytes()),
        _ => None,
    }
}

/// The Lua value that a script gets for a reply.
#[expect(
    clippy::cast_precision_loss,
    reason = "scripts of Redis lose large numbers too"
)]
pub(crate) fn to_lua(lua: &Lua, outcome: Outcome) -> mlua::Result<Value> {
    let one_field = |name: &str, text: &str| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, lua.create_string(text)?)?;
        Ok(Value::Table(table))
    };
    match outcome {
        Err(error) => one_field("err", &error.0),
        Ok(Reply::Nil) => Ok(Value::Boolean(false)),
        Ok(Reply::Int(number)) => Ok(Value::Number(number as f64)),
        Ok(Reply::Status(text)) => one_field("ok", &text),
        Ok(Reply::Bulk(text)) => Ok(Value::String(lua.create_string(text)?)),
        Ok(Reply::Array(items)) => {
            let items = items.into_iter().map(|item| to_lua(lua, item));
            Ok(Value::Table(sequence(lua, items)?))
        }
    }
}

/// A list of any length. Values are added one by one, because Lua can hold only about 8000 outside
/// a table.
pub(crate) fn sequence(
    lua: &Lua,
    items: impl Iterator<Item = mlua::Result<Value>>,
) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.size_hint().0, 0)?;
    for item in items {
        table.raw_push(item?)?;
    }
    Ok(table)
}

/// The reply to a client for the result of a script.
pub(crate) fn from_lua(value: &Value) -> Outcome {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(truncate(*number)),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => return from_table(table),
        _ => Reply::Nil,
    })
}

/// Behaves like a cast in C: a number that does not fit becomes the smallest integer, as on x86.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "as C does it"
)]
fn truncate(number: f64) -> i64 {
    if number >= i64::MIN as f64 && number < i64::MAX as f64 {
        number as i64
    } else {
        i64::MIN
    }
}

fn from_table(table: &Table) -> Outcome {
    if let Some(text) = text_field(table, "err") {
        return Err(ErrorReply(text));
    }
    if let Some(text) = text_field(table, "ok") {
        return Ok(Reply::Status(text));
    }
    let mut items = Vec::new();
    for index in 1_i64.. {
        match table.raw_get(index) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(value) => items.push(from_lua(&value)),
        }
    }
    Ok(Reply::Array(items))
}

/// On a single line, as the protocol demands.
fn text_field(table: &Table, name: &str) -> Option<String> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy().replace(['\r', '\n'], " ")),
        _ => None,
    }
}
