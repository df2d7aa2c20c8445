//! The first connection: each possible fault, its outcome, and that it takes a bounded time.

use std::net::TcpListener;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::memory::{CALLER, Ending, MemoryServer, MemoryTestbed, WELCOME, echo};
use super::*;

/// The error of connecting, which must come in time.
pub(super) async fn refusal(url: &str) -> CallError {
    let own = OwnRuntime::new();
    let connecting = connect(url, Arc::new(Recorder::default()), own.handle());
    let outcome = timeout(SECOND * 10, connecting)
        .await
        .expect("connecting takes a bounded time");
    let error = outcome.map(drop).unwrap_err();
    let shown = format!("{error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    until("no task runs any more", || own.tasks() == 0).await;
    error
}

pub(super) fn assert_not_applied(error: &CallError, part: &str) {
    let holds = matches!(error, CallError::NotApplied(fault) if fault.0.contains(part));
    assert!(holds, "expected `{part}`: {error:?}");
}

/// How many of our connections use the database.
fn ours_in(server: &Server, database: u8) -> usize {
    let clients = server.clients("name=leasehold:test");
    clients
        .iter()
        .filter(|line| line.contains(&format!(" db={database} ")))
        .count()
}

pub(super) fn assert_refused(error: &CallError, part: &str) {
    let holds = matches!(error, CallError::Refused(fault) if fault.0.contains(part));
    assert!(holds, "expected `{part}`: {error:?}");
}

#[tokio::test]
async fn wrong_and_missing_logins_are_refused() {
    needs_a_server!();
    let server = Server::start_with(&["--requirepass", "right"]);
    let port = server.port();
    let wrong = refusal(&format!("redis://:hunter2@127.0.0.1:{port}")).await;
    assert_refused(&wrong, "WRONGPASS");
    assert_refused(
        &refusal(&format!("redis://ann:hunter2@127.0.0.1:{port}")).await,
        "WRONGPASS",
    );
    assert_refused(
        &refusal(&format!("redis://127.0.0.1:{port}")).await,
        "NOAUTH",
    );
    let right = Testbed::new(&server).await;
    assert_eq!(right.add(Lane::Caller, "n").await, Ok(1));
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_refused() {
    needs_a_server!();
    let server = Server::start();
    assert_refused(
        &refusal(&format!("{}/99", server.url())).await,
        "out of range",
    );
    let testbed = Testbed::at(&format!("{}/3", server.url())).await;
    testbed.add(Lane::Caller, "n").await.unwrap();
    assert_eq!(count(&server, "n"), 0, "database 0 is untouched");
    assert_eq!(ours_in(&server, 3), 3);
}

#[tokio::test]
async fn a_full_server_is_not_applied() {
    needs_a_server!();
    let server = Server::start_with(&["--maxclients", "2"]);
    let _one = server.connection();
    assert_not_applied(&refusal(&server.url()).await, "cannot connect");
}

#[tokio::test]
async fn a_closed_port_is_not_applied() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_not_applied(
        &refusal(&format!("redis://127.0.0.1:{port}")).await,
        "refused",
    );
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_dead_address_does_not_hide_the_others_of_its_name() {
    needs_a_server!();
    let server = Server::start();
    // The queue of this socket is full and never accepted from, so the next attempt gets no answer.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let dead = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = timeout(SECOND / 10, tokio::net::TcpStream::connect(dead)).await {
        queue.push(stream.unwrap());
    }
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let last = [vec![dead; 9], vec![server.address()]].concat();
    for addresses in [
        vec![dead, server.address()],
        vec![server.address(), dead],
        last,
    ] {
        let connecting = stream::connect_first(addresses, SECOND);
        let stream = timeout(SECOND, connecting)
            .await
            .expect("connecting takes a bounded time")
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), server.address());
    }
    let refused = stream::connect_first(vec![closed, closed], SECOND)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let none = stream::connect_first(Vec::new(), SECOND).await;
    assert!(none.is_err());
    let all_dead = timeout(SECOND, stream::connect_first(vec![dead, dead], SECOND)).await;
    assert!(all_dead.is_err(), "{all_dead:?}");
}

#[tokio::test]
async fn a_server_that_accepts_and_is_silent_is_not_applied() {
    needs_a_server!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    assert_not_applied(&refusal(&url).await, "cannot connect");
    let server = Server::start();
    server.pause();
    assert_not_applied(&refusal(&server.url()).await, "cannot connect");
    server.resume();
}

#[tokio::test]
#[cfg(feature = "tls")]
async fn tls_against_a_plain_port_is_not_applied() {
    needs_a_server!();
    let server = Server::start();
    let url = server.url().replace("redis://", "rediss://");
    assert_not_applied(&refusal(&url).await, "cannot connect");
}

#[tokio::test]
#[cfg(unix)]
async fn unix_sockets_work() {
    needs_a_server!();
    let path = std::env::temp_dir().join(format!("leasehold-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let server = Server::start_with(&["--unixsocket", path]);
    let testbed = Testbed::at(&format!("redis+unix://{path}?db=2")).await;
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(1));
    assert_eq!(ours_in(&server, 2), 3);
}

#[tokio::test]
async fn names_that_the_server_refuses_do_no_harm() {
    needs_a_server!();
    let server = Server::start();
    server.command(&[
        "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-client",
    ]);
    let testbed = Testbed::at(&format!("redis://ann:pw@127.0.0.1:{}", server.port())).await;
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(1));
}

/// The answers to the handshake are cut after each byte. The error is reported, and no stream stays
/// open.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_cut_after_any_byte_is_not_applied() {
    for ending in [Ending::Closed, Ending::Reset] {
        let mut whole = None;
        for replies in 0..200 {
            let server = MemoryServer::answering(echo);
            server.short(replies, ending);
            let outcome = MemoryTestbed::open(server.clone()).await.map(drop);
            if let Err(error) = &outcome {
                assert_not_applied(error, "cannot connect");
                until("the stream is dropped", || {
                    server
                        .sockets()
                        .iter()
                        .all(|socket| socket.at(|state| state.halves) == 0)
                })
                .await;
                assert_eq!(whole, None, "{replies}: {error:?}");
            } else {
                whole = whole.or(Some(replies));
            }
        }
        // The answers to the handshake, and to the PING of the connection for messages, which does
        // not ask for INFO again.
        let handshake = WELCOME.len() + b"+OK\r\n+OK\r\n".len();
        assert_eq!(whole, Some(handshake + PONG_LENGTH));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_or_a_loading_server_is_not_taken_for_another_protocol() {
    let unwelcome = async |answer: &str| {
        let server = MemoryServer::new();
        server.welcome(answer);
        let error = MemoryTestbed::open(server.clone()).await.map(drop);
        assert_eq!(server.dials(), 1, "{answer}");
        error.unwrap_err()
    };
    for (answer, code) in [
        ("-WRONGPASS invalid username-password pair\r\n", "WRONGPASS"),
        ("-ERR invalid password\r\n", "invalid password"),
        ("-NOAUTH HELLO must be called authenticated\r\n", "NOAUTH"),
        ("-NOPERM this user has no permissions\r\n", "NOPERM"),
    ] {
        assert_refused(&unwelcome(answer).await, code);
    }
    assert_not_applied(&unwelcome("-LOADING the dataset\r\n").await, "LOADING");
}

/// With Sentinel, a call must never reach a replica. So each connection checks the role of its
/// server.
#[tokio::test(start_paused = true)]
async fn a_replica_is_refused_where_a_primary_is_needed() {
    for (role, is_fit) in [("master", true), ("replica", false)] {
        let server = MemoryServer::new();
        let welcome = WELCOME.replace("$6\r\nmaster", &format!("${}\r\n{role}", role.len()));
        server.welcome(&welcome);
        let primary_only = primary_at(server.remote());
        for (remote, is_connected) in [(primary_only, is_fit), (server.remote(), true)] {
            let opened = remote.open(&[], &Handle::current(), SECOND).await.map(drop);
            assert_eq!(opened.is_ok(), is_connected, "{role}: {opened:?}");
            if let Err(error) = opened {
                assert_not_applied(&error, "not a primary");
            }
        }
    }
}

/// A message that arrives in the same read as the handshake is not lost.
#[tokio::test(start_paused = true)]
async fn bytes_read_beyond_the_handshake_are_kept() {
    let message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    let testbed = MemoryTestbed::new(MemoryServer::new()).await;
    let before = testbed.events.messages();
    testbed.server.greet(message);
    testbed.server.socket(CALLER).end(Ending::Closed);
    until("the lane is restored", || {
        testbed.events.restored(Lane::Caller)
    })
    .await;
    until("the message is received", || {
        testbed.events.messages() == before + 1
    })
    .await;
}

/// Reads what the client sends, up to and including `word`.
async fn asked(stream: &mut tokio::net::TcpStream, word: &[u8]) {
    let mut seen = Vec::new();
    while !seen.windows(word.len()).any(|window| window == word) {
        if stream.read_buf(&mut seen).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// A question takes no lock, so without an answer nothing is in doubt.
#[tokio::test]
async fn a_cluster_that_does_not_describe_itself_is_not_applied() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis-cluster://{}", listener.local_addr().unwrap());
    let server = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let welcome = format!("{WELCOME}+OK\r\n+OK\r\n");
            for (word, answer) in [
                ("LIB-VER", welcome.as_str()),
                ("SHARDNUMSUB", "*0\r\n"),
                ("SLOTS", ""),
            ] {
                asked(&mut stream, word.as_bytes()).await;
                drop(stream.write_all(answer.as_bytes()).await);
            }
        }
    };
    let clients = async {
        let connect = |if_unreachable| {
            let events = Arc::<Recorder>::default();
            let deployment = Deployment::parse(&url).unwrap();
            let setup = setup(TIMING, events, &Handle::current());
            Transport::connect(deployment, setup, if_unreachable)
        };
        let refused = connect(IfUnreachable::Fail).await;
        assert!(
            matches!(refused, Err(CallError::NotApplied(_))),
            "{refused:?}"
        );
        let later = connect(IfUnreachable::RetryLater).await;
        assert!(later.is_ok(), "{later:?}");
    };
    tokio::select! {
        () = server => {}
        () = clients => {}
    }
}
