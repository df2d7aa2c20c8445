//! What the locks protect: a resource in a process of its own time, which knows nothing of Redis.
//!
//! `W NAME TOKEN WHO` is a write; the answer is `ok`, or `refused` for a token below the highest that was seen
//! for the name, and for the same token of other work. A token of `-` is not checked.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex as AsyncMutex;

type Seen = Arc<Mutex<HashMap<String, Last>>>;

/// The highest token of a name, and whose work has it.
struct Last {
    token: i64,
    who: String,
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
        let answer = if look(seen, name, token, who) {
            "ok\n"
        } else {
            "refused\n"
        };
        out.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn look(seen: &Seen, name: &str, token: &str, who: &str) -> bool {
    let Ok(token) = token.parse::<i64>() else {
        return true;
    };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || Last {
        token,
        who: who.to_owned(),
    };
    let last = seen.entry(name.to_owned()).or_insert_with(new);
    let accepted = token > last.token || (token == last.token && last.who == who);
    if accepted {
        (last.token, last.who) = (token, who.to_owned());
    }
    accepted
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
        Ok(Resource {
            stream: AsyncMutex::new(tokio::io::BufStream::new(stream)),
        })
    }

    /// Whether it was accepted.
    pub(crate) async fn write(
        &self,
        name: &str,
        token: Option<i64>,
        who: &str,
    ) -> io::Result<bool> {
        let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let mut stream = self.stream.lock().await;
        stream
            .write_all(format!("W {name} {token} {who}\n").as_bytes())
            .await?;
        stream.flush().await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end() {
            "ok" => Ok(true),
            "refused" => Ok(false),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
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
        assert_eq!(taken, [true, true, false, true, false, true]);
    }
}
