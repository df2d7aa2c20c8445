//! Requests in a few lines: enough for these services.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use crate::LIMIT;

/// Sends a request; its head has no further lines than `headers`.
pub(crate) fn send(address: &str, path: &str, headers: &[&str]) -> io::Result<TcpStream> {
    request("POST", address, path, headers)
}

fn request(method: &str, address: &str, path: &str, headers: &[&str]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for header in headers.iter().chain(&["Content-Length: 0", ""]) {
        head = head + header + "\r\n";
    }
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

/// The status and the body of the answer.
pub(crate) fn answer(mut stream: TcpStream) -> io::Result<(u16, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

pub(crate) fn post(address: &str, path: &str, headers: &[&str]) -> io::Result<(u16, String)> {
    answer(send(address, path, headers)?)
}

/// The body of what is there.
pub(crate) fn get(address: &str, path: &str) -> io::Result<String> {
    let (status, body) = answer(request("GET", address, path, &[])?)?;
    if status == 200 {
        Ok(body)
    } else {
        Err(io::Error::other(format!("{path}: {status}")))
    }
}
