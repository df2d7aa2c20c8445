//! What a server refuses, and what helps.

use crate::transport::{Fault, Script};

/// Why Redis refused a call; see [`Error::Protocol`](crate::Error::Protocol).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The server wants a password, and none was given.
    NoPassword,
    /// The server does not accept the user or the password.
    Login,
    /// The key is a lock of another kind, or other data.
    OtherData,
    /// The user may not use a command, a key or a channel. A preflight, by
    /// [leasehold-admin](https://docs.rs/leasehold-admin) or the command line, names all rights
    /// that are missing.
    MissingRight,
    /// Anything else: the server is a cluster node, or it runs no scripts.
    Other,
}

impl Refused {
    /// The reason, by the words of the server.
    pub(crate) fn of(fault: &Fault) -> Self {
        let text = &*fault.0;
        // Before them stands the server, if there may be several.
        let is = |code: &str| text.starts_with(code) || text.contains(&format!(": {code}"));
        let is_number = ["is not an integer", "attempt to perform arithmetic"];
        if is("NOAUTH ") {
            Refused::NoPassword
        } else if is("WRONGPASS ") || is("ERR invalid password") || has_no_password(text) {
            Refused::Login
        } else if fault.is_missing_right() {
            Refused::MissingRight
        } else if fault.is_wrong_type() || is_number.iter().any(|words| text.contains(words)) {
            Refused::OtherData
        } else {
            Refused::Other
        }
    }

    /// What was refused and what helps, and then the words of the server.
    pub(super) fn message(self, name: &str, detail: &str) -> String {
        let what = match self {
            Refused::OtherData => {
                return format!(
                    "`{name}` is a lock of another kind, or other data: use another name, \
                     detail=`{detail}`"
                );
            }
            Refused::NoPassword => {
                "the server wants a password: put it into the URL, as in \
                 redis://USER:PASSWORD@HOST, or into `credentials`"
            }
            Refused::Login if has_no_password(detail) => {
                "the server has no password: leave it out of the URL and of `credentials`"
            }
            Refused::Login => {
                "the server does not accept this user and password: correct the URL or \
                 `credentials`"
            }
            Refused::MissingRight => &format!(
                "this user has no right to {}: grant it; `preflight` names all that are missing",
                missing_right(detail)
            ),
            Refused::Other => "redis refused the call",
        };
        format!("{what}: name=`{name}`, detail=`{detail}`")
    }
}

/// A password for a server that has none, in the words of Redis 6 and of those before.
fn has_no_password(text: &str) -> bool {
    text.contains("without any password configured") || text.contains("but no password is set")
}

/// The right that the words are about.
fn missing_right(text: &str) -> String {
    // In the words of the server, or in the line of the script.
    let name = ["run the '", ".call('"].iter().find_map(|before| {
        let (_, name) = text.split_once(before)?;
        name.split_once('\'')
    });
    match name {
        Some((name, _)) => format!("the command `+{name}`"),
        None if text.contains(" channel") => "the channel (`&…`)".to_owned(),
        None if text.contains(" key") => "the key (`~…`)".to_owned(),
        None => "a command".to_owned(),
    }
}

/// Adds the line of a script at which a right was missing: Redis 6.2 and 7.0 name only its number.
/// Other errors stay as they are.
pub(crate) fn with_command(fault: &mut Fault, script: &Script) {
    let names_none = fault.0.contains("can't run this command");
    let line = fault.0.split_once("@user_script:").and_then(|(_, rest)| {
        let digits = rest.split(|digit: char| !digit.is_ascii_digit()).next()?;
        let number: usize = digits.parse().ok()?;
        script.text.lines().nth(number.checked_sub(1)?)
    });
    if let Some(line) = line.filter(|_| names_none) {
        fault.0.push_str(", which is ");
        fault.0.push_str(line.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCRIPT: Script =
        Script::new("a", "local key = KEYS[1]\nredis.call('hset', key, 1, 2)\n");

    fn refused(text: &str) -> (Refused, String) {
        let mut fault = Fault(text.to_owned());
        with_command(&mut fault, &SCRIPT);
        let refused = Refused::of(&fault);
        (refused, refused.message("x", &fault.0))
    }

    /// As Redis 6.2, 7.0 and 8.2 and Valkey 8.1 and 9.1 say it, outside of scripts and in them.
    #[test]
    fn a_missing_right_is_named() {
        for (text, right) in [
            (
                "NOPERM this user has no permissions to run the 'evalsha' command or its \
                 subcommand",
                "the command `+evalsha`",
            ),
            (
                "NOPERM User ann has no permissions to run the 'evalsha' command",
                "the command `+evalsha`",
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "the key (`~…`)",
            ),
            ("NOPERM No permissions to access a key", "the key (`~…`)"),
            (
                "NOPERM this user has no permissions to access one of the channels used as \
                 arguments",
                "the channel (`&…`)",
            ),
            (
                "NOPERM No permissions to access a channel",
                "the channel (`&…`)",
            ),
            (
                "ERR Error running script (call to f_d1bf): @user_script:2: @user_script: 2: The \
              user executing the script can't run this command or subcommand",
                "the command `+hset`",
            ),
            (
                "ERR Error running script (call to f_d1bf): @user_script:2: @user_script: 2: The \
              user executing the script can't access at least one of the keys mentioned in the \
              command arguments",
                "the key (`~…`)",
            ),
            (
                "ERR Error running script (call to f_d1bf): @user_script:2: @user_script: 2: The \
              user executing the script can't publish to the channel mentioned in the command",
                "the channel (`&…`)",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: \
                 d1bf, on @user_script:2.",
                "the command `+hset`",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: \
                 d1bf, on @user_script:9.",
                "a command",
            ),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned \
              in the command arguments script: d1bf, on @user_script:2.",
                "the key (`~…`)",
            ),
            (
                "ERR The user executing the script can't publish to the channel mentioned in the \
              command script: d1bf, on @user_script:2.",
                "the channel (`&…`)",
            ),
            (
                "ERR ACL failure in script: User ann has no permissions to run the 'set' command \
                 script: on @user_script:2.",
                "the command `+set`",
            ),
            (
                "ERR ACL failure in script: No permissions to access a key script: d1bf, on \
                 @user_script:2.",
                "the key (`~…`)",
            ),
            (
                "ERR ACL failure in script: No permissions to access a channel script: d1bf, on \
                 @user_script:2.",
                "the channel (`&…`)",
            ),
        ] {
            let (refused, message) = refused(text);
            assert_eq!(refused, Refused::MissingRight, "{text}");
            let expected = format!("this user has no right to {right}: ");
            assert!(message.starts_with(&expected), "{text}: {message}");
        }
    }

    #[test]
    fn other_data_is_named() {
        for text in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: 746952, on \
             @user_script:1.",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: on \
             @user_script:1.",
            "ERR Error running script (call to f_74): @user_script:1: WRONGTYPE Operation against \
             a key holding the wrong kind of value",
            "ERR user_script:59: attempt to perform arithmetic on local 'available' (a nil value) \
             script: c3, on @user_script:59.",
            "ERR hash value is not an integer script: 6dd27e, on @user_script:1.",
            "ERR Error running script (call to f_6d): @user_script:1: ERR hash value is not an \
             integer",
        ] {
            let (refused, message) = refused(text);
            assert_eq!(refused, Refused::OtherData, "{text}");
            let what = "`x` is a lock of another kind, or other data: use another name";
            assert_eq!(message, format!("{what}, detail=`{text}`"));
        }
    }

    #[test]
    fn a_login_says_where_the_password_goes() {
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        for (text, kind, what) in [
            (
                "NOAUTH Authentication required.",
                Refused::NoPassword,
                "the server wants a password: put it",
            ),
            (
                "NOAUTH HELLO must be called with the client already authenticated",
                Refused::NoPassword,
                "the server wants",
            ),
            (
                "redis://s1:1: NOAUTH Authentication required.",
                Refused::NoPassword,
                "the server wants",
            ),
            (
                wrong,
                Refused::Login,
                "the server does not accept this user",
            ),
            (
                "ERR invalid password",
                Refused::Login,
                "the server does not accept this user",
            ),
            (
                "ERR AUTH <password> called without any password configured for the default user. \
              Are you sure your configuration is correct?",
                Refused::Login,
                "the server has no password",
            ),
            (
                "ERR Client sent AUTH, but no password is set",
                Refused::Login,
                "the server has no password",
            ),
        ] {
            let (refused, message) = refused(text);
            assert_eq!(refused, kind, "{text}");
            assert!(message.starts_with(what), "{text}: {message}");
        }
        for text in ["ERR unknown command", "a reply that no script gives: Nil"] {
            let message = format!("redis refused the call: name=`x`, detail=`{text}`");
            assert_eq!(refused(text), (Refused::Other, message));
        }
    }
}
