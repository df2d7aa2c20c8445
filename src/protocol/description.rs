//! Who holds a lock and what for, in an extra key that other clients ignore.

use std::sync::Arc;
use std::time::Duration;

use super::calls::ms;
use super::kind::Kind;
use super::kind::{KeyName, slot_fault};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Args, Call, Field, Keys, Value};
use crate::holder::Holder;

scripts! {
    DESCRIBE = "hold_describe" from "shared/clock.lua" "shared/type_of.lua"
        "description/describe.lua";
}

/// How many owners of one lock are described; there may be more readers. `described.lua` has the
/// same number.
const MOST: i64 = 64;

/// The longest name or purpose in bytes. A longer text was not written by this crate.
pub(crate) const TEXT_MAX: usize = 256;

/// The prefix of the key.
pub const DESCRIPTION: &str = "leasehold_holders";

/// The description of one hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescribedHold<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) field: &'a Field,
    /// The time since the grant.
    pub(crate) age: Duration,
    pub(crate) text: &'a Arc<str>,
}

/// One call that describes many holds.
pub(crate) fn describe(holds: &[DescribedHold<'_>]) -> Call {
    let (mut keys, mut args) = (Keys::new(), Args::new());
    args.push(Arg::Int(MOST));
    for said in holds {
        let Some(key) = said.resource.description_key() else {
            continue;
        };
        keys.extend([said.resource.held_key(), key]);
        args.extend([
            said.field.clone().into(),
            ms(said.age),
            said.text.clone().into(),
        ]);
    }
    Call::new(&DESCRIBE, keys, args)
}

/// Joins a name and a purpose. Neither contains a line feed.
pub(crate) fn text(name: Option<&str>, purpose: Option<&str>) -> Arc<str> {
    Arc::from(format!(
        "{}\n{}",
        name.unwrap_or_default(),
        purpose.unwrap_or_default()
    ))
}

/// Fills a holder from [`text`]. Anybody may have written it, and it ends up in logs and on
/// terminals.
pub(crate) fn tell(holder: &mut Holder, text: &str) {
    (holder.name, holder.purpose) = (fitting(text.split('\n').next()), purpose_in(text));
}

/// The purpose in [`text`].
pub(crate) fn purpose_in(text: &str) -> Option<String> {
    fitting(text.split_once('\n').map(|(_, purpose)| purpose))
}

/// A name or purpose, if this crate could have written it.
pub(super) fn fitting<'a>(part: impl Into<Option<&'a str>>) -> Option<String> {
    let fits =
        |part: &&str| (1..=TEXT_MAX).contains(&part.len()) && !part.chars().any(char::is_control);
    part.into().filter(fits).map(str::to_owned)
}

/// Fills each holder from its description, as `described.lua` returns it.
pub fn tell_all(holders: &mut [Holder], said: &[Value]) {
    let Some((Value::Int(now_ms), said)) = said.split_first() else {
        return;
    };
    for pair in said.chunks(2) {
        let [Value::Text(owner), Value::Text(said)] = pair else {
            return;
        };
        let Some((since_ms, text)) = said.split_once('\n') else {
            continue;
        };
        let Ok(since_ms) = since_ms.parse::<i64>() else {
            continue;
        };
        for holder in holders.iter_mut().filter(|holder| holder.owner == *owner) {
            tell(holder, text);
            let age_ms = u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0);
            // Not every user has the right to ask for the time.
            holder.held_for = (*now_ms >= 0).then(|| Duration::from_millis(age_ms));
        }
    }
}

impl Resource {
    /// False for a string lock whose description key would be in another slot.
    pub(crate) fn can_be_described(&self) -> bool {
        slot_fault(&self.key).is_none()
    }

    /// The key with the fields of its holders.
    fn held_key(&self) -> Arc<str> {
        match self.kind {
            Kind::Semaphore => self.extra_keys[0].clone(),
            _ => self.key.clone(),
        }
    }

    /// The key of the descriptions.
    pub(super) fn description_key(&self) -> Option<Arc<str>> {
        self.can_be_described()
            .then(|| KeyName::Ours(DESCRIPTION).of(&self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_back() {
        let said = |text: &str| Value::Text(text.to_owned());
        let holder = |owner: &str| Holder {
            owner: owner.to_owned(),
            ..Holder::default()
        };
        let mut holders = [holder("a:1"), holder("a:2"), holder("a:3")];
        let reply = [
            Value::Int(5_000),
            said("a:1"),
            said(&format!("2000\n{}", text(Some("billing"), Some("nightly")))),
            said("gone:7"),
            said("1\nx\ny"),
            said("a:2"),
            // The clock of its writer was ahead.
            said(&format!("9000\n{}", text(None, None))),
            said("a:3"),
            said("no number\nx\ny"),
        ];
        tell_all(&mut holders, &reply);
        let [first, second, third] = holders;
        assert_eq!(
            (first.name.as_deref(), first.purpose.as_deref()),
            (Some("billing"), Some("nightly"))
        );
        assert_eq!(first.held_for, Some(Duration::from_secs(3)));
        assert_eq!(
            (second.name, second.purpose, second.held_for),
            (None, None, Some(Duration::ZERO))
        );
        assert_eq!(third, holder("a:3"));
    }

    #[test]
    fn a_lock_in_another_slot_is_not_described() {
        let key = |name| {
            Resource::new(Kind::String, "", name)
                .expect("a name")
                .description_key()
        };
        assert_eq!(key("a").as_deref(), Some("leasehold_holders:{a}"));
        assert_eq!(key("{a}").as_deref(), Some("leasehold_holders::{a}"));
        assert_eq!(key("a{b"), None);
    }
}
