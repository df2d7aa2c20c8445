//! A server in memory, byte by byte, for a client whose network the test controls.

use std::io;

use leasehold::test_util::{ErrorReply, Reply};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::task::AbortHandle;

/// The client's end of a new connection, whose requests `answer` answers one after another.
pub(crate) fn connect(
    answer: impl Fn(&[String]) -> String + Send + 'static,
) -> (DuplexStream, AbortHandle) {
    let (client, own) = duplex(64 * 1024);
    let task = tokio::spawn(async move {
        let mut stream = BufReader::new(own);
        while let Ok(words) = request(&mut stream).await {
            let answer = answer(&words);
            if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    (client, task.abort_handle())
}

/// Reads the next request.
async fn request(stream: &mut BufReader<DuplexStream>) -> io::Result<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream).await? {
        let mut word = vec![0; number(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).expect("text"));
    }
    Ok(words)
}

async fn number(stream: &mut BufReader<DuplexStream>) -> io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line[1..].trim_end().parse().expect("a number"))
}

/// The replies to the handshake of a connection and to a subscription.
pub(crate) fn to_the_connection(words: &[String]) -> Option<String> {
    Some(match words[0].as_str() {
        "HELLO" => "%2\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n".into(),
        "CLIENT" => "+OK\r\n".into(),
        "SUBSCRIBE" | "UNSUBSCRIBE" => {
            let kind = words[0].to_lowercase();
            let (size, channel) = (kind.len(), &words[1]);
            format!(
                ">3\r\n${size}\r\n{kind}\r\n${}\r\n{channel}\r\n:1\r\n",
                channel.len()
            )
        }
        _ => return None,
    })
}

pub(crate) fn encoded(reply: Result<Reply, ErrorReply>) -> String {
    match reply {
        Ok(Reply::Nil) => "_\r\n".into(),
        Ok(Reply::Int(number)) => format!(":{number}\r\n"),
        Ok(Reply::Status(text)) => format!("+{text}\r\n"),
        Ok(Reply::Bulk(bytes)) => bulk(&String::from_utf8(bytes).expect("text")),
        Ok(Reply::Array(parts)) => {
            let parts: Vec<_> = parts.into_iter().map(encoded).collect();
            array(&parts)
        }
        Err(ErrorReply(text)) => format!("-{text}\r\n"),
    }
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// An array of encoded elements.
pub(crate) fn array(parts: &[String]) -> String {
    format!("*{}\r\n{}", parts.len(), parts.concat())
}
