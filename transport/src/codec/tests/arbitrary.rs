//! Arbitrary bytes in arbitrary pieces, and valid replies with a few changed bytes. The decoder
//! does not panic, comes to an end, and returns the same frames however the bytes are split.
//! `LEASEHOLD_FUZZ` is the number of cases.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

fn config() -> ProptestConfig {
    let cases = std::env::var("LEASEHOLD_FUZZ")
        .ok()
        .map(|text| text.parse().expect("a number"));
    ProptestConfig {
        cases: cases.unwrap_or(3000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A valid reply, and its bytes.
#[derive(Clone, Debug)]
enum Tree {
    /// A type without elements, and its value or the text of an error.
    Leaf(Vec<u8>, Result<Value, String>),
    /// The letter of an array, a set or a map, and the elements.
    Items(u8, Vec<Tree>),
    /// An attribute, and the element that follows it.
    Attribute(Box<[Tree; 2]>),
}

impl Tree {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Tree::Leaf(bytes, _) => out.extend_from_slice(bytes),
            Tree::Items(letter, items) => {
                let count = if *letter == b'%' {
                    items.len() / 2
                } else {
                    items.len()
                };
                out.push(*letter);
                out.extend_from_slice(format!("{count}\r\n").as_bytes());
                for item in items {
                    item.write(out);
                }
            }
            Tree::Attribute(parts) => {
                out.extend_from_slice(b"|1\r\n+key\r\n");
                parts.iter().for_each(|part| part.write(out));
            }
        }
    }

    fn value(&self) -> Result<Value, String> {
        match self {
            Tree::Leaf(_, value) => value.clone(),
            Tree::Items(_, items) => items
                .iter()
                .map(Tree::value)
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Tree::Attribute(parts) => parts[1].value(),
        }
    }
}

fn leaf() -> impl Strategy<Value = Tree> {
    let content = vec(any::<u8>(), 0..12).boxed();
    prop_oneof![
        4 => any::<i64>().prop_map(|number| {
            Tree::Leaf(format!(":{number}\r\n").into_bytes(), Ok(Value::Int(number)))
        }),
        2 => select(vec!["_\r\n", "$-1\r\n", "*-1\r\n"])
            .prop_map(|nil| Tree::Leaf(nil.into(), Ok(Value::Nil))),
        1 => any::<bool>().prop_map(|truth| {
            Tree::Leaf(if truth { "#t\r\n" } else { "#f\r\n" }.into(), Ok(Value::Int(truth.into())))
        }),
        1 => any::<u64>().prop_map(|number| {
            Tree::Leaf(format!("({number}\r\n").into_bytes(), Ok(Value::Text(number.to_string())))
        }),
        4 => content.clone().prop_map(|bytes| {
            let header = format!("${}\r\n", bytes.len()).into_bytes();
            let expected = Value::Text(String::from_utf8_lossy(&bytes).into_owned());
            Tree::Leaf([&header[..], &bytes, b"\r\n"].concat(), Ok(expected))
        }),
        1 => content.clone().prop_map(|bytes| {
            let header = format!("={}\r\ntxt:", bytes.len() + 4).into_bytes();
            let expected = Value::Text(String::from_utf8_lossy(&bytes).into_owned());
            Tree::Leaf([&header[..], &bytes, b"\r\n"].concat(), Ok(expected))
        }),
        2 => "[ -~]{0,12}".prop_map(|line| {
            Tree::Leaf(format!("+{line}\r\n").into_bytes(), Ok(Value::Text(line)))
        }),
        1 => "[ -~]{0,12}".prop_map(|line| {
            Tree::Leaf(format!("-{line}\r\n").into_bytes(), Err(line))
        }),
        1 => "[ -~]{0,12}".prop_map(|line| {
            Tree::Leaf(format!("!{}\r\n{line}\r\n", line.len()).into_bytes(), Err(line))
        }),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            3 => (select(vec![b'*', b'~']), vec(inner.clone(), 0..6))
                .prop_map(|(letter, items)| Tree::Items(letter, items)),
            1 => vec(inner.clone(), 0..4).prop_map(|mut items| {
                items.truncate(items.len() / 2 * 2);
                Tree::Items(b'%', items)
            }),
            1 => [inner.clone(), inner].prop_map(|parts| Tree::Attribute(Box::new(parts))),
        ]
    })
}

/// A sequence of replies and pushes. A push contains no errors.
fn stream() -> impl Strategy<Value = (Vec<u8>, Vec<Incoming>)> {
    vec((any::<bool>(), tree()), 1..4).prop_map(|trees| {
        let (mut bytes, mut frames) = (Vec::new(), Vec::new());
        for (push, tree) in trees {
            match (push, tree) {
                (true, Tree::Items(b'*', items))
                    if items.iter().all(|item| item.value().is_ok()) =>
                {
                    Tree::Items(b'>', items.clone()).write(&mut bytes);
                    frames.push(Incoming::Push(items.iter().flat_map(Tree::value).collect()));
                }
                (_, tree) => {
                    tree.write(&mut bytes);
                    frames.push(Incoming::Reply(tree.value()));
                }
            }
        }
        (bytes, frames)
    })
}

/// Frames on a connection with subscriptions in RESP2: messages, confirmations, and replies to
/// PING.
fn resp2() -> impl Strategy<Value = (Vec<u8>, Vec<Incoming>)> {
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let word = "[ -~]{0,12}";
    let frame = prop_oneof![
        (select(vec!["message", "smessage"]), word, word).prop_map(
            move |(kind, channel, payload)| {
                let words = [kind, &channel, &payload];
                let bytes = format!("*3\r\n{}", words.map(bulk).concat());
                (bytes, Incoming::Push(words.map(text).into()))
            }
        ),
        (
            select(vec![
                "subscribe",
                "ssubscribe",
                "unsubscribe",
                "sunsubscribe"
            ]),
            word,
            0..99_i64
        )
            .prop_map(move |(kind, channel, count)| {
                let bytes = format!("*3\r\n{}{}:{count}\r\n", bulk(kind), bulk(&channel));
                let push = vec![text(kind), text(&channel), Value::Int(count)];
                (bytes, Incoming::Push(push))
            }),
        (0..99_u64).prop_map(move |number| {
            let number = number.to_string();
            let bytes = format!("*2\r\n{}{}", bulk("pong"), bulk(&number));
            (bytes, Incoming::Reply(Ok(text(&number))))
        }),
        word.prop_map(|line| (format!("-{line}\r\n"), Incoming::Reply(Err(line)))),
    ];
    vec(frame, 1..8).prop_map(|frames| {
        let (bytes, frames): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        (bytes.concat().into_bytes(), frames)
    })
}

/// Bytes that resemble RESP3, with every kind of problematic length.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let letter = select(b"+-:_,#($!=*~>%|;.H".to_vec());
    let number = prop_oneof![
        4 => (0..6_i64).prop_map(|number| number.to_string()),
        1 => select(vec!["-1", "-5", "?", "", "007", "+1", "1048576", "67108864", "2147483647",
            "99999999999", "9223372036854775807", "18446744073709551615", "1e3", "txt:"])
            .prop_map(str::to_owned),
    ];
    let end = select(vec!["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", ""]);
    let token = prop_oneof![
        6 => (letter, number, end).prop_map(|(letter, number, end)| {
            format!("{}{number}{end}", char::from(letter)).into_bytes()
        }),
        1 => select(vec!["abc\r\n", "txt:a\r\n", "\r\n", "t\r\n", "inf\r\n"]).prop_map(Vec::from),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        any::<Index>(),
        prop_oneof![any::<u8>(), select(b"0123456789-?\r\n*$|%>".to_vec())],
        0..3,
    );
    (stream(), vec(change, 1..4)).prop_map(|((mut bytes, _), changes)| {
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..4_usize, 1..60_usize], 1..6)
}

/// Bounded by the number of values and text that this many bytes can encode.
fn is_in_proportion(frames: &[Incoming], bytes: usize) -> bool {
    fn weight(value: &Value) -> usize {
        match value {
            Value::Nil | Value::Int(_) => 1,
            // A byte that is not UTF-8 becomes three bytes.
            Value::Text(text) => 1 + text.len() / 3,
            Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        }
    }
    let all = frames.iter().map(|frame| match frame {
        Incoming::Reply(Ok(value)) => weight(value),
        Incoming::Reply(Err(text)) => 1 + text.len() / 3,
        Incoming::Push(items) => 1 + items.iter().map(weight).sum::<usize>(),
    });
    all.sum::<usize>() <= bytes
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn valid_frames_are_decoded_unchanged((bytes, frames) in stream(), sizes in sizes()) {
        prop_assert_eq!(decoded(&bytes, &sizes), (frames, None));
    }

    #[test]
    fn messages_in_resp2_are_told_from_replies((bytes, expected) in resp2(), sizes in sizes()) {
        prop_assert_eq!(decoded_by(Pushes::Named, &bytes, &sizes), (expected, None));
    }

    #[test]
    fn splitting_frames_into_pieces_changes_nothing(
        bytes in prop_oneof![1 => vec(any::<u8>(), 0..80), 4 => soup(), 4 => mutated()],
        sizes in sizes(),
    ) {
        for pushes in [Pushes::Typed, Pushes::Named] {
            let once = decoded_by(pushes, &bytes, &[usize::MAX]);
            prop_assert!(is_in_proportion(&once.0, bytes.len()));
            prop_assert_eq!(decoded_by(pushes, &bytes, &sizes), once);
        }
    }
}
