//! Logins by a provider on a real server: passwords that change, tokens that expire, Unix sockets.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::settings::Credentials;
use leasehold::{Client, ClientBuilder};
use leasehold_testbed::{Connection, LIMIT, Server, connected, eventually, ms};
use tokio::time::{Instant, sleep, timeout};

fn ann(password: &str) -> Credentials {
    Credentials::new("ann", password)
}

fn builder(server: &Server) -> ClientBuilder {
    let url = format!("redis://127.0.0.1:{}", server.port());
    Client::builder(&url)
        .connect_timeout(LIMIT)
        .command_timeout(LIMIT)
}

fn set_password(server: &Server, password: &str) {
    let password = format!(">{password}");
    // AUTH needs no right.
    let rights = ["~*", "&*", "+@all", "-auth"];
    let words = [
        &["ACL", "SETUSER", "ann", "reset", "on", &password][..],
        &rights,
    ]
    .concat();
    assert_eq!(server.command(&words).text(), "OK");
}

fn logins(server: &Server) -> usize {
    server.clients("user=ann").len()
}

/// As with tokens: each is accepted for a while, and the password of one login is no good for the
/// next.
#[tokio::test]
async fn tokens_that_expire_are_renewed_on_the_living_connections_and_no_call_fails() {
    let server = Server::start();
    let issued = Arc::new(AtomicUsize::new(0));
    let (port, counter) = (server.port(), issued.clone());
    let provider = move || {
        let token = format!("token-{}", counter.fetch_add(1, Ordering::SeqCst));
        let address = (Ipv4Addr::LOCALHOST, port).into();
        async move {
            // The issuer tells the server. Only the latest tokens are accepted.
            let mut server = Connection::open(address)?;
            let password = format!(">{token}");
            let rights = ["~*", "&*", "+@all", "-auth"];
            server.command(&[&["ACL", "SETUSER", "ann", "on", &password][..], &rights].concat())?;
            Ok(Credentials::new("ann", token).valid_for(Duration::from_millis(200)))
        }
    };
    let client = connected(builder(&server).credentials(provider)).await;
    let guard = client.lock("x").lock().await.unwrap();
    let deadline = Instant::now() + LIMIT;
    // Three connections log in; then each of them renews its login some times.
    while issued.load(Ordering::SeqCst) < 3 + 3 * 4 {
        assert!(Instant::now() < deadline, "{issued:?} tokens");
        client.ping().await.expect("no call fails");
        guard.check().unwrap();
        sleep(ms(1)).await;
    }
    let stats = server.command(&["INFO", "commandstats"]).text();
    let auth = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_auth:"))
        .unwrap();
    assert!(auth.contains("failed_calls=0"), "{auth}");
    assert_eq!((client.stats().reconnects, logins(&server)), (0, 3));
    // Messages come on a connection whose login was renewed.
    let rival = connected(builder(&server).safety_poll(LIMIT * 2)).await;
    let held = rival.lock("y").lock().await.unwrap();
    let lock = client.lock("y");
    let waiting = timeout(LIMIT, lock.lock());
    let release = async {
        eventually("it listens", async || client.stats().listeners == 1).await;
        held.unlock().await.unwrap();
    };
    let (granted, ()) = tokio::join!(waiting, release);
    granted
        .expect("it is woken")
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test]
#[cfg(unix)]
async fn users_log_in_over_unix_sockets() {
    let path = std::env::temp_dir().join(format!("leasehold-{}-ann.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let server = Server::start_with(&["--unixsocket", path]);
    set_password(&server, "p@ss word");
    for (url, provider) in [
        (
            format!("redis+unix://{path}?user=ann&pass=p%40ss%20word&db=2"),
            None,
        ),
        (format!("redis+unix://{path}?db=2"), Some(ann("p@ss word"))),
    ] {
        let builder = Client::builder(&url).connect_timeout(LIMIT);
        let builder = match provider {
            Some(provider) => builder.credentials(provider),
            None => builder,
        };
        let client = builder.connect().await.unwrap();
        let guard = client.lock("x").lock().await.unwrap();
        let ours = server.clients("user=ann");
        assert!(
            ours.len() == 3 && ours.iter().all(|line| line.contains(" db=2 ")),
            "{ours:?}"
        );
        guard.unlock().await.unwrap();
        client.shutdown(LIMIT).await.unwrap();
        eventually("they have left", async || logins(&server) == 0).await;
    }
}
