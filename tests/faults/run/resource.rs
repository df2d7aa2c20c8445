//! What the locks protect: a resource in a process of its own time, which knows nothing of Redis.
//!
//! `W NAME TOKEN WHO` is a write; the answer is `ok`, or `refused` for a token below the highest that was seen
//! for the name, and for the same token of other work. A token of `-` is not checked. For one that is, the answer
//! has a number behind it: how many such writes of the name were answered by then.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex as AsyncMutex;

type Seen = Arc<Mutex<HashMap<String, Last>>>;

/// The highest token of a name, whose work has it, and how many writes were answered.
struct Last {
    token: i64,
    who: String,
    answered: u64,
}

/// What the resource says to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) accepted: bool,
    pub(crate) order: Option<u64>,
}

/// Serves on a free loopback port, until the program ends.
pub(crate) fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let seen = Seen::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            thread::spawn(move || drop(answer(&seen, stream)));
        }
    });
    address
}

fn answer(seen: &Seen, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        let ["W", name, token, who] = words[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let Answer { accepted, order } = look(seen, name, token, who);
        let order = order.map_or_else(String::new, |order| format!(" {order}"));
        let word = if accepted { "ok" } else { "refused" };
        out.write_all(format!("{word}{order}\n").as_bytes())?;
    }
    Ok(())
}

fn look(seen: &Seen, name: &str, token: &str, who: &str) -> Answer {
    let Ok(token) = token.parse::<i64>() else { return Answer { accepted: true, order: None } };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || Last { token, who: who.to_owned(), answered: 0 };
    let last = seen.entry(name.to_owned()).or_insert_with(new);
    last.answered += 1;
    let accepted = token > last.token || (token == last.token && last.who == who);
    if accepted {
        (last.token, last.who) = (token, who.to_owned());
    }
    Answer { accepted, order: Some(last.answered) }
}

/// A client of the resource; its writes follow each other.
#[derive(Debug)]
pub(crate) struct Resource {
    stream: AsyncMutex<tokio::io::BufStream<tokio::net::TcpStream>>,
}

impl Resource {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Resource { stream: AsyncMutex::new(tokio::io::BufStream::new(stream)) })
    }

    pub(crate) async fn write(
        &self,
        name: &str,
        token: Option<i64>,
        who: &str,
    ) -> io::Result<Answer> {
        let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let mut stream = self.stream.lock().await;
        stream.write_all(format!("W {name} {token} {who}\n").as_bytes()).await?;
        stream.flush().await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let mut words = line.split_whitespace();
        let accepted = match words.next() {
            Some("ok") => true,
            Some("refused") => false,
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Ok(Answer { accepted, order: words.next().and_then(|order| order.parse().ok()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lower_token_is_refused_and_an_equal_one_of_others() {
        let resource = Resource::connect(serve()).await.expect("it listens");
        let mut taken = Vec::new();
        for (token, who) in [
            (Some(5), "a"),
            (Some(5), "a"),
            (Some(5), "b"),
            (Some(6), "b"),
            (Some(5), "a"),
            (None, "c"),
        ] {
            taken.push(resource.write("n", token, who).await.expect("it answers"));
        }
        let expected = [(true, 1), (true, 2), (false, 3), (true, 4), (false, 5)];
        let mut expected: Vec<_> =
            expected.map(|(accepted, order)| Answer { accepted, order: Some(order) }).into();
        expected.push(Answer { accepted: true, order: None });
        assert_eq!(taken, expected);
    }
}
