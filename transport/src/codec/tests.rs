//! Each type of reply, each kind of hostile input, and the limits.

mod arbitrary;

use bytes::BytesMut;

use super::{DEPTH, Decoder, ELEMENTS, Incoming, Malformed, Pushes, REPLY_BYTES};
use crate::Value;

/// The outcome of a stream of bytes: the frames, and why no more can follow, if so.
type Decoded = (Vec<Incoming>, Option<Malformed>);

/// Decodes bytes that arrive in pieces. The sizes of the pieces repeat.
fn decoded(bytes: &[u8], sizes: &[usize]) -> Decoded {
    decoded_by(Pushes::Typed, bytes, sizes)
}

fn decoded_by(pushes: Pushes, bytes: &[u8], sizes: &[usize]) -> Decoded {
    let (mut decoder, mut buffer) = (Decoder::new(pushes), BytesMut::new());
    let (mut frames, mut rest) = (Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(*size));
        buffer.extend_from_slice(piece);
        loop {
            let capacity = buffer.capacity();
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(malformed) => return (frames, Some(malformed)),
            }
            assert!(
                buffer.capacity() < capacity,
                "a frame took nothing out of the buffer"
            );
        }
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    (frames, None)
}

fn whole(bytes: &[u8]) -> Decoded {
    decoded(bytes, &[usize::MAX])
}

fn reply(value: Value) -> Decoded {
    (vec![Incoming::Reply(Ok(value))], None)
}

fn refused(text: &str) -> Decoded {
    (vec![Incoming::Reply(Err(text.to_owned()))], None)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn array<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}

/// The bytes of every type, with its frame.
fn of_each_type() -> Vec<(&'static [u8], Decoded)> {
    use Value::{Int, Nil};
    let message = vec![text("message"), text("c"), text("0")];
    vec![
        (b":-12\r\n", reply(Int(-12))),
        (b"+OK\r\n", reply(text("OK"))),
        (b"+\r\n", reply(text(""))),
        (b"$5\r\na\r\nbc\r\n", reply(text("a\r\nbc"))),
        (b"$0\r\n\r\n", reply(text(""))),
        (b"$2\r\n\xffa\r\n", reply(text("\u{fffd}a"))),
        (b"+\xff\r\n", reply(text("\u{fffd}"))),
        (b"=7\r\ntxt:abc\r\n", reply(text("abc"))),
        (
            b"(12345678901234567890\r\n",
            reply(text("12345678901234567890")),
        ),
        (b",1.5\r\n", reply(text("1.5"))),
        (b",-inf\r\n", reply(text("-inf"))),
        (b"#t\r\n", reply(Int(1))),
        (b"#f\r\n", reply(Int(0))),
        (b"_\r\n", reply(Nil)),
        (b"$-1\r\n", reply(Nil)),
        (b"*-1\r\n", reply(Nil)),
        (b"*0\r\n", reply(array([]))),
        (
            b"*2\r\n:1\r\n*1\r\n_\r\n",
            reply(array([Int(1), array([Nil])])),
        ),
        (b"~2\r\n:1\r\n:1\r\n", reply(array([Int(1), Int(1)]))),
        (
            b"%2\r\n+b\r\n:1\r\n+a\r\n:2\r\n",
            reply(array([text("b"), Int(1), text("a"), Int(2)])),
        ),
        (
            b"%1\r\n*1\r\n:1\r\n#t\r\n",
            reply(array([array([Int(1)]), Int(1)])),
        ),
        (b"-ERR no\r\n", refused("ERR no")),
        (b"!6\r\nERR no\r\n", refused("ERR no")),
        (
            b"*3\r\n:1\r\n*1\r\n-ERR first\r\n-ERR second\r\n",
            refused("ERR first"),
        ),
        (
            b">3\r\n$7\r\nmessage\r\n+c\r\n+0\r\n",
            (vec![Incoming::Push(message)], None),
        ),
        (b">0\r\n", (vec![Incoming::Push(Vec::new())], None)),
        (b"|1\r\n+k\r\n*1\r\n+v\r\n:7\r\n", reply(Int(7))),
        (b"|0\r\n|1\r\n+k\r\n+v\r\n_\r\n", reply(Nil)),
        (
            b"*2\r\n:1\r\n|1\r\n+k\r\n+v\r\n:2\r\n",
            reply(array([Int(1), Int(2)])),
        ),
    ]
}

#[test]
fn each_type_is_read() {
    for (bytes, expected) in of_each_type() {
        assert_eq!(whole(bytes), expected, "{}", bytes.escape_ascii());
    }
}

/// On a connection with subscriptions in RESP2.
#[test]
fn arrays_that_name_a_push_are_pushes_in_resp2() {
    let words = |words: &[&str]| Value::Array(words.iter().map(|word| text(word)).collect());
    let push = |bytes: &str, kind: &str, channel: Value, last: Value| {
        let (expected, bytes) = (vec![text(kind), channel, last], bytes.as_bytes());
        let frames = decoded_by(Pushes::Named, bytes, &[1]);
        assert_eq!(frames, (vec![Incoming::Push(expected.clone())], None));
        // On other connections, it is a reply.
        assert_eq!(decoded(bytes, &[1]), reply(Value::Array(expected)));
    };
    for kind in ["message", "smessage"] {
        let head = format!("*3\r\n${}\r\n{kind}\r\n", kind.len());
        push(
            &format!("{head}$1\r\nc\r\n$1\r\nx\r\n"),
            kind,
            text("c"),
            text("x"),
        );
        push(
            &format!("{head}$0\r\n\r\n$0\r\n\r\n"),
            kind,
            text(""),
            text(""),
        );
    }
    for kind in ["subscribe", "ssubscribe", "unsubscribe", "sunsubscribe"] {
        let head = format!("*3\r\n${}\r\n{kind}\r\n", kind.len());
        push(
            &format!("{head}$1\r\nc\r\n:7\r\n"),
            kind,
            text("c"),
            Value::Int(7),
        );
        push(
            &format!("{head}$-1\r\n:0\r\n"),
            kind,
            Value::Nil,
            Value::Int(0),
        );
    }
    for (bytes, expected) in [
        (&b"*2\r\n$4\r\npong\r\n$1\r\n7\r\n"[..], text("7")),
        (b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", text("PONG")),
        (b"$1\r\n7\r\n", text("7")),
        (b"*2\r\n+message\r\n+c\r\n", words(&["message", "c"])),
        (b"*3\r\n+ping\r\n+a\r\n+b\r\n", words(&["ping", "a", "b"])),
    ] {
        assert_eq!(decoded_by(Pushes::Named, bytes, &[1]), reply(expected));
    }
}

/// Checks that these bytes are refused with this text, however they are split.
fn is_malformed(bytes: &[u8], reason: &str) {
    for sizes in [usize::MAX, 1000, 1] {
        let (frames, malformed) = decoded(bytes, &[sizes]);
        let begin = bytes[..bytes.len().min(30)].escape_ascii();
        assert_eq!(frames, [], "{begin}");
        let Malformed(text) = malformed.unwrap_or_else(|| panic!("{begin} is not refused"));
        assert!(text.contains(reason), "{begin}: {text}");
    }
}

#[test]
fn a_reply_nested_too_deeply_is_refused() {
    for header in [
        "*1\r\n",
        "~1\r\n",
        ">1\r\n",
        "%1\r\n",
        "|1\r\n",
        "*1\r\n|1\r\n",
    ] {
        is_malformed(
            header.repeat(1_000_000).as_bytes(),
            "more than 32 nested arrays",
        );
    }
    let deep = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    let nested = (0..DEPTH).fold(Value::Int(1), |value, _| array([value]));
    assert_eq!(whole(&deep(DEPTH)), reply(nested));
    is_malformed(&deep(DEPTH + 1), "more than 32 nested arrays");
}

#[test]
fn a_reply_that_announces_too_much_is_refused_before_it_arrives() {
    for header in [
        "*2147483647",
        "*1048577",
        "%2147483647",
        "%524289",
        "~9999999",
        ">9999999",
    ] {
        is_malformed(
            format!("{header}\r\n").as_bytes(),
            "more than 1048576 elements",
        );
    }
    is_malformed(b"%18446744073709551615\r\n", "more than 1048576 elements");
    is_malformed(b"|9223372036854775808\r\n", "more than 1048576 elements");
    for header in [
        "$99999999999",
        "$67108864",
        "=9223372036854775807",
        "!18446744073709551615",
    ] {
        is_malformed(
            format!("{header}\r\nab").as_bytes(),
            "more than 67108864 bytes",
        );
    }
}

#[test]
fn the_limit_counts_the_elements_of_all_depths() {
    let inner = format!("*{}\r\n", ELEMENTS - 2);
    let nils = "_\r\n".repeat(ELEMENTS - 2);
    assert_eq!(
        whole(format!("*2\r\n{inner}{nils}:1\r\n").as_bytes())
            .0
            .len(),
        1
    );
    let (_, malformed) = whole(format!("*2\r\n{inner}{nils}*1\r\n").as_bytes());
    assert_eq!(
        malformed,
        Some(Malformed(format!(
            "a reply of more than {ELEMENTS} elements"
        )))
    );
    let half = format!("${}\r\n", REPLY_BYTES / 2).into_bytes();
    let both = [
        b"*2\r\n",
        &half[..],
        &vec![b'a'; REPLY_BYTES / 2],
        b"\r\n",
        &half,
    ]
    .concat();
    let (_, malformed) = whole(&both);
    assert_eq!(
        malformed,
        Some(Malformed(format!(
            "a reply of more than {REPLY_BYTES} bytes"
        )))
    );
}

#[test]
fn an_invalid_length_is_refused() {
    for header in [
        "*-5", "$-5", "%-1", "|-1", "~-1", ">-1", "=-1", "!-1", "*", "$", "*1x", "$ 1",
    ] {
        is_malformed(format!("{header}\r\n:1\r\n").as_bytes(), "a length of");
    }
    is_malformed(
        b"*99999999999999999999999\r\n",
        "a length of \"99999999999999999999\"",
    );
    is_malformed(b"$+1\r\na\r\n", "invalid length");
}

#[test]
fn a_streamed_reply_is_refused() {
    for begin in ["$?", "*?", "~?", "%?", "|?", ">?", "!?", "=?", ";4", "."] {
        is_malformed(
            format!("{begin}\r\n;1\r\na\r\n;0\r\n").as_bytes(),
            "a streamed reply",
        );
    }
    is_malformed(b"*2\r\n:1\r\n$?\r\n", "a streamed reply");
}

#[test]
fn bytes_that_are_not_resp3_are_refused() {
    is_malformed(b"\x00", "begins with byte 0x00");
    is_malformed(b"HTTP/1.1 400 Bad Request\r\n", "begins with byte 0x48");
    is_malformed(b"*1\r\n\r\n", "begins with byte 0x0d");
    is_malformed(b":1a\r\n", "not RESP3");
    is_malformed(b"_x\r\n", "not RESP3");
    is_malformed(b"#x\r\n", "not RESP3");
    is_malformed(b",x\r\n", "not RESP3");
    is_malformed(b"(x\r\n", "not RESP3");
    is_malformed(b"$2\r\nabXY:1\r\n", "not RESP3");
    is_malformed(b"=3\r\nabc\r\n", "not RESP3");
    is_malformed(b">2\r\n+message\r\n-ERR\r\n", "an error in a push: ERR");
}

#[test]
fn a_line_without_an_end_is_refused() {
    is_malformed(
        &[b"+", vec![b'a'; 70_000].as_slice()].concat(),
        "a line of more than 65536 bytes",
    );
    is_malformed(
        &[b"*", vec![b'0'; 70_000].as_slice()].concat(),
        "a line of more than 65536 bytes",
    );
    is_malformed(
        &[b"+", vec![b'\r'; 70_000].as_slice()].concat(),
        "a line of more than 65536 bytes",
    );
    let longest = "a".repeat(65_536);
    let line = format!("+{longest}\r\n");
    assert_eq!(whole(line.as_bytes()), reply(text(&longest)));
    assert_eq!(decoded(line.as_bytes(), &[1]), reply(text(&longest)));
    is_malformed(
        format!("+{longest}a\r\n").as_bytes(),
        "a line of more than 65536 bytes",
    );
}

/// Parsing from the start for each piece would take 10^10 steps.
#[test]
fn each_byte_of_a_large_reply_is_searched_once() {
    let items = "$5\r\nabcde\r\n".repeat(100_000);
    let (frames, malformed) = decoded(format!("*100000\r\n{items}").as_bytes(), &[7]);
    assert_eq!((frames.len(), malformed), (1, None));
}

#[test]
fn a_buffer_is_reused() {
    let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::with_capacity(4096));
    for _ in 0..10_000 {
        buffer.extend_from_slice(&b"$5\r\nabcde\r\n".repeat(50));
        while decoder.decode(&mut buffer).unwrap().is_some() {}
    }
    buffer.reserve(1);
    assert!(buffer.capacity() <= 8192, "{}", buffer.capacity());
}
