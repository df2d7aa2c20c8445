//! The resource that the locks protect. It does not use Redis.
//!
//! A write is a line `W NAME TOKEN WORK`. The answer is `ok` or `refused`. A write is refused if
//! its token is lower than the highest token seen for the name, or if other work used the same
//! token. A token of `-` is not checked.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex as AsyncMutex;

type Seen = Arc<Mutex<HashMap<String, Last>>>;

/// The highest token of a name, and the work that used it.
struct Last {
    token: i64,
    work: String,
}

/// Serves the resource on a free loopback port until the program ends.
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
        let ["W", name, token, work] = words[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let answer = if accepts(seen, name, token, work) {
            "ok\n"
        } else {
            "refused\n"
        };
        out.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn accepts(seen: &Seen, name: &str, token: &str, work: &str) -> bool {
    let Ok(token) = token.parse::<i64>() else {
        return true;
    };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || Last {
        token,
        work: work.to_owned(),
    };
    let last = seen.entry(name.to_owned()).or_insert_with(new);
    let accepted = token > last.token || (token == last.token && last.work == work);
    if accepted {
        (last.token, last.work) = (token, work.to_owned());
    }
    accepted
}

/// A client of the resource. It sends one write at a time.
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

    /// Writes, and returns whether the resource accepted the write.
    pub(crate) async fn write(
        &self,
        name: &str,
        token: Option<i64>,
        work: &str,
    ) -> io::Result<bool> {
        let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let mut stream = self.stream.lock().await;
        stream
            .write_all(format!("W {name} {token} {work}\n").as_bytes())
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
    async fn a_lower_token_and_an_equal_token_of_other_work_are_refused() {
        let resource = Resource::connect(serve())
            .await
            .expect("the resource listens");
        let mut accepted = Vec::new();
        for (token, work) in [
            (Some(5), "a"),
            (Some(5), "a"),
            (Some(5), "b"),
            (Some(6), "b"),
            (Some(5), "a"),
            (None, "c"),
        ] {
            accepted.push(resource.write("n", token, work).await.expect("an answer"));
        }
        assert_eq!(accepted, [true, true, false, true, false, true]);
    }
}
