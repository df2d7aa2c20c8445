//! The rights that the client's user lacks for its uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold::ConfigError;
use leasehold::parts::{DESCRIPTION, KeyName, Kind, Resource};
use leasehold_transport::{CallError, DeploymentKind, Value};

use super::ask::Ask;
use super::commands::{self, Use};
use super::node::Rights;

/// What is needed, and by which uses.
type UsesOf<T> = BTreeMap<T, BTreeSet<Use>>;

/// The uses of the client, with a lock to check them for.
#[derive(Clone, Debug)]
pub(super) struct NeededRights {
    uses: Vec<Use>,
    /// The key of the lock, and the keys and channels that belong to it, with the uses that need
    /// them.
    key: String,
    further_keys: UsesOf<String>,
    channels: UsesOf<String>,
    /// A channel like that of a waiter in a fair queue. No waiter listens to this one.
    pub(super) channel: Arc<str>,
}

impl NeededRights {
    /// Rights to keys and channels are checked for a lock of this name.
    pub(super) fn new(uses: &[Use], prefix: &str, name: &str) -> Result<Self, ConfigError> {
        let key = Resource::new(Kind::Lock, prefix, name)?.key.to_string();
        let (mut further_keys, mut channels) = (UsesOf::new(), UsesOf::new());
        let add = |to: &mut UsesOf<String>, what: &str, use_| {
            to.entry(what.to_owned()).or_default().insert(use_);
        };
        for &use_ in uses {
            let Some(kind) = use_.kind() else {
                if use_ == Use::DescribeHolds {
                    add(
                        &mut further_keys,
                        &KeyName::Ours(DESCRIPTION).of(&key),
                        use_,
                    );
                }
                continue;
            };
            let resource = Resource::new(kind, prefix, name)?;
            for extra in &resource.extra_keys {
                add(&mut further_keys, extra, use_);
            }
            if !kind.is_lock() {
                add(&mut further_keys, &resource.reply_key("preflight"), use_);
            }
            if kind != Kind::String {
                add(&mut channels, &resource.channel_of("preflight"), use_);
            }
        }
        let channel = Resource::new(Kind::Fair, prefix, name)?.channel_of("preflight");
        Ok(NeededRights {
            channel,
            uses: uses.to_vec(),
            key,
            further_keys,
            channels,
        })
    }

    /// One question for each command on the key, for each extra key, and for each channel.
    ///
    /// `sent` are the commands that the client sends besides its scripts. `wakes` are the commands
    /// with which it publishes to a channel and listens to it.
    fn questions(
        &self,
        sent: &[&'static str],
        wakes: impl Fn(&str) -> &'static [&'static str],
    ) -> Vec<Question> {
        let all: BTreeSet<_> = self.uses.iter().copied().collect();
        let mut commands = UsesOf::new();
        for &use_ in &self.uses {
            for command in use_.commands() {
                commands
                    .entry(command)
                    .or_insert_with(BTreeSet::new)
                    .insert(use_);
            }
        }
        commands.extend(sent.iter().map(|&command| (command, all.clone())));
        let mut questions: Vec<_> = commands
            .iter()
            .map(|(command, uses)| Question::command(command, &self.key, uses))
            .collect();
        // The scripts write to the extra keys of a kind.
        let write = ["del", "set", "hset"]
            .into_iter()
            .find(|command| commands.contains_key(command));
        if let Some(write) = write {
            let of = |(key, uses): (&String, &_)| Question::further_key(write, key, uses);
            questions.extend(self.further_keys.iter().map(of));
        }
        for (channel, uses) in &self.channels {
            let of = |command: &&str| Question::channel(command, channel, uses);
            questions.extend(wakes(channel).iter().map(of));
        }
        questions
    }
}

/// One question, and what is missing if the answer is no.
#[derive(Debug)]
struct Question {
    words: Vec<String>,
    missing: String,
    /// Whether it is about a command on the key of a lock.
    on_key: bool,
    /// The uses that do not work if the answer is no.
    uses: BTreeSet<Use>,
}

impl Question {
    fn command(command: &str, key: &str, uses: &BTreeSet<Use>) -> Self {
        let (words, on_key) = commands::question(command, key, "");
        Question {
            words,
            missing: command.to_owned(),
            on_key,
            uses: uses.clone(),
        }
    }

    fn further_key(command: &str, key: &str, uses: &BTreeSet<Use>) -> Self {
        Question {
            missing: format!("the key {key}"),
            on_key: false,
            ..Question::command(command, key, uses)
        }
    }

    fn channel(command: &str, channel: &str, uses: &BTreeSet<Use>) -> Self {
        let (words, on_key) = commands::question(command, "", channel);
        let missing = words[..words.len().min(2)].join(" ");
        Question {
            words,
            missing,
            on_key,
            uses: uses.clone(),
        }
    }
}

pub(super) async fn ask(ask: Ask<'_>, needed: &NeededRights) -> Rights {
    let transport = ask.parts.transport();
    let sent = match transport.kind() {
        DeploymentKind::Cluster => commands::IN_A_CLUSTER,
        DeploymentKind::Sentinel => commands::WITH_SENTINELS,
        _ => &[],
    };
    // By channel, because a channel in a different slot from its lock is published to all nodes.
    let wakes = |channel: &str| match transport.publish_command(|| channel, &needed.key) {
        "SPUBLISH" => commands::TO_WAKE_A_SHARD,
        _ => commands::TO_WAKE,
    };
    let mut sent = [commands::ALWAYS, sent].concat();
    let copies = ask.parts.copies();
    sent.extend(copies.map(|_| "wait"));
    let questions = needed.questions(&sent, wakes);
    if let Some(reason) = transport.abilities(ask.node).why_no_scripts() {
        return Rights::Unknown { reason };
    }
    let mut words = vec!["EVAL".to_owned(), commands::SCRIPT.to_owned()];
    if transport.wants_keys() {
        words.extend(["1".to_owned(), needed.key.clone()]);
    } else {
        words.push("0".to_owned());
    }
    for question in &questions {
        words.push(question.words.len().to_string());
        words.extend(question.words.iter().cloned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let reason = match ask.command(&words).await {
        Ok(Value::Array(answers)) if answers.len() == questions.len() => {
            return read(&questions, &answers, &needed.key);
        }
        Ok(_) => "unexpected reply".to_owned(),
        Err(CallError::Refused(fault)) if fault.is_missing_right() => {
            return Rights::Known {
                missing: vec!["eval".to_owned()],
                unusable: needed.uses.iter().copied().collect(),
            };
        }
        Err(error) => error.into_fault().0,
    };
    Rights::Unknown { reason }
}

fn read(questions: &[Question], answers: &[Value], key: &str) -> Rights {
    if answers.iter().all(|answer| *answer == Value::Int(-1)) {
        let reason = "servers report rights from Redis 7.0 on";
        return Rights::Unknown {
            reason: reason.to_owned(),
        };
    }
    let answered = questions.iter().zip(answers);
    // If nothing is allowed on the key, name the key instead of each command.
    let mut on_key = answered
        .clone()
        .filter(|(question, _)| question.on_key)
        .peekable();
    let key_refused = on_key.peek().is_some() && on_key.all(|(_, answer)| *answer == Value::Int(0));
    let mut missing: Vec<_> = answered
        .filter(|(question, answer)| **answer == Value::Int(0) && !(question.on_key && key_refused))
        .map(|(question, _)| question.missing.clone())
        .collect();
    if key_refused {
        missing.insert(0, format!("the key {key}"));
    }
    missing.dedup();
    let refused = questions
        .iter()
        .zip(answers)
        .filter(|(_, answer)| **answer == Value::Int(0));
    let unusable = refused.flat_map(|(question, _)| question.uses.iter().copied());
    Rights::Known {
        missing,
        unusable: unusable.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(needed: &NeededRights, allowed: impl Fn(&Question) -> i64) -> Rights {
        let questions = needed.questions(commands::ALWAYS, |_| commands::TO_WAKE);
        let answers: Vec<_> = questions.iter().map(|q| Value::Int(allowed(q))).collect();
        read(&questions, &answers, &needed.key)
    }

    fn needed(uses: &[Use]) -> NeededRights {
        NeededRights::new(uses, "shop:", "a").expect("a good name")
    }

    fn missing(rights: Rights) -> Vec<String> {
        match rights {
            Rights::Known { missing, .. } => missing,
            Rights::Unknown { reason } => vec![reason],
        }
    }

    #[test]
    fn a_command_a_key_and_a_channel_are_missing_by_their_names() {
        let fair = needed(&[Use::FairLock]);
        assert_eq!(missing(answers(&fair, |_| 1)), Vec::<String>::new());
        let without = |word: &'static str| {
            missing(answers(&fair, |q| {
                i64::from(!q.words.iter().any(|part| part == word))
            }))
        };
        assert_eq!(without("lrem"), ["lrem"]);
        assert_eq!(
            without("publish"),
            ["publish redisson_lock__channel:{shop:a}:preflight"]
        );
        assert_eq!(
            without("redisson_lock_queue:{shop:a}"),
            ["the key redisson_lock_queue:{shop:a}"]
        );
        // One entry, not twenty commands.
        assert_eq!(without("shop:a"), ["the key shop:a"]);
    }

    #[test]
    fn a_missing_right_concerns_the_uses_that_need_it() {
        let uses = [Use::Lock, Use::FairLock, Use::FencedLock, Use::StringLock];
        let unusable = |word: &'static str| {
            let without = |q: &Question| i64::from(!q.words.iter().any(|part| part == word));
            match answers(&needed(&uses), without) {
                Rights::Known { unusable, .. } => Vec::from_iter(unusable),
                Rights::Unknown { reason } => panic!("{reason}"),
            }
        };
        assert_eq!(unusable("nothing"), []);
        assert_eq!(unusable("incr"), [Use::FencedLock]);
        assert_eq!(unusable("redisson_lock_queue:{shop:a}"), [Use::FairLock]);
        assert_eq!(unusable("publish"), uses[..3], "string locks wake nobody");
        assert_eq!(unusable("evalsha"), uses);
        assert_eq!(unusable("shop:a"), uses);
    }

    #[test]
    fn rights_that_a_server_cannot_report_are_unknown() {
        let rights = answers(&needed(&Use::ALL), |_| -1);
        assert!(matches!(rights, Rights::Unknown { .. }), "{rights:?}");
    }

    #[test]
    fn a_string_lock_needs_no_channel() {
        assert!(needed(&[Use::StringLock]).channels.is_empty());
    }
}
