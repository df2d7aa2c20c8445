//! The resource behind a service, at which a test counts how many are there at once.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Enters the resource at `address`, and leaves it when it says so: it has counted us out by then.
///
/// # Errors
///
/// If the resource is not there, or hangs up.
pub async fn visit(address: &str, visitor: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{visitor}\n").as_bytes()).await?;
    stream.read_u8().await.map(drop)
}
