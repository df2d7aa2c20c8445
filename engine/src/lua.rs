//! Runs scripts as Redis does: Lua 5.1, a sandbox that can only access the keyspace, and errors as
//! replies.
//!
//! The keyspace is the application data of the Lua state, so that `redis.call` reaches it without
//! another lock.

use std::collections::HashMap;

use mlua::chunk::ChunkMode;
use mlua::{AppDataRefMut, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};

use super::commands::{self, Unusable};
use super::convert::{from_lua, sequence, to_lua, word_of};
use super::random::Lrand48;
use super::reply::{Bytes, ErrorReply, Outcome};
use super::store::Store;

const CHUNK: &str = "user_script";

const UNKNOWN: &str = "ERR Unknown Redis command called from script";

pub(crate) struct Scripts {
    lua: Lua,
    environment: Table,
    run: Function,
    loaded: HashMap<String, Function>,
}

impl Scripts {
    pub(crate) fn new(store: Store) -> Self {
        Self::build(store).expect("BUG: the sandbox is constant")
    }

    fn build(store: Store) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(store);
        lua.set_app_data(Lrand48::default());
        let call = lua.create_function(call)?;
        let try_call = lua.create_function(|lua, words| to_lua(lua, run_command(lua, &words)))?;
        let reason = lua.create_function(reason)?;
        let explain = lua.create_function(explain)?;
        let sha1hex =
            lua.create_function(|_, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes())))?;
        let random = lua.create_function(random)?;
        let seed = lua.create_function(|lua, seed: f64| {
            lua.set_app_data(Lrand48::seeded(seed));
            Ok(())
        })?;
        let (environment, run) = lua
            .load(include_str!("sandbox.lua"))
            .set_name("=sandbox")
            .call((call, try_call, explain, reason, sha1hex, random, seed))?;
        Ok(Scripts {
            lua,
            environment,
            run,
            loaded: HashMap::new(),
        })
    }

    pub(crate) fn store(&self) -> AppDataRefMut<'_, Store> {
        self.lua
            .app_data_mut()
            .expect("BUG: the store is borrowed for one command at a time")
    }

    pub(crate) fn is_loaded(&self, sha1: &str) -> bool {
        self.loaded.contains_key(sha1)
    }

    pub(crate) fn forget(&mut self) {
        self.loaded.clear();
    }

    /// Compiles a script unless that was done before. Returns its hash.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<String, ErrorReply> {
        let sha1 = sha1_hex(text);
        if !self.loaded.contains_key(&sha1) {
            let chunk = self.lua.load(text).set_name(format!("@{CHUNK}"));
            let function = chunk
                .set_mode(ChunkMode::Text)
                .set_environment(self.environment.clone())
                .into_function()
                .map_err(|error| uncompiled(&error))?;
            self.loaded.insert(sha1.clone(), function);
        }
        Ok(sha1)
    }

    /// Runs a loaded script. Writes before an error remain, as in Redis.
    pub(crate) fn run(&self, sha1: &str, keys: &[Bytes], args: &[Bytes]) -> Outcome {
        let Some(script) = self.loaded.get(sha1) else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".into());
        };
        match self.start(script, keys, args) {
            Ok((true, result)) => from_lua(&result),
            Ok((false, failure)) => Err(failed(&failure, sha1)),
            Err(error) => Err(ErrorReply(format!("ERR the engine failed: {error}"))),
        }
    }

    fn start(
        &self,
        script: &Function,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> mlua::Result<(bool, Value)> {
        let list = |words: &[Bytes]| {
            let strings = words
                .iter()
                .map(|word| self.lua.create_string(word).map(Value::String));
            sequence(&self.lua, strings)
        };
        self.run.call((script, list(keys)?, list(args)?))
    }
}

pub(crate) fn sha1_hex(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// `redis.call`: an error reply ends the script. Not written in Lua, because a tail call would hide
/// the line of the script.
#[expect(clippy::needless_pass_by_value, reason = "as mlua calls it")]
fn call(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    match run_command(lua, &words) {
        Err(error) => Err(mlua::Error::external(error)),
        outcome => to_lua(lua, outcome),
    }
}

fn run_command(lua: &Lua, words: &MultiValue) -> Outcome {
    match words.iter().map(word_of).collect::<Option<Vec<Bytes>>>() {
        Some(words) if words.is_empty() => {
            Err("ERR Please specify at least one argument for this redis lib call".into())
        }
        Some(words) => run_words(lua, &words),
        None => Err("ERR Lua redis lib command arguments must be strings or integers".into()),
    }
}

fn run_words(lua: &Lua, words: &[Bytes]) -> Outcome {
    let mut store: AppDataRefMut<'_, Store> = lua
        .app_data_mut()
        .expect("BUG: the store is borrowed for one command at a time");
    let forbidden = ["eval", "evalsha", "script", "subscribe", "unsubscribe"];
    if forbidden.iter().any(|name| commands::is(&words[0], name)) {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    let mut missing = store.not_in_scripts.iter();
    if missing.any(|name| commands::is(&words[0], name)) {
        return Err(UNKNOWN.into());
    }
    if let Some(declared) = &store.declared
        && commands::keys(words)
            .iter()
            .any(|key| !declared.keys.contains(key))
    {
        return Err(declared.refusal.into());
    }
    commands::run(&mut store, words).unwrap_or_else(|why| {
        Err(match why {
            Unusable::Unknown => UNKNOWN,
            Unusable::WrongArity(_) => "ERR Wrong number of args calling Redis command from script",
        }
        .into())
    })
}

/// The error reply in an error that [`call`] raised.
fn raised(error: &mlua::Error) -> String {
    let reply = error.downcast_ref::<ErrorReply>();
    reply.map_or_else(|| format!("ERR {error}"), |reply| reply.0.clone())
}

/// The error value that `pcall` returns: an error reply as text, any other value unchanged.
fn reason(lua: &Lua, error: Value) -> mlua::Result<Value> {
    match &error {
        Value::Error(inner) => Ok(Value::String(lua.create_string(raised(inner))?)),
        Value::Table(table) => match table.raw_get("err")? {
            Value::String(text) => Ok(Value::String(text)),
            _ => Ok(error),
        },
        _ => Ok(error),
    }
}

/// Adds the line number of the script to an error.
fn explain(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let one_field = |text: String| lua.create_table_from([("err", text)]);
    let table = match error {
        Value::Table(table) => table,
        Value::Error(error) => one_field(raised(&error))?,
        other => one_field(format!("ERR {}", other.to_string()?))?,
    };
    let line = (1..16).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            let ours = frame.source().short_src.as_deref() == Some(CHUNK);
            frame.current_line().filter(|_| ours)
        })?
    });
    table.raw_set("line", line)?;
    Ok(table)
}

fn failed(failure: &Value, sha1: &str) -> ErrorReply {
    let Value::Table(table) = failure else {
        return ErrorReply(format!(
            "ERR Error running script {sha1}, execution failure"
        ));
    };
    let text: Option<mlua::LuaString> = table.raw_get("err").ok();
    let text = text.map_or_else(
        || "ERR unknown error".to_owned(),
        |text| text.to_string_lossy(),
    );
    let line: Option<i64> = table.raw_get("line").unwrap_or(None);
    match line {
        Some(line) => ErrorReply(format!("{text} script: {sha1}, on @{CHUNK}:{line}.")),
        None => ErrorReply(text),
    }
}

fn uncompiled(error: &mlua::Error) -> ErrorReply {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    ErrorReply(format!("ERR Error compiling script (new function): {text}"))
}

/// `math.random` of Redis. Every engine returns the same sequence.
#[expect(clippy::needless_pass_by_value, reason = "as mlua calls it")]
fn random(lua: &Lua, bounds: Variadic<f64>) -> mlua::Result<f64> {
    let mut state: AppDataRefMut<'_, Lrand48> = lua
        .app_data_mut()
        .expect("BUG: set when the state was made");
    let part = state.next_part();
    match bounds[..] {
        [] => Ok(part),
        [max] if max >= 1.0 => Ok((part * max).floor() + 1.0),
        [min, max] if min <= max => Ok((part * (max - min + 1.0)).floor() + min),
        [_] | [_, _] => Err(mlua::Error::runtime(
            "bad argument to 'random' (interval is empty)",
        )),
        _ => Err(mlua::Error::runtime("wrong number of arguments")),
    }
}
