//! Servers that do not speak RESP3: the handshake, messages, logins, and Sentinel.

use super::connecting::{assert_not_applied, assert_refused, refusal};
use super::fakes::{Answer, Fakes, array, as_usual, bulk};
use super::memory::{
    CALLER, MESSAGES, MemoryServer, MemoryTestbed, PRIMARY_CONNECTION, WELCOME, usual,
};
use super::*;
use crate::credentials::{Credentials, CredentialsFuture, CredentialsProvider, Provider};
use crate::protocol::Protocol;
use crate::remote::Opened;
use leasehold_testbed::Reply;

const UNKNOWN: &str = "-ERR unknown command 'HELLO', with args beginning with: '3' \r\n";
const URL: &str = "redis://old:1";

/// A server that speaks RESP2, and its connections.
#[derive(Clone)]
struct Old(Arc<Mutex<State>>);

struct State {
    hello: String,
    password: Option<&'static str>,
    /// A command that nobody may use.
    denied: &'static str,
    role: Answers,
    /// The commands of each connection.
    connections: Vec<Vec<Vec<String>>>,
    logged_in: bool,
    /// How many passwords were checked.
    checks: usize,
}

/// The answers to ROLE and `INFO replication`.
type Answers = [&'static str; 2];

const DENIED: &str = "-NOPERM no permission\r\n";

impl Old {
    fn new(hello: &str) -> Self {
        Old(Arc::new(Mutex::new(State {
            hello: hello.to_owned(),
            password: None,
            denied: "",
            role: [DENIED; 2],
            connections: Vec::new(),
            logged_in: false,
            checks: 0,
        })))
    }

    fn with_password(self, password: &'static str) -> Self {
        self.at(|state| state.password = Some(password));
        self
    }

    fn at<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock())
    }

    fn remote(&self, url: &str) -> Remote {
        let old = self.clone();
        Fakes::new(move |_, words| old.at(|state| state.answer(words))).remote(url)
    }

    /// The commands of one connection.
    fn said(&self, connection: usize) -> Vec<String> {
        self.at(|state| {
            let commands = &state.connections[connection];
            commands.iter().map(|words| words.join(" ")).collect()
        })
    }
}

impl State {
    fn answer(&mut self, words: &[String]) -> Answer {
        let Some(name) = words.first() else {
            self.connections.push(Vec::new());
            self.logged_in = false;
            return Answer::Silence;
        };
        self.connections.last_mut().unwrap().push(words.to_vec());
        match name.as_str() {
            "HELLO" => Answer::Reply(self.hello.clone()),
            "AUTH" => {
                self.checks += 1;
                self.logged_in = words.last().map(String::as_str) == self.password;
                Answer::Reply(if self.logged_in {
                    "+OK\r\n".into()
                } else {
                    "-ERR invalid password\r\n".into()
                })
            }
            _ if self.password.is_some() && !self.logged_in => {
                Answer::Reply("-NOAUTH Authentication required.\r\n".into())
            }
            name if name == self.denied => Answer::Reply(DENIED.into()),
            "ROLE" => Answer::Reply(self.role[0].into()),
            "INFO" if words[1] == "replication" => Answer::Reply(self.role[1].into()),
            "INFO" => Answer::Reply(bulk("# Server\r\nrun_id:ab\r\n")),
            _ => as_usual(words),
        }
    }
}

async fn open(remote: &Remote) -> Result<Opened, CallError> {
    remote.open(&[], &Handle::current(), SECOND).await
}

fn protocol(opened: &Opened) -> Protocol {
    opened.greeting.protocol
}

const REST: [&str; 3] = [
    "INFO server",
    "CLIENT SETINFO LIB-NAME leasehold",
    concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION")),
];

/// HELLO is refused in different words. The same connection goes on, and the next one does not say
/// HELLO.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_hello_is_used_in_resp2() {
    for hello in [
        UNKNOWN,
        "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `ann`, `password`, \
         \r\n",
        "-NOPROTO unsupported protocol version\r\n",
        "-NOPROTO Resp3 not supported\r\n",
        "-ERR Protocol version is not an integer or out of range\r\n",
        "-DENIED this proxy takes no HELLO\r\n",
        "*2\r\n$5\r\nproto\r\n:2\r\n",
        "%1\r\n$5\r\nproto\r\n:2\r\n",
        "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n",
        "+OK\r\n",
    ] {
        let old = Old::new(hello).with_password("pw");
        let remote = old.remote("redis://ann:pw@old:1/3");
        let opened = open(&remote)
            .await
            .map_err(|error| format!("{hello}: {error:?}"));
        assert_eq!(protocol(&opened.unwrap()), Protocol::Resp2);
        let common = [&["SELECT 3"][..], &REST].concat();
        let login = ["AUTH ann pw", "CLIENT SETNAME leasehold:test"];
        let hello = ["HELLO 3 AUTH ann pw SETNAME leasehold:test"];
        // What was refused before the login is sent again.
        assert_eq!(old.said(0), [&hello[..], &common, &login, &common].concat());
        let opened = open(&remote).await.unwrap();
        assert_eq!(protocol(&opened), Protocol::Resp2);
        assert_eq!(old.said(1), [&login[..], &common].concat());
        assert_eq!(
            old.at(|state| (state.connections.len(), state.checks)),
            (2, 2)
        );
    }
}

/// A server that is down at the start is not taken for one without HELLO.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_on_everything_is_asked_for_resp3_again() {
    let server = MemoryServer::new();
    server.short(0, memory::Ending::Closed);
    let remote = server.remote();
    for attempts in 1..4 {
        let error = open(&remote).await.map(drop).unwrap_err();
        assert_not_applied(&error, "closed the connection");
        assert_eq!(server.dials(), attempts);
    }
    server.short(usize::MAX, memory::Ending::Closed);
    assert_eq!(protocol(&open(&remote).await.unwrap()), Protocol::Resp3);
}

/// A server that counts failed logins must not count two for one connection.
#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_refused_and_checked_once() {
    let old = Old::new(UNKNOWN).with_password("right");
    let remote = old.remote("redis://ann:hunter2@old:1");
    for checks in 1..4 {
        let error = open(&remote).await.map(drop).unwrap_err();
        assert_refused(&error, "invalid password");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        assert_eq!(old.at(|state| state.checks), checks);
    }
    let error = open(&old.remote(URL)).await.map(drop).unwrap_err();
    assert_refused(&error, "NOAUTH");
}

#[tokio::test(start_paused = true)]
async fn in_resp2_a_full_server_is_not_applied() {
    let (old, full) = (Old::new(UNKNOWN), Arc::new(Mutex::new(false)));
    let is_full = full.clone();
    let fakes = Fakes::new(move |_, words| match words.first() {
        Some(_) if *is_full.lock() => {
            Answer::Reply("-ERR max number of clients reached\r\n".into())
        }
        _ => old.at(|state| state.answer(words)),
    });
    let remote = fakes.remote(URL);
    open(&remote).await.unwrap();
    *full.lock() = true;
    let error = open(&remote).await.map(drop).unwrap_err();
    assert_not_applied(&error, "max number of clients");
}

#[tokio::test(start_paused = true)]
async fn in_resp2_the_role_is_asked_for_where_a_primary_is_needed() {
    const PRIMARY: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    const REPLICA: &str = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";
    let (primary, replica) = (
        bulk("# Replication\r\nrole:master\r\n"),
        bulk("# Replication\r\nrole:slave\r\n"),
    );
    let (primary, replica): (&'static str, &'static str) = (primary.leak(), replica.leak());
    for (role, fault) in [
        ([PRIMARY, DENIED], None),
        ([PRIMARY, primary], None),
        ([DENIED, primary], None),
        ([REPLICA, DENIED], Some("slave")),
        ([DENIED, replica], Some("slave")),
        ([DENIED, DENIED], Some("its role is None")),
    ] {
        let old = Old::new(UNKNOWN);
        old.at(|state| state.role = role);
        let opened = open(&primary_at(old.remote(URL))).await.map(drop);
        match (opened, fault) {
            (Ok(()), None) => {}
            (Err(error), Some(fault)) => assert_not_applied(&error, fault),
            (opened, _) => panic!("{role:?}: {opened:?}"),
        }
        let opened = open(&old.remote(URL)).await.map(drop);
        assert_eq!(opened, Ok(()), "{role:?}");
        assert!(!old.said(1).contains(&"ROLE".to_owned()));
    }
}

fn message(channel: &str, text: &str) -> Vec<u8> {
    array(&["message", channel, text].map(bulk)).into_bytes()
}

#[tokio::test(start_paused = true)]
async fn in_resp2_messages_arrive_between_confirmations_and_pings() {
    let server = MemoryServer::new().in_resp2();
    let testbed = MemoryTestbed::new(server.clone()).await;
    let subscribe = async |name: &str| {
        testbed
            .redis
            .subscribe(&Arc::from(name), PubSub::Plain)
            .await
    };
    subscribe("a").await.unwrap();
    let socket = server.socket(MESSAGES);
    // In pieces of any length.
    let (first, second) = (message("a", "1"), message("a", "2"));
    for byte in &first {
        socket.say(&[*byte]);
    }
    socket.say(&second);
    subscribe("b").await.unwrap();
    until("both messages arrive", || testbed.events.messages() == 2).await;
    // The connection is silent, and PINGs are answered.
    sleep(SECOND * 60).await;
    let pings = || socket.names().iter().filter(|name| *name == "PING").count();
    assert!(pings() > 10, "{}", pings());
    socket.say(&message("b", "3"));
    until("the third message arrives", || {
        testbed.events.messages() == 3
    })
    .await;
    testbed.redis.unsubscribe(&Arc::from("a"));
    subscribe("c").await.unwrap();
    assert_eq!(
        (testbed.redis.reconnects(), testbed.events.missed()),
        (0, 0)
    );
}

/// Scripts may return what looks like a message. On the connections for calls, it is a reply.
#[tokio::test(start_paused = true)]
async fn in_resp2_a_reply_that_looks_like_a_message_is_a_reply() {
    let server = MemoryServer::answering(|words| match words[0].as_str() {
        "EVALSHA" => message("c", "x"),
        _ => usual(words),
    });
    let server = server.in_resp2();
    let testbed = MemoryTestbed::new(server).await;
    let words = ["message", "c", "x"].map(|word| Value::Text(word.to_owned()));
    for lane in [Lane::Caller, Lane::Background] {
        let outcome = testbed.redis.call(lane, add("n")).await;
        assert_eq!(outcome, Ok(Value::Array(words.clone().into())));
    }
    assert_eq!(
        (testbed.events.messages(), testbed.redis.reconnects()),
        (0, 0)
    );
}

/// In a cluster, the server ends a sharded subscription when the slot moves. A PING follows
/// SUNSUBSCRIBE.
#[tokio::test(start_paused = true)]
async fn in_resp2_a_sharded_subscription_is_confirmed_revoked_and_ended() {
    let server = MemoryServer::new().in_resp2();
    let testbed = MemoryTestbed::new(server.clone()).await;
    let channel: Arc<str> = Arc::from("s");
    for missed in 1..4 {
        testbed
            .redis
            .subscribe(&channel, PubSub::Sharded)
            .await
            .unwrap();
        testbed.redis.unsubscribe(&channel);
        testbed
            .redis
            .subscribe(&channel, PubSub::Sharded)
            .await
            .unwrap();
        let revoked = array(&[bulk("sunsubscribe"), bulk("s"), ":0\r\n".into()]);
        server.socket(MESSAGES).say(revoked.as_bytes());
        until("the end is reported", || testbed.events.missed() == missed).await;
    }
    assert_eq!(testbed.redis.reconnects(), 0);
}

/// A provider of tokens that are valid for a minute, or none.
#[derive(Clone, Default)]
struct Issuer(Arc<Mutex<bool>>);

impl CredentialsProvider for Issuer {
    fn credentials(&self) -> CredentialsFuture<'_> {
        let is_down = *self.0.lock();
        Box::pin(async move {
            if is_down {
                return Err("no tokens".into());
            }
            Ok(Credentials::new("ann", "token").valid_for(SECOND * 60))
        })
    }
}

/// The server would refuse AUTH on a connection with subscriptions.
#[tokio::test(start_paused = true)]
async fn in_resp2_a_login_is_renewed_by_another_connection_for_messages() {
    let (server, issuer) = (MemoryServer::new().in_resp2(), Issuer::default());
    let provider = Some(Provider::new(issuer.clone()));
    let testbed = MemoryTestbed::open_by(server.clone(), provider)
        .await
        .unwrap();
    testbed
        .redis
        .subscribe(&Arc::from("a"), PubSub::Plain)
        .await
        .unwrap();
    // The issuer is down, so another connection could not log in.
    *issuer.0.lock() = true;
    sleep(SECOND * 50).await;
    assert_eq!((server.sockets().len(), testbed.events.missed()), (3, 0));
    *issuer.0.lock() = false;
    sleep(SECOND * 5).await;
    // The login would expire after 60 s.
    assert_eq!((server.sockets().len(), testbed.redis.reconnects()), (4, 1));
    assert_eq!(testbed.events.missed(), 1, "messages may have been missed");
    let logins = |number: usize| {
        let names = server.socket(number).names();
        names.iter().filter(|name| *name == "AUTH").count()
    };
    assert_eq!(
        [PRIMARY_CONNECTION, CALLER, MESSAGES, 3].map(logins),
        [2, 2, 1, 1]
    );
    let names = server.socket(3).names();
    assert!(names.contains(&"SUBSCRIBE".to_owned()), "{names:?}");
}

/// The server would refuse ROLE on a connection with subscriptions.
#[tokio::test(start_paused = true)]
async fn in_resp2_only_connections_for_calls_are_asked_for_the_role() {
    let server = MemoryServer::answering(|words| match words[0].as_str() {
        "ROLE" => b"*1\r\n$6\r\nmaster\r\n".to_vec(),
        _ => usual(words),
    });
    let server = server.in_resp2();
    let remote = primary_at(server.remote());
    let testbed = MemoryTestbed::of(server.clone(), remote, (TIMING, IfUnreachable::Fail));
    let testbed = testbed.await.unwrap();
    testbed
        .redis
        .subscribe(&Arc::from("a"), PubSub::Plain)
        .await
        .unwrap();
    sleep(SECOND * 60).await;
    let asked = |number: usize| {
        let names = server.socket(number).names();
        names.iter().filter(|name| *name == "ROLE").count()
    };
    assert!(asked(PRIMARY_CONNECTION) > 10 && asked(CALLER) > 10);
    assert_eq!(asked(MESSAGES), 1, "in the handshake");
    assert_eq!(testbed.redis.reconnects(), 0);
}

/// In RESP2, a sentinel takes no questions on a connection with subscriptions. So it is only asked.
#[tokio::test(start_paused = true)]
async fn in_resp2_a_change_that_a_sentinel_cannot_announce_is_seen_at_the_next_look() {
    for hello in [WELCOME, UNKNOWN] {
        let primary = Arc::new(Mutex::new("a"));
        let named = primary.clone();
        let fakes = Fakes::new(move |address, words| {
            let is_sentinel = address == "s:1";
            match words.first().map(String::as_str) {
                Some("HELLO") => Answer::Reply(hello.into()),
                Some("SENTINEL") if words[1] == "MASTER" => {
                    Answer::Reply(array(&["ip", *named.lock(), "port", "1"].map(bulk)))
                }
                Some("SENTINEL") => Answer::Reply("*0\r\n".into()),
                Some("PING") if hello == UNKNOWN && is_sentinel => {
                    Answer::Reply("+PONG\r\n".into())
                }
                _ => as_usual(words),
            }
        });
        let url = "redis-sentinel://s:1/locks";
        let (redis, _events) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
        sleep(SECOND * 10).await;
        *primary.lock() = "b";
        sleep(SECOND * 2).await;
        assert_eq!((fakes.dialled("s:1"), fakes.dialled("b:1")), (1, 3));
        assert!(redis.is_connected());
    }
}

/// Redis without HELLO is a server that speaks only RESP2.
fn without_hello(more: &[&str]) -> Server {
    Server::start_with(&[&["--rename-command", "HELLO", ""], more].concat())
}

#[tokio::test]
async fn a_real_server_without_hello_serves_calls_and_messages() {
    needs_a_server!();
    // The error of an unknown command repeats its arguments.
    let server = without_hello(&["--requirepass", "hunter2"]);
    let wrong = refusal(&format!("redis://:wrong@127.0.0.1:{}", server.port())).await;
    assert_refused(&wrong, "WRONGPASS");
    assert_refused(
        &refusal(&format!("redis://127.0.0.1:{}", server.port())).await,
        "NOAUTH",
    );
    let testbed = Testbed::patient(&server).await;
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(1));
    let echo = Call::new(&ECHO, [], [Arg::from("a")]);
    let (array, text) = (Value::Array, |text: &str| Value::Text(text.to_owned()));
    let expected = array(vec![
        array(vec![]),
        array(vec![text("a")]),
        Value::Nil,
        array(vec![Value::Int(1), array(vec![text("x")])]),
    ]);
    assert_eq!(
        testbed.redis.call(Lane::Background, echo).await,
        Ok(expected)
    );
    let mut publisher = server.connection();
    for round in 0..100 {
        let channel = format!("c{round}");
        testbed.subscribe(&channel).await.unwrap();
        let reply = publisher.command(&["PUBLISH", &channel, "x"]).unwrap();
        assert_eq!(reply, Reply::Int(1), "round {round}");
    }
    until("all messages are received", || {
        testbed.events.messages() == 100
    })
    .await;
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("the loss of messages is reported", || {
        testbed.events.missed() > 0
    })
    .await;
    server.command(&["PUBLISH", "c99", "x"]);
    until("the message is received", || {
        testbed.events.messages() == 101
    })
    .await;
    assert_eq!(testbed.redis.reconnects(), 1);
}
