//! Conversions, errors and the sandbox, one by one. Texts must be equal to the letter.

use leasehold_testbed::{Server, is_missing};

use crate::compare::{Letter, Numbers, Pair};

const SCRIPTS: &[&str] = &[
    // Results of scripts.
    "return 3.99",
    "return -0.5",
    "return 1/0",
    "return -1/0",
    "return 2^53 + 1",
    "return {1, 'a', {2, 3.7}, true, false, 5}",
    "return {1, 2, nil, 4}",
    "return {}",
    "return nil",
    "return true",
    "return false",
    "return 'text'",
    "return {ok = 'fine'}",
    "return {err = 'A b'}",
    "return {err = 'x', foo = 1}",
    "return {ok = 1}",
    "return function() end",
    "return {a = 1}",
    "return KEYS",
    "return ARGV",
    "return #KEYS + #ARGV",
    // Replies within scripts.
    "return type(redis.call('get', 'none'))",
    "return redis.call('set', 's', 'v').ok",
    "return redis.call('set', 's', 'v')",
    "return redis.call('set', 's', 'v', 'nx')",
    "return type(redis.call('hget', 'h', 'none'))",
    "return redis.call('hmget', 'h', 'none', 'f')",
    "return redis.pcall('get', 'h').err",
    "return redis.pcall('get', 'h')",
    "return type(redis.call('time')[1])",
    "return redis.call('ping')",
    "return redis.call('pubsub', 'numsub', 'a', 'b')",
    "return redis.call('PUBSUB', 'NUMSUB')",
    "return redis.pcall('pubsub').err",
    "return {redis.pcall('get', 'h'), 1}",
    // Numbers as arguments.
    "return redis.call('echo', 1)",
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', -0.0)",
    "return redis.call('echo', 100)",
    "return redis.call('echo', 1e15)",
    "return redis.call('echo', 1e16)",
    "return redis.call('echo', 1e17)",
    "return redis.call('echo', 123456789012345678)",
    "return redis.call('echo', 1.5e-7)",
    "return redis.call('echo', 0.0001)",
    "return redis.call('echo', 0.00001)",
    "return redis.call('echo', 1/3)",
    "return redis.call('echo', 1/0)",
    "return redis.call('echo', -1/0)",
    "return redis.call('echo', 0/0)",
    "return redis.call('echo', 2^63)",
    "return redis.call('pexpire', 'h', 1.5)",
    "return redis.call('zadd', 'z', 1.5, 'm')",
    "return redis.call('zscore', 'z', 'm')",
    "return tostring(1e15)",
    "return tostring(1700000000000)",
    "return 1700000000000 .. ''",
    "return tonumber('0x10')",
    "return tonumber('nope')",
    "return tonumber('1e3')",
    // Errors.
    "return redis.call('get', 'h')",
    "return redis.call('nope')",
    "return redis.call('get')",
    "return redis.call('get', 'a', 'b')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('get', {})",
    "return redis.call('get', nil)",
    "return redis.call('get', true)",
    "return redis.pcall('get', {}).err",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('subscribe', 'c')",
    "return redis.call('incrby', 's', 'x')",
    "error('boom')",
    "error({err = 'A b'})",
    "error()",
    "error('bare', 0)",
    "return 1 + nil",
    "return nil .. 'x'",
    "local t = nil; return t.x",
    "return ((",
    "\n\nreturn redis.call('get', 'h')",
    "local function f() redis.call('get', 'h') end\nf()",
    "local function f() error('deep') end\nlocal function g() f() end\ng()",
    "return pcall(redis.call, 'get', 'h')",
    "local ok, e = pcall(redis.call, 'get', 'h'); return {type(ok), type(e), e.err}",
    "local ok, e = pcall(error, 'x'); return e",
    "return redis.error_reply('MY ERR')",
    "return redis.error_reply('MYERR')",
    "return redis.error_reply('-MY ERR')",
    "return redis.error_reply(1)",
    "return redis.error_reply('')",
    "return redis.status_reply('fine')",
    "return redis.status_reply()",
    // What was written before an error stays.
    "redis.call('set', 'before', 1); return redis.call('get', 'h')",
    "return redis.call('get', 'before')",
    // The sandbox.
    "x = 1",
    "function f() end",
    "return yy",
    "return os and os.clock and 1",
    "return io",
    "return require",
    "return loadfile",
    "return dofile",
    "return print",
    "string.foo = 1",
    "redis.call = nil",
    "KEYS = {}",
    "KEYS[1] = 'changed'; return KEYS[1]",
    "return redis.sha1hex('')",
    "return {math.random(1000), math.random(1000), math.random(5, 9), math.floor(math.random() * \
     1000)}",
    "math.randomseed(7); return {math.random(1000), math.random(1000)}",
    "return ('x'):rep(3) .. string.upper('y') .. string.format('%d %s %.3f', 3, 'z', 1.5)",
    "local t = {3, 1, 2}; table.sort(t); return t",
    "return {unpack({1, 2, 3}, 2)}",
    "return select('#', 1, 2, 3)",
    "local n = 0; for k, v in pairs({a = 1, b = 2}) do n = n + v end; return n",
    "return {tostring(nil), tostring(true), type(redis), type(KEYS)}",
    "return table.concat({1, 2.5, 'x'}, ',')",
    "return math.max(1, 2) + math.floor(2.7)",
    "return #redis.call('keys', '*')",
];

const COMMANDS: &[&[&str]] = &[
    &["nope"],
    &["nope", "a", "b"],
    &["get"],
    &["GeT", "s"],
    &["eval", "return 1"],
    &["eval", "return 1", "x"],
    &["eval", "return 1", "2", "a"],
    &["eval", "return 1", "-1"],
    &["eval", "return {KEYS[1], ARGV[1]}", "1", "a", "b", "c"],
    &["evalsha", "ffffffffffffffffffffffffffffffffffffffff", "0"],
    &["evalsha", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"],
    &["script", "load", "return 1"],
    &["evalsha", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"],
    &[
        "script",
        "exists",
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        "x",
    ],
    &["script", "flush"],
    &["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["script", "load", "(("],
    &["script", "foo"],
    &["ping"],
    &["ping", "x"],
    &["echo", "x"],
    &["publish", "c", "m"],
    &["spublish", "c", "m"],
    &["set", "n", "9223372036854775807"],
    &["incr", "n"],
    &["decrby", "n", "-1"],
    &["decrby", "n", "-9223372036854775808"],
    &["hincrby", "h", "f", "1"],
    &["hset", "h", "n", "9223372036854775807"],
    &["hincrby", "h", "n", "1"],
    &["hset", "h", "n"],
    &["hset", "h", "n", "1", "m"],
    &["hset", "few", "a", "1", "b", "2", "c", "3"],
    &["hrandfield", "few", "3"],
    &["hrandfield", "few", "4", "withvalues"],
    &["hrandfield", "none"],
    &["hrandfield", "h", "0"],
    &["hrandfield", "h", "100", "WithValues"],
    &["hrandfield", "h", "100", "values"],
    &["hrandfield", "h", "100", "withvalues", "x"],
    &["hrandfield", "h", "x"],
    &["hrandfield", "none", "3", "withvalues"],
    &["hrandfield", "s", "3"],
    &["keys", "[a-h]"],
    &["keys", "?efore"],
    &["keys", "b*e"],
    &["keys", "[^h]"],
    &["keys", "\\h"],
    &["scan", "x"],
    &["scan", "0", "match", "h", "count", "100"],
    &["scan", "0", "count", "0"],
    &["scan", "0", "type", "hash", "count", "100"],
    &["zadd", "zz", "inf", "a", "-inf", "b", "1e3", "c", "-0", "d"],
    &["zrange", "zz", "0", "-1", "withscores"],
    &["zincrby", "zz", "-inf", "a"],
    &["zincrby", "zz", "nan", "a"],
    &["zadd", "zz", "1e400", "a"],
    &["zadd", "zz", "", "a"],
    &["zadd", "zz", " 1", "a"],
    &["zadd", "zz", "0.1", "a"],
    &["zscore", "zz", "a"],
    &["pexpire", "zz", "9223372036854775807"],
    &["expire", "zz", "9223372036854775807"],
    &["expire", "zz", "-1"],
    &["exists", "zz", "h", "h"],
    &["type", "zz"],
];

#[test]
fn scripts_and_commands_of_the_list_agree() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let mut pair = Pair::new(&server);
    if pair.letter() == Letter::Meaning {
        // Some of these change with the version. The random sequences compare the rest.
        return;
    }
    let mut differences = Vec::new();
    let mut run = |words: &[&str]| {
        if let Err(difference) = pair.step(words, Numbers::Exact) {
            differences.push(difference);
        }
    };
    run(&["hset", "h", "f", "v"]);
    for script in SCRIPTS {
        run(&["eval", script, "1", "k1", "a1", "a2"]);
    }
    for words in COMMANDS {
        run(words);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    pair.compare_all().unwrap();
}
