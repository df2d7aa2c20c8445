//! Real connections of HTTP.

use std::future::pending;
use std::net::SocketAddr;

use axum::Router;
use leasehold::EmbeddedRedis;
use leasehold_testbed::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{layer, router};

async fn serve(servers: &mut JoinSet<()>, router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    servers.spawn(async move { axum::serve(listener, router).await.expect("served") });
    address
}

async fn send(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("connects");
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nx-order: 42\r\nconnection: close\r\n\r\n";
    client.write_all(request).await.expect("sent");
    client
}

async fn reply(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("a reply");
    text
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_key() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let mut servers = JoinSet::new();
    let stuck = serve(&mut servers, router(layer(&client), pending::<()>)).await;
    let quick = serve(&mut servers, router(layer(&client), || async { "done" })).await;
    let is_locked = async || client.lock("orders:42").is_locked().await.expect("asked");

    let hangs = send(stuck).await;
    eventually("it is served", is_locked).await;
    let refused = soon("refused", reply(send(quick).await)).await;
    assert!(refused.starts_with("HTTP/1.1 409 "), "{refused}");
    assert!(refused.contains("retry-after: 5\r\n"), "{refused}");
    drop(hangs);
    eventually("it is free", async || !is_locked().await).await;
    let served = soon("served", reply(send(quick).await)).await;
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
    assert!(
        served.contains("content-length: 4\r\n") && served.ends_with("done"),
        "{served}"
    );
}
