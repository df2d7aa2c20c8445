//! The memory that a reply may take before it is refused. An announced length alone takes none, and
//! the bytes that arrive are bounded.

use std::io;
use std::time::Duration;

use leasehold::{Client, Error};
use tokio::io::{AsyncWriteExt as _, duplex};
use tokio::runtime::{Builder, Handle};

const MIB: u64 = 1 << 20;

/// The greatest accepted reply, in encoded bytes.
const REPLY: u64 = 64 * MIB;

/// The most that was allocated at once while a server began its first reply with `head` and went on
/// with `more`, again and again, until `length` bytes were sent.
fn peak(head: &'static str, more: &'static str, length: u64) -> u64 {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime");
    let dial = move |_: &str| -> io::Result<_> {
        let (client, mut server) = duplex(16 * 1024);
        drop(Handle::current().spawn(async move {
            server.write_all(head.as_bytes()).await?;
            let times = (64 * 1024 / more.len().max(1)).max(1);
            let (piece, mut sent) = (more.repeat(times), head.len() as u64);
            while sent < length && !piece.is_empty() {
                server.write_all(piece.as_bytes()).await?;
                sent += piece.len() as u64;
            }
            // Send nothing more, but keep the connection until the client gives up.
            server.shutdown().await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
            io::Result::Ok(())
        }));
        Ok(client)
    };
    let mut outcome = None;
    let allocated = allocation_counter::measure(|| {
        let connecting = async {
            let limit = Duration::from_secs(3);
            tokio::time::timeout(limit, Client::builder("redis://h").dial_by(dial).connect()).await
        };
        outcome = Some(runtime.block_on(connecting));
    });
    let outcome = outcome
        .expect("it was run")
        .expect("within the time of connecting");
    // The bytes may be a complete reply, but not one to HELLO.
    let is_refused = matches!(
        outcome,
        Err(Error::Unavailable { .. } | Error::Protocol { .. })
    );
    assert!(is_refused, "{head:?}: {outcome:?}");
    allocated.bytes_max
}

#[test]
fn an_announced_length_reserves_nothing() {
    for head in [
        "$1073741824\r\n",
        "$67000000\r\n",
        "$99999999999\r\n",
        "*1048576\r\n",
        "*1073741824\r\n",
        "%524288\r\n",
        ">1048576\r\n",
        "=18446744073709551615\r\n",
        "$-2\r\n",
    ] {
        let peak = peak(head, "", 0);
        assert!(peak < 2 * MIB, "{head:?}: {peak} bytes");
    }
}

/// The client opens three connections at once. Each has a buffer that grows by doubling.
#[test]
#[expect(clippy::print_stderr, reason = "its reader wants the numbers")]
fn the_memory_for_a_reply_is_bounded() {
    let most = 3 * (2 * REPLY + REPLY);
    for (head, more, length) in [
        ("$67000000\r\n", "x", REPLY + 2 * MIB),
        ("*1048576\r\n", "_\r\n", 3 * MIB),
        ("", "|1\r\n+k\r\n+v\r\n", 8 * MIB),
        ("+", "x", 8 * MIB),
        ("", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", 8 * MIB),
        ("", "*1\r\n", 8 * MIB),
    ] {
        let peak = peak(head, more, length);
        assert!(peak < most, "{head:?} {more:?}: {peak} bytes");
        eprintln!("{head:?} {more:?}: {peak} bytes at once");
    }
}
