//! Wrong replies of a server.

use arbitrary::{Result, Unstructured};

/// A wrong reply.
#[derive(Clone, Debug)]
pub(crate) enum Junk {
    /// These bytes instead of the correct reply.
    Instead(Vec<u8>),
    /// These bytes before the correct reply.
    Before(Vec<u8>),
    /// The correct reply with some changed bytes.
    Changed(Vec<Change>),
    /// The number at this place of the reply is replaced.
    Number(usize, String),
    /// The correct reply twice.
    Twice,
    /// No reply.
    Silence,
    /// The reply is cut off after this many bytes, and the connection closed.
    Cut(usize),
}

/// A change of a few bytes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    at: usize,
    removed: usize,
    added: Vec<u8>,
}

/// How often the server replies correctly, and the wrong reply that follows.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) after: u8,
    pub(crate) junk: Junk,
}

const NUMBERS: [&str; 22] = [
    "0",
    "-1",
    "-2",
    "1",
    "+1",
    "007",
    "1e3",
    "",
    "?",
    "nan",
    "16383",
    "16384",
    "65535",
    "65536",
    "1048577",
    "2147483648",
    "99999999999",
    "1073741824",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
];

const ERRORS: [&str; 26] = [
    "MOVED 3999 10.0.0.7:6381",
    "MOVED 16384 10.0.0.7:6381",
    "MOVED 65535 :6381",
    "MOVED 1 ?:0",
    "MOVED 0 [::1]:1",
    "MOVED 12 host:99999",
    "MOVED",
    "MOVED  ",
    "ASK 1 10.0.0.8:1",
    "ASK 99999 h:1",
    "ASK x \u{fffd}:7",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN The cluster is down",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "ERR Script attempted to access a non local key in a cluster node script",
    "NOSCRIPT No matching script. Please use EVAL.",
    "READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM this user has no permissions",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script.",
    "MISCONF Redis is configured to save RDB snapshots",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "",
];

const TEXTS: [&[u8]; 16] = [
    b"OK",
    b"master",
    b"message",
    b"smessage",
    b"subscribe",
    b"sunsubscribe",
    b"invalidate",
    b"0",
    b"1",
    b"redisson_lock__channel:{a}",
    b"\xff\xfe",
    b"\0",
    b"\r\n",
    b"ip",
    b"cluster_state:ok\r\ncluster_current_epoch:18446744073709551615\r\n",
    b"",
];

/// Replies of real servers to other commands.
const OTHERS: [&[u8]; 12] = [
    include_bytes!("../recorded/cluster_moved-redis-7.0.resp"),
    include_bytes!("../recorded/cluster_shards-redis-7.0.resp"),
    include_bytes!("../recorded/cluster_shards-valkey-9.1.resp"),
    include_bytes!("../recorded/hello-redis-7.0.resp"),
    include_bytes!("../recorded/noscript-redis-7.0.resp"),
    include_bytes!("../recorded/readonly-redis-7.0.resp"),
    include_bytes!("../recorded/readonly-valkey-9.1.resp"),
    include_bytes!("../recorded/role_replica-redis-7.0.resp"),
    include_bytes!("../recorded/sentinel_master-valkey-9.1.resp"),
    include_bytes!("../recorded/sentinel_unknown-redis-7.0.resp"),
    include_bytes!("../recorded/subscribe-redis-7.0.resp"),
    include_bytes!("../recorded/wrongtype-valkey-9.1.resp"),
];

/// Appends RESP, or bytes that are nearly RESP.
pub(crate) fn reply(u: &mut Unstructured<'_>, depth: u32, out: &mut Vec<u8>) -> Result<()> {
    let number = |u: &mut Unstructured<'_>| u.choose(&NUMBERS).copied();
    match u.int_in_range(0..=15)? {
        0..=2 if depth > 0 => {
            let letter = *u.choose(b"**~>%|")?;
            let count = u.int_in_range(0..=6_usize)?;
            let length = if u.ratio(1, 8)? {
                number(u)?.to_owned()
            } else {
                count.to_string()
            };
            line(out, letter, length.as_bytes());
            let each = if matches!(letter, b'%' | b'|') { 2 } else { 1 };
            for _ in 0..count * each {
                reply(u, depth - 1, out)?;
            }
        }
        0..=3 => line(out, b':', number(u)?.as_bytes()),
        4 | 5 => {
            let text = *u.choose(&TEXTS)?;
            line(out, *u.choose(b"$$$=!")?, text.len().to_string().as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        6 => line(out, *u.choose(b"$=!*~>%|")?, number(u)?.as_bytes()),
        7 => line(out, *u.choose(b",#(_+")?, number(u)?.as_bytes()),
        8 | 9 => line(out, b'-', u.choose(&ERRORS)?.as_bytes()),
        10 => line(out, b'+', u.choose(&TEXTS)?),
        11 => line(out, b'_', b""),
        12 => out.extend_from_slice(b"$-1\r\n"),
        13 => {
            let length = u.int_in_range(0..=24)?;
            out.extend_from_slice(u.bytes(length.min(u.len()))?);
        }
        14 => {
            // Deep nesting, or many elements.
            let times = *u.choose(&[8, 31, 33, 200, 2000])?;
            out.extend_from_slice(
                &u.choose(&[&b"*1\r\n"[..], b"%1\r\n", b"|1\r\n", b"|0\r\n"])?
                    .repeat(times),
            );
        }
        _ => {
            line(out, b'>', b"3");
            for text in [b"message".as_slice(), u.choose(&TEXTS)?, u.choose(&TEXTS)?] {
                line(out, b'$', text.len().to_string().as_bytes());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    Ok(())
}

pub(crate) fn line(out: &mut Vec<u8>, letter: u8, text: &[u8]) {
    out.push(letter);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    let after = if u.ratio(1, 2)? {
        0
    } else {
        u.int_in_range(0..=24)?
    };
    let mut bytes = Vec::new();
    let junk = match u.int_in_range(0..=12)? {
        12 => Junk::Instead(u.choose(&OTHERS)?.to_vec()),
        0..=2 => {
            reply(u, 5, &mut bytes)?;
            Junk::Instead(bytes)
        }
        3 => {
            reply(u, 5, &mut bytes)?;
            Junk::Before(bytes)
        }
        4 | 5 => {
            let mut changes = Vec::new();
            for _ in 0..u.int_in_range(1..=3)? {
                let added = u.int_in_range(0..=3)?;
                changes.push(Change {
                    at: u.arbitrary::<u16>()?.into(),
                    removed: u.int_in_range(0..=3)?,
                    added: u.bytes(added.min(u.len()))?.to_vec(),
                });
            }
            Junk::Changed(changes)
        }
        6 | 7 => Junk::Number(
            u.arbitrary::<u8>()?.into(),
            (*u.choose(&NUMBERS)?).to_owned(),
        ),
        8 => Junk::Twice,
        9 => Junk::Silence,
        10 => Junk::Cut(u.arbitrary::<u16>()?.into()),
        _ => {
            line(&mut bytes, b'-', u.choose(&ERRORS)?.as_bytes());
            Junk::Instead(bytes)
        }
    };
    Ok(Step { after, junk })
}

impl Junk {
    /// The bytes to send instead of `answer`, and whether the connection stays open.
    pub(crate) fn apply(self, mut answer: Vec<u8>) -> (Vec<u8>, bool) {
        match self {
            Junk::Instead(bytes) => (bytes, true),
            Junk::Before(bytes) => ([bytes, answer].concat(), true),
            Junk::Changed(changes) => {
                for Change { at, removed, added } in changes {
                    let at = at % (answer.len() + 1);
                    let end = (at + removed).min(answer.len());
                    drop(answer.splice(at..end, added));
                }
                (answer, true)
            }
            Junk::Number(place, number) => (with_number(&answer, place, &number), true),
            Junk::Twice => (answer.repeat(2), true),
            Junk::Silence => (Vec::new(), true),
            Junk::Cut(at) => {
                answer.truncate(at % (answer.len() + 1));
                (answer, false)
            }
        }
    }
}

/// Replaces one number of `answer`: the one at `place` among all its numbers. If the number is
/// within a text, the length of that text is corrected.
fn with_number(answer: &[u8], place: usize, number: &str) -> Vec<u8> {
    let is_number = |at: usize| answer[at].is_ascii_digit();
    let starts: Vec<usize> = (0..answer.len())
        .filter(|&at| is_number(at) && (at == 0 || !is_number(at - 1)))
        .collect();
    let Some(&start) = starts.get(place % starts.len().max(1)) else {
        return answer.to_vec();
    };
    let end = (start..answer.len())
        .find(|&at| !is_number(at))
        .unwrap_or(answer.len());
    let changed = [&answer[..start], number.as_bytes(), &answer[end..]].concat();
    mended(&changed, start, number.len(), end - start).unwrap_or(changed)
}

/// Corrects the length of the text around `at`.
fn mended(bytes: &[u8], at: usize, now: usize, before: usize) -> Option<Vec<u8>> {
    let mut header = 0;
    while header < bytes.len() {
        let end = header
            + bytes[header..]
                .windows(2)
                .position(|pair| pair == b"\r\n")?;
        if !matches!(bytes[header], b'$' | b'=' | b'!') {
            header = end + 2;
            continue;
        }
        let length: usize = str::from_utf8(&bytes[header + 1..end]).ok()?.parse().ok()?;
        let text = end + 2;
        if at < text {
            return None;
        }
        if at < text + length {
            let length = (length + now).checked_sub(before)?;
            let line = format!("{length}\r\n");
            return Some([&bytes[..=header], line.as_bytes(), &bytes[text..]].concat());
        }
        header = text + length + 2;
    }
    None
}
