//! What is special about connections made by fred. `tests/conformance` with
//! `LEASEHOLD_CONNECTION=fred` tests the behaviours on them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error};
use leasehold_admin::Admin;
use leasehold_admin::preflight::Preflight;
use leasehold_fred::NotOneServer;
use leasehold_fred::fred::clients::Client as Fred;
use leasehold_fred::fred::error::Error as FredError;
use leasehold_fred::fred::types::config::{Config, CredentialProvider, Server as At, ServerConfig};
use leasehold_testbed::{Server, connected, is_missing, take_and_release, wait_until};

const LIMIT: Duration = Duration::from_secs(10);

fn builder(config: Config) -> ClientBuilder {
    let pattern = Fred::new(config, None, None, None);
    leasehold_fred::builder(&pattern)
        .unwrap()
        .connect_timeout(LIMIT)
}

fn config(server: &Server) -> Config {
    let server = ServerConfig::new_centralized("127.0.0.1", server.port());
    Config {
        server,
        ..Config::default()
    }
}

/// Passwords that change.
#[derive(Clone)]
struct Vault(Arc<Mutex<String>>);

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

type Fetched = Result<(Option<String>, Option<String>), FredError>;

impl CredentialProvider for Vault {
    fn fetch<'a, 'b, 'all>(
        &'a self,
        _server: Option<&'b At>,
    ) -> Pin<Box<dyn Future<Output = Fetched> + Send + 'all>>
    where
        'a: 'all,
        'b: 'all,
        Self: 'all,
    {
        let password = self.0.lock().unwrap().clone();
        Box::pin(async move { Ok((None, Some(password))) })
    }
}

#[tokio::test]
async fn credentials_are_asked_for_at_each_connection() {
    if is_missing() {
        return;
    }
    let server = Server::start_with(&["--requirepass", "first"]);
    let mut admin = server.connection();
    let vault = Vault(Arc::new(Mutex::new("first".into())));
    let mut config = config(&server);
    config.credential_provider = Some(Arc::new(vault.clone()));
    let client = builder(config).connect().await.unwrap();
    take_and_release(&client.lock("x")).await;

    "second".clone_into(&mut vault.0.lock().unwrap());
    admin
        .command(&["CONFIG", "SET", "requirepass", "second"])
        .unwrap();
    admin
        .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        .unwrap();
    admin
        .command(&["CLIENT", "KILL", "TYPE", "pubsub"])
        .unwrap();
    take_and_release(&client.lock("x")).await;
    assert!(client.stats().reconnects > 0);
}

#[test]
fn more_than_one_server_is_refused() {
    let hosts = || vec![("127.0.0.1", 1), ("127.0.0.1", 2)];
    let several = [
        ServerConfig::new_sentinel(hosts(), "main"),
        ServerConfig::new_clustered(hosts()),
    ];
    for server in several {
        let config = Config {
            server,
            ..Config::default()
        };
        let pattern = Fred::new(config, None, None, None);
        assert_eq!(leasehold_fred::builder(&pattern).unwrap_err(), NotOneServer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_login_is_reported_without_showing_a_secret() {
    if is_missing() {
        return;
    }
    let server = Server::start_with(&["--requirepass", "right"]);
    let wrong = Config {
        password: Some("secret".into()),
        ..config(&server)
    };
    let shown = format!("{:?}", builder(wrong.clone()));
    let refused = builder(wrong).connect().await.unwrap_err();
    assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
    let told = format!("{refused} {refused:?} {shown}");
    assert!(
        told.contains(&format!("redis://127.0.0.1:{}", server.port())),
        "{told}"
    );
    assert!(!told.contains("secret"), "{told}");

    let database = Config {
        password: Some("right".into()),
        database: Some(99),
        ..config(&server)
    };
    let refused = builder(database).connect().await.unwrap_err();
    assert!(matches!(refused, Error::Protocol { .. }), "{refused}");

    // Its reply repeats the words that it received.
    let without = ["--requirepass", "secret", "--rename-command", "HELLO", ""];
    let server = Server::start_with(&without);
    let unknown = Config {
        password: Some("secret".into()),
        ..config(&server)
    };
    let refused = builder(unknown).connect().await.unwrap_err();
    assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
    assert!(refused.to_string().contains("needs RESP3"), "{refused}");
    assert!(
        !format!("{refused} {refused:?}").contains("secret"),
        "{refused}"
    );

    let nobody = ServerConfig::new_centralized("127.0.0.1", 1);
    let absent = Config {
        server: nobody,
        ..Config::default()
    };
    let unavailable = builder(absent.clone()).connect().await.unwrap_err();
    assert!(
        matches!(unavailable, Error::Unavailable { .. }),
        "{unavailable}"
    );
    builder(absent).connect_in_background().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_have_our_name_and_end_with_the_client() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let client = connected(builder(config(&server)).name("billing@7")).await;
    assert_eq!(server.clients("name=billing@7").len(), 3);
    client.shutdown(LIMIT).await.unwrap();
    wait_until("closed", LIMIT, || {
        server.clients("name=billing@7").is_empty()
    });
    let client = connected(builder(config(&server)).name("billing@8")).await;
    drop(client);
    wait_until("closed", LIMIT, || {
        server.clients("name=billing@8").is_empty()
    });
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_unix_socket_will_do() {
    if is_missing() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("leasehold-fred-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let _server = Server::start_with(&["--unixsocket", path.to_str().unwrap()]);
    let server = ServerConfig::Unix { path };
    let client = builder(Config {
        server,
        ..Config::default()
    })
    .connect()
    .await
    .unwrap();
    take_and_release(&client.lock("x")).await;
    client.shutdown(LIMIT).await.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// The server replies where fred expects no reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_channel_that_is_refused_disturbs_no_other() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let channel = "&redisson_lock__channel:{free}";
    let rule = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">x",
        "~*",
        "+@all",
        "resetchannels",
        channel,
    ];
    assert_eq!(server.command(&rule).text(), "OK");
    let config = Config {
        username: Some("app".into()),
        password: Some("x".into()),
        ..config(&server)
    };
    // Either its waiter is woken, or it waits.
    let builder = || builder(config.clone()).safety_poll(Duration::from_secs(60));
    let (holder, client) = (
        builder().connect().await.unwrap(),
        builder().connect().await.unwrap(),
    );
    let holds = [
        holder.lock("free").lock().await.unwrap(),
        holder.lock("other").lock().await.unwrap(),
    ];
    let free = client.lock("free");
    let waiting = free.lock();
    tokio::pin!(waiting);
    for _ in 0..5 {
        let other = client.lock("other");
        let refused = tokio::select! {
            taken = &mut waiting => panic!("taken: {taken:?}"),
            refused = other.lock() => refused.unwrap_err(),
        };
        assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
        assert!(
            refused.to_string().contains("NOPERM") || format!("{refused:?}").contains("NOPERM")
        );
    }
    let [free, _other] = holds;
    // The publisher needs the right, too, and has it for this channel.
    let (released, taken) = tokio::join!(free.unlock(), waiting);
    released.unwrap();
    taken.unwrap().unlock().await.unwrap();
}

#[tokio::test]
async fn a_preflight_reads_the_same_through_fred() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let ours = Client::connect(&server.url()).await.unwrap();
    let theirs = builder(config(&server)).connect().await.unwrap();
    let ours = Admin::new(&ours).preflight().await.unwrap();
    let theirs = Admin::new(&theirs).preflight().await.unwrap();
    // Only the times differ between two looks.
    let lines = |report: &Preflight| {
        let text = report.to_string();
        let lines = text.lines().map(|line| line.split(", round trip").next());
        lines
            .map(|line| line.map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&theirs), lines(&ours));
}
