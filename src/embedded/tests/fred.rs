//! fred on a TCP connection to the embedded engine. `tests/fred` has real servers.

use std::time::Duration;

use fred::clients::Client as Fred;
use fred::types::config::{Config, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use crate::{Client, EmbeddedRedis, Lease};

/// An engine behind a port of this machine, and how `fred` is told of it.
async fn listening() -> (EmbeddedRedis, Fred) {
    let redis = EmbeddedRedis::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let runtime = Handle::current();
    let engine = redis.engine.dialer(&runtime);
    runtime.clone().spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            // Without the engine, the connection ends at once.
            if let Ok((reader, writer)) = engine.dial() {
                let mut server = tokio::io::join(reader, writer);
                runtime.spawn(async move {
                    // fred writes its HELLO inline, which the engine does not read.
                    let mut hello = [0; b"HELLO 3\r\n".len()];
                    client.read_exact(&mut hello).await?;
                    assert_eq!(&hello, b"HELLO 3\r\n");
                    let hello = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
                    server.write_all(hello).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        }
    });
    let server = ServerConfig::new_centralized("127.0.0.1", port);
    let config = Config {
        server,
        ..Config::default()
    };
    (redis, Fred::new(config, None, None, None))
}

#[tokio::test]
async fn a_lost_connection_is_replaced() {
    let (redis, pattern) = listening().await;
    let client = Client::builder_with_fred(&pattern);
    let client = client.connect().await.expect("a client");
    redis.cut();
    let lock = client.lock("n");
    lock.try_lock_now(Lease::Renewed)
        .await
        .expect_err("cut off");
    redis.heal();
    let guard = lock.try_lock(Duration::from_secs(10), Lease::Renewed).await;
    guard
        .expect("connected again")
        .unlock()
        .await
        .expect("held");
    assert!(client.stats().reconnects > 0);
}
