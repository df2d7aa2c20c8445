//! The rights that the client's user lacks for its uses.

use super::asked::Asked;
use super::node::Rights;
use crate::error::ConfigError;
use crate::protocol::Value;
use crate::protocol::description::description_key;
use crate::protocol::keys::KeyName;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::rights::{self, Use};
use crate::transport::{CallError, DeploymentKind};

/// What the client will be used for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    uses: Vec<Use>,
    /// The key of a lock, and the keys and channels that belong to it.
    key: String,
    further_keys: Vec<String>,
    channels: Vec<String>,
}

impl Wanted {
    /// Rights to keys and channels are checked for a lock of this name.
    pub(super) fn new(uses: &[Use], prefix: &str, name: &str) -> Result<Self, ConfigError> {
        let key = Resource::new(Kind::Lock, prefix, name)?.key.to_string();
        let mut wanted = Wanted {
            uses: uses.to_vec(),
            key,
            further_keys: vec![],
            channels: vec![],
        };
        for &use_ in uses {
            match use_.kind() {
                Some(kind) => {
                    let resource = Resource::new(kind, prefix, name)?;
                    let extra = resource.extra_keys.iter().map(ToString::to_string);
                    wanted.further_keys.extend(extra);
                    if !kind.is_lock() {
                        wanted
                            .further_keys
                            .push(resource.reply_key("preflight").to_string());
                    }
                    if kind != Kind::String {
                        wanted
                            .channels
                            .push(resource.channel_of("preflight").to_string());
                    }
                }
                None if use_ == Use::SetFenced => {
                    let fence = KeyName::Ours("leasehold_fence").of(&wanted.key);
                    wanted.further_keys.push(fence.to_string());
                }
                None if use_ == Use::DescribeHolds => {
                    wanted
                        .further_keys
                        .push(description_key(&wanted.key).to_string());
                }
                None => {}
            }
        }
        for list in [&mut wanted.further_keys, &mut wanted.channels] {
            list.sort_unstable();
            list.dedup();
        }
        Ok(wanted)
    }

    /// One question for each command on the key, one for each extra key, and one for each channel.
    fn questions(
        &self,
        sent: &[&'static str],
        wakes: impl Fn(&str) -> &'static [&'static str],
    ) -> Vec<Question> {
        let mut commands: Vec<_> = self.uses.iter().flat_map(|use_| use_.commands()).collect();
        commands.extend(sent);
        commands.sort_unstable();
        commands.dedup();
        let mut questions: Vec<_> = commands
            .iter()
            .map(|command| Question::command(command, &self.key))
            .collect();
        // The scripts write to the extra keys of a kind.
        if let Some(writes) = ["del", "set", "hset"]
            .iter()
            .find(|command| commands.contains(command))
        {
            let of = |key: &String| Question::further_key(writes, key);
            questions.extend(self.further_keys.iter().map(of));
        }
        for channel in &self.channels {
            questions.extend(
                wakes(channel)
                    .iter()
                    .map(|command| Question::channel(command, channel)),
            );
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
}

impl Question {
    fn command(command: &str, key: &str) -> Self {
        let (words, on_key) = rights::question(command, key, "");
        Question {
            words,
            missing: command.to_owned(),
            on_key,
        }
    }

    fn further_key(command: &str, key: &str) -> Self {
        let (words, _) = rights::question(command, key, "");
        Question {
            words,
            missing: format!("the key {key}"),
            on_key: false,
        }
    }

    fn channel(command: &str, channel: &str) -> Self {
        let (words, _) = rights::question(command, "", channel);
        let missing = words[..words.len().min(2)].join(" ");
        Question {
            words,
            missing,
            on_key: false,
        }
    }
}

pub(super) async fn ask(asked: Asked<'_>, wanted: &Wanted) -> Rights {
    let transport = &asked.session.transport;
    let sent = match transport.kind() {
        DeploymentKind::Cluster => rights::IN_A_CLUSTER,
        DeploymentKind::Sentinel => rights::WITH_SENTINELS,
        _ => &[],
    };
    // By channel, because a channel in a different slot from its lock is published to all nodes.
    let wakes = |channel: &str| match transport.publish_command(channel, &wanted.key) {
        "SPUBLISH" => rights::TO_WAKE_A_SHARD,
        _ => rights::TO_WAKE,
    };
    let mut sent = [rights::ALWAYS, sent].concat();
    sent.extend(asked.session.settings.durability.map(|durability| {
        if durability.needs_disk() {
            "waitaof"
        } else {
            "wait"
        }
    }));
    let questions = wanted.questions(&sent, wakes);
    let mut words = vec!["EVAL".to_owned(), rights::SCRIPT.to_owned(), "0".to_owned()];
    for question in &questions {
        words.push(question.words.len().to_string());
        words.extend(question.words.iter().cloned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match asked.command(&words).await {
        Ok(Value::Array(answers)) if answers.len() == questions.len() => {
            read(&questions, &answers, &wanted.key)
        }
        Ok(_) => Rights::Unknown {
            reason: "an odd answer".to_owned(),
        },
        Err(CallError::Refused(fault)) if fault.0.starts_with("NOPERM") => Rights::Known {
            missing: vec!["eval".to_owned()],
        },
        Err(
            CallError::Refused(fault) | CallError::NotApplied(fault) | CallError::Unknown(fault),
        ) => Rights::Unknown { reason: fault.0 },
        Err(CallError::NotDurable { .. } | CallError::Forked) => Rights::Unknown {
            reason: "an odd error".to_owned(),
        },
        Err(CallError::Closed) => Rights::Unknown {
            reason: "the client is closed".to_owned(),
        },
    }
}

fn read(questions: &[Question], answers: &[Value], key: &str) -> Rights {
    if answers.iter().all(|answer| *answer == Value::Int(-1)) {
        let reason = "servers tell a user its rights from Redis 7.0 on";
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
    Rights::Known { missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(wanted: &Wanted, allowed: impl Fn(&Question) -> i64) -> Rights {
        let questions = wanted.questions(rights::ALWAYS, |_| rights::TO_WAKE);
        let answers: Vec<_> = questions.iter().map(|q| Value::Int(allowed(q))).collect();
        read(&questions, &answers, &wanted.key)
    }

    fn wanted(uses: &[Use]) -> Wanted {
        Wanted::new(uses, "shop:", "a").expect("a good name")
    }

    fn missing(rights: Rights) -> Vec<String> {
        match rights {
            Rights::Known { missing } => missing,
            Rights::Unknown { reason } => vec![reason],
        }
    }

    #[test]
    fn a_command_a_key_and_a_channel_are_missing_by_their_names() {
        let fair = wanted(&[Use::FairLock]);
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
    fn a_server_that_cannot_tell_is_no_good_news() {
        let rights = answers(&wanted(&Use::ALL), |_| -1);
        assert!(matches!(rights, Rights::Unknown { .. }), "{rights:?}");
    }

    #[test]
    fn a_string_lock_needs_no_channel() {
        assert!(wanted(&[Use::StringLock]).channels.is_empty());
        assert_eq!(
            wanted(&[Use::SetFenced]).further_keys,
            ["leasehold_fence:{shop:a}"]
        );
    }
}
