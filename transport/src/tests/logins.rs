//! Logins with a provider: when it is asked, and how an open connection uses new credentials.

use super::memory::{MemoryServer, MemoryTestbed, Socket, usual};
use super::*;
use crate::credentials::{Credentials, CredentialsFuture, CredentialsProvider, Provider};
use crate::login::Login;

/// A provider that returns what the test sets, and counts requests.
#[derive(Clone, Default)]
struct Vault(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    /// The credentials or an error. `None` if the provider never answers.
    given: Option<Result<Credentials, String>>,
    asked: usize,
}

impl Vault {
    fn with(credentials: Credentials) -> Self {
        let vault = Vault::default();
        vault.set(Ok(credentials));
        vault
    }

    fn set(&self, given: Result<Credentials, String>) {
        self.0.lock().given = Some(given);
    }

    fn asked(&self) -> usize {
        self.0.lock().asked
    }
}

impl CredentialsProvider for Vault {
    fn credentials(&self) -> CredentialsFuture<'_> {
        let given = {
            let mut contents = self.0.lock();
            contents.asked += 1;
            contents.given.clone()
        };
        Box::pin(async {
            match given {
                Some(given) => Ok(given?),
                None => std::future::pending().await,
            }
        })
    }
}

fn ann(password: &str) -> Credentials {
    Credentials::new("ann", password)
}

async fn in_memory(
    server: &MemoryServer,
    provider: impl CredentialsProvider,
) -> Result<MemoryTestbed, CallError> {
    MemoryTestbed::open_by(server.clone(), Some(Provider::new(provider))).await
}

/// The AUTH commands of each connection, after its handshake.
fn renewals(server: &MemoryServer) -> Vec<Vec<Vec<String>>> {
    let logins = |commands: &[Vec<String>]| {
        commands
            .iter()
            .filter(|words| words[0] == "AUTH")
            .cloned()
            .collect()
    };
    server
        .sockets()
        .iter()
        .map(|socket| socket.at(|state| logins(&state.commands)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_login_is_renewed_on_each_living_connection_before_its_credentials_expire() {
    let (server, minute) = (MemoryServer::new(), SECOND * 60);
    let vault = Vault::with(ann("first").valid_for(minute));
    let testbed = in_memory(&server, vault.clone()).await.unwrap();
    assert_eq!(vault.asked(), 3);
    sleep(SECOND * 44).await;
    assert_eq!(renewals(&server), vec![Vec::<Vec<String>>::new(); 3]);
    vault.set(Ok(ann("second").valid_for(minute)));
    sleep(SECOND * 2).await;
    let second = ["AUTH", "ann", "second"].map(str::to_owned).to_vec();
    assert_eq!(renewals(&server), vec![vec![second.clone()]; 3]);
    // These credentials never expire.
    vault.set(Ok(ann("third")));
    sleep(minute * 100).await;
    let third = ["AUTH", "ann", "third"].map(str::to_owned).to_vec();
    assert_eq!(renewals(&server), vec![vec![second, third]; 3]);
    assert_eq!((vault.asked(), testbed.redis.reconnects()), (9, 0));
}

#[tokio::test(start_paused = true)]
async fn credentials_that_never_expire_are_requested_once() {
    let server = MemoryServer::new();
    for credentials in [ann("x"), ann("x").valid_for(Duration::MAX)] {
        let vault = Vault::with(credentials);
        let _testbed = in_memory(&server, vault.clone()).await.unwrap();
        sleep(SECOND * 1_000).await;
        assert_eq!(vault.asked(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_expire_at_once_are_renewed_with_pauses() {
    let server = MemoryServer::new();
    let vault = Vault::with(ann("x").valid_for(Duration::ZERO));
    let testbed = in_memory(&server, vault.clone()).await.unwrap();
    sleep(SECOND * 10).await;
    assert!((200..=303).contains(&vault.asked()), "{}", vault.asked());
    assert_eq!(testbed.redis.reconnects(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_ends_no_living_connection() {
    let server = MemoryServer::new();
    let vault = Vault::with(Credentials::password("x").valid_for(SECOND * 60));
    let testbed = in_memory(&server, vault.clone()).await.unwrap();
    vault.set(Err("the vault is sealed".into()));
    sleep(SECOND * 600).await;
    assert!(vault.asked() > 100, "it is asked again: {}", vault.asked());
    assert_eq!(
        (server.sockets().len(), renewals(&server).concat().len()),
        (3, 0)
    );
    assert_eq!(
        testbed.redis.call(Lane::Caller, add("n")).await,
        Ok(Value::Nil)
    );
    vault.set(Ok(Credentials::password("y")));
    sleep(SECOND * 5).await;
    let renewed = ["AUTH", "default", "y"].map(str::to_owned).to_vec();
    assert_eq!(renewals(&server), vec![vec![renewed]; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_connection_once_its_credentials_have_expired() {
    let server = MemoryServer::answering(|words| match words[0].as_str() {
        "AUTH" => b"-WRONGPASS invalid username-password pair or user is disabled.\r\n".to_vec(),
        _ => usual(words),
    });
    let vault = Vault::with(ann("x").valid_for(SECOND * 60));
    let testbed = in_memory(&server, vault.clone()).await.unwrap();
    sleep(SECOND * 59).await;
    assert!(
        renewals(&server).iter().all(|of_one| of_one.len() > 3),
        "{:?}",
        renewals(&server)
    );
    assert_eq!(
        server.sockets().len(),
        3,
        "the connection was given up too early"
    );
    sleep(SECOND * 5).await;
    assert_eq!((server.sockets().len(), testbed.redis.reconnects()), (6, 3));
    let gone = server.sockets()[..3]
        .iter()
        .all(|socket| socket.at(|state| state.halves) == 0);
    assert!(gone, "and the old ones are closed");
}

/// Each of these answers fails the first login, and the error contains the reason.
#[tokio::test(start_paused = true)]
async fn calls_are_not_applied_while_the_provider_gives_nothing() {
    let panicking = || -> std::future::Ready<Result<Credentials, Box<_>>> { panic!("as it likes") };
    let failing = Vault::default();
    failing.set(Err("the vault is sealed".into()));
    let server = MemoryServer::new();
    let texts = [
        in_memory(&server, failing).await,
        in_memory(&server, panicking).await,
        in_memory(&server, Vault::default()).await,
    ]
    .map(|outcome| match outcome.map(drop) {
        Err(CallError::NotApplied(Fault(text))) => text,
        other => panic!("{other:?}"),
    });
    for (text, part) in texts
        .iter()
        .zip(["the vault is sealed", "panicked", "no answer within"])
    {
        assert!(text.contains(part), "expected `{part}`: {text}");
    }
    let closed = |socket: &Socket| socket.at(|state| state.halves) == 0;
    until("no stream stays open", || {
        server.sockets().iter().all(closed)
    })
    .await;
}

/// Errors of servers and proxies that repeat all or a part of what they were sent.
const ECHOES: [&str; 6] = [
    "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'ann' '{}' \r\n",
    "-ERR unknown command `AUTH`: ann {}\r\n",
    "-DENIED no backend takes HELLO/3/AUTH/ann/{}/SETNAME\r\n",
    "-WRONGPASS {} {} is not the password, {}is not\r\n",
    "!{length}\r\nERR {}\r\n",
    ">1\r\n-ERR {}\r\n",
];

#[tokio::test(start_paused = true)]
async fn no_error_shows_a_password_that_the_server_repeats() {
    let token = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.xQ7Zp2Kd";
    for secret in ["hunter2", "p@ss w/rd", token] {
        // The whole password, and parts of it, as servers cut long arguments.
        for part in [
            secret,
            &secret[..secret.len().min(20)],
            &secret[secret.len().saturating_sub(20)..],
        ] {
            for echo in ECHOES {
                let length = (part.len() + 4).to_string();
                let text = echo.replace("{length}", &length).replace("{}", part);
                let answer = text.clone().into_bytes();
                let server = MemoryServer::answering(move |words| match words[0].as_str() {
                    "AUTH" => answer.clone(),
                    _ => usual(words),
                });
                server.welcome(&text);
                let refused = in_memory(&server, ann(secret)).await.map(drop).unwrap_err();
                let shown = format!("{refused:?}");
                assert!(!shown.contains(part), "{text:?}: {shown}");
                // The error still contains the rest of the text.
                assert!(shown.contains("***"), "{text:?}: {shown}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_renewal_shows_a_password_that_the_server_repeats() {
    let server = MemoryServer::answering(|words| match words[0].as_str() {
        "AUTH" => format!("-ERR a proxy does not know AUTH {}\r\n", words[2]).into_bytes(),
        _ => usual(words),
    });
    let testbed = MemoryTestbed::new(server).await;
    let login = Login::Provider(Provider::new(ann("hunter2").valid_for(SECOND * 60)));
    let own = Handle::current();
    let (_, validity) = login.credentials(&own).await.unwrap();
    let Fault(why) = login
        .keep(&*testbed.caller().await, validity, &own, SECOND)
        .await;
    assert!(why.contains("a proxy does not know AUTH ***"), "{why}");
    assert!(!why.contains("hunter2"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn no_request_shows_its_password() {
    let (answer, _receiver) = tokio::sync::oneshot::channel();
    let words = vec![b"AUTH".to_vec(), b"hunter2".to_vec()];
    let request = request::ConnectionRequest::Command(request::CommandRequest { words, answer });
    let shown = format!("{request:?} {:?}", Provider::new(ann("hunter2")));
    // The password appears neither as text nor as a list of bytes.
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117"),
        "{shown}"
    );
}
