//! Arbitrary bytes from a server, from its first byte on, in pieces of any size. Connecting must
//! succeed, or fail within its time limit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arbitrary::{Result, Unstructured};
use leasehold::{Client, Error, Lease};
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

use crate::junk::reply;
use crate::server::FakeServer;
use crate::world::{NOW, paused, secs, within};

/// What the server sends on a connection.
#[derive(Clone, Debug)]
struct Sent {
    bytes: Vec<u8>,
    piece: usize,
    /// Whether the server then closes the connection, or stays silent.
    ends: bool,
}

fn sent(u: &mut Unstructured<'_>) -> Result<Sent> {
    let (piece, ends) = (u.int_in_range(1..=64)?, u.arbitrary()?);
    let mut bytes = Vec::new();
    if u.ratio(1, 4)? {
        let length = u.arbitrary_len::<u8>()?;
        bytes.extend_from_slice(u.bytes(length)?);
    } else {
        for _ in 0..u.int_in_range(0..=12)? {
            reply(u, 6, &mut bytes)?;
        }
    }
    Ok(Sent { bytes, piece, ends })
}

async fn send(mut stream: DuplexStream, sent: Sent) {
    for piece in sent.bytes.chunks(sent.piece) {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    if !sent.ends {
        // Wait until the client gives up.
        drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await);
    }
}

#[expect(clippy::panic, reason = "a broken promise ends the input")]
pub(super) fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let later = u.ratio(1, 4)?;
    let mut first = VecDeque::new();
    for _ in 0..u.int_in_range(1..=4)? {
        first.push_back(sent(u)?);
    }
    let first = Arc::new(Mutex::new(first));
    paused(async move {
        let server = later.then(|| FakeServer::new(false, Vec::new(), usize::MAX));
        let builder = Client::builder("redis://fuzz").dial_by(move |_| {
            let next = first
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match (next, &server) {
                (None, Some(server)) => server.dial(),
                (next, _) => {
                    let (client, own) = duplex(64 * 1024);
                    let silence = Sent {
                        bytes: Vec::new(),
                        piece: 1,
                        ends: true,
                    };
                    let sending = send(own, next.unwrap_or(silence));
                    drop(tokio::runtime::Handle::current().spawn(sending));
                    Ok(client)
                }
            }
        });
        if !later {
            match within(secs(3), "connect", Box::pin(builder.connect())).await {
                Ok(_) | Err(Error::Unavailable { .. } | Error::Protocol { .. }) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
        let client = match within(
            secs(3),
            "connect",
            Box::pin(builder.connect_in_background()),
        )
        .await
        {
            Ok(client) => client,
            Err(Error::Protocol { .. }) => return,
            Err(other) => panic!("{other:?}"),
        };
        // From then on, the server replies correctly on new connections.
        within(secs(60), "a client that finds its server", async {
            while client
                .lock("a")
                .try_lock(NOW, Lease::Fixed(secs(1)))
                .await
                .is_err()
            {
                tokio::time::sleep(secs(1)).await;
            }
        })
        .await;
    });
    Ok(())
}
