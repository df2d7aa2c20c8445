//! The holder and the purpose of a run that others see.

use std::path::Path;

use nix::unistd::{Uid, User, gethostname};

use crate::arguments::RunArguments;

/// The longest text that the library accepts.
const NAME_MAX: usize = 64;
const PURPOSE_MAX: usize = 256;

/// The name of a client that nobody has named.
pub(crate) fn user_at_host() -> String {
    let user = User::from_uid(Uid::effective())
        .ok()
        .flatten()
        .map(|user| user.name);
    let host = gethostname().ok().and_then(|host| host.into_string().ok());
    let name = [user, host]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("@");
    let name: String = name
        .chars()
        .filter(char::is_ascii_graphic)
        .take(NAME_MAX)
        .collect();
    if name.is_empty() {
        "leasehold".to_owned()
    } else {
        name
    }
}

impl RunArguments {
    /// The given holder, or else `user@host`.
    pub(super) fn client_name(&self) -> String {
        self.holder.clone().unwrap_or_else(user_at_host)
    }

    /// The given purpose, or else the name of the command. Without its arguments, because they may
    /// contain a password.
    pub(super) fn purpose(&self) -> String {
        if let Some(purpose) = &self.purpose {
            return purpose.clone();
        }
        let command = self
            .command
            .first()
            .map(Path::new)
            .and_then(Path::file_name);
        let mut purpose = String::new();
        for letter in command.unwrap_or_default().to_string_lossy().chars() {
            if !letter.is_control() && purpose.len() + letter.len_utf8() <= PURPOSE_MAX {
                purpose.push(letter);
            }
        }
        if purpose.is_empty() {
            "a command".to_owned()
        } else {
            purpose
        }
    }
}
