//! The smallest client that can ask a server anything: blocking, RESP2, one reply per command.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
}

impl Reply {
    /// Text of a status, error or bulk string.
    pub fn text(&self) -> String {
        match self {
            Reply::Status(text) | Reply::Error(text) => text.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).parse().expect("a number"),
            other => panic!("not a number: {other:?}"),
        }
    }

    pub fn array(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    pub fn command(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.send(words)?;
        self.read()
    }

    /// Sends without reading; each command is answered in order.
    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word.as_bytes());
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    pub fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| broken(line));
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Reply::Bulk(bytes)
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => {
                    Reply::Array((0..length).map(|_| self.read()).collect::<Result<_, _>>()?)
                }
            },
            _ => return Err(broken(line)),
        })
    }
}

fn broken(line: &str) -> io::Error {
    io::Error::other(format!("not a reply: {line}"))
}
