//! A check that only reads the text of a script, as proxies do before they choose a server for it.

use super::commands::{KeyWords, key_words};

/// Whether each call of a command names it by a literal, and has `KEYS[…]` where the command has
/// its keys.
pub(crate) fn declares_its_keys(script: &[u8]) -> bool {
    let script = without_comments(&String::from_utf8_lossy(script));
    let calls = ["redis.call", "redis.pcall"];
    let mut rest = calls
        .iter()
        .flat_map(|call| script.match_indices(call))
        .map(|(at, call)| script[at + call.len()..].trim_start());
    rest.all(|rest| {
        let arguments = rest.strip_prefix('(').and_then(arguments);
        arguments.is_some_and(|arguments| is_declared(&arguments))
    })
}

fn is_declared(arguments: &[&str]) -> bool {
    let [name, rest @ ..] = arguments else {
        return false;
    };
    let Some(name) = literal(name) else {
        return false;
    };
    match key_words(name.as_bytes()) {
        KeyWords::None => true,
        KeyWords::First => rest.first().is_some_and(|key| is_key(key)),
        KeyWords::All => !rest.is_empty() && rest.iter().all(|key| is_key(key)),
    }
}

fn literal(text: &str) -> Option<&str> {
    ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .filter(|name| !name.contains(['\'', '"']))
}

/// `KEYS[i]`, and not within an expression.
fn is_key(text: &str) -> bool {
    text.strip_prefix("KEYS[")
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|index| !index.contains(['[', ']']))
}

/// The arguments of a call, up to its closing parenthesis.
fn arguments(text: &str) -> Option<Vec<&str>> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) => quote = quote.filter(|_| letter != open),
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ',' | ')') if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
                if letter == ')' {
                    return Some(found);
                }
            }
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, _) => {}
        }
    }
    None
}

/// No script of ours has `--` in a text.
fn without_comments(script: &str) -> String {
    let code = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
    script.lines().map(code).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::declares_its_keys;

    #[test]
    fn only_literal_names_and_keys_in_place_pass() {
        for good in [
            "return redis.call('get', KEYS[1])",
            "for i = 1, #KEYS do redis.pcall(\"hset\", KEYS[i + 1], 'a', f(1, ARGV[1])) end",
            "redis.call('del', KEYS[1], KEYS[2]) -- redis.call(ARGV[1])",
            "redis.pcall('publish', ARGV[1], '0') local now = redis.call('time')",
            "return 1",
        ] {
            assert!(declares_its_keys(good.as_bytes()), "{good}");
        }
        for bad in [
            "local key = KEYS[1] return redis.call('get', key)",
            "return redis.call('get', 'name')",
            "return redis.call('get', KEYS[1] .. ':x')",
            "return redis.call(ARGV[1], KEYS[1])",
            "return redis.call('del', KEYS[1], '{foo}bar')",
            "return redis.call('del', unpack(KEYS))",
            "local call = redis.call return call('get', KEYS[1])",
            "return redis.call('get'",
        ] {
            assert!(!declares_its_keys(bad.as_bytes()), "{bad}");
        }
    }
}
