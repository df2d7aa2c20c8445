//! What one connection has learned about a server, all others to the same address know.

use super::connecting::assert_not_applied;
use super::fakes::{Answer, Fakes, as_usual, bulk};
use super::*;

/// What a server has got, and the words that it refuses.
#[derive(Clone)]
struct Strict {
    said: Arc<Mutex<Vec<String>>>,
    run_id: Arc<Mutex<String>>,
    fakes: Fakes,
}

const UNKNOWN: &str = "-ERR unknown command\r\n";

impl Strict {
    /// `refuses` gets the command with its arguments.
    fn new(refuses: impl Fn(&str) -> Option<&'static str> + Send + 'static) -> Self {
        let (said, run_id) = (
            Arc::<Mutex<Vec<String>>>::default(),
            Arc::new(Mutex::new("ab".to_owned())),
        );
        let (all, id) = (said.clone(), run_id.clone());
        let fakes = Fakes::new(move |_, words| {
            let text = words.join(" ");
            if words.is_empty() {
                return as_usual(words);
            }
            all.lock().push(text.clone());
            match refuses(&text) {
                Some("") => Answer::End,
                Some(error) => Answer::Reply(error.to_owned()),
                None if text == "INFO server" => {
                    Answer::Reply(bulk(&format!("# Server\r\nrun_id:{}\r\n", id.lock())))
                }
                None if words[0] == "EVALSHA" => Answer::Reply("-NOSCRIPT none\r\n".to_owned()),
                None if words[0] == "EVAL" => Answer::Reply(":1\r\n".to_owned()),
                None => as_usual(words),
            }
        });
        let fakes = fakes.strict();
        Strict {
            said,
            run_id,
            fakes,
        }
    }

    fn said(&self, begin: &str) -> usize {
        let said = self.said.lock();
        said.iter().filter(|text| text.starts_with(begin)).count()
    }

    async fn open(&self) -> Result<Transport, CallError> {
        let opened = self.fakes.open("redis://a:1", IfUnreachable::Fail).await;
        opened.map(|(transport, _)| transport)
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_for_its_scripts_once() {
    let server = Strict::new(|_| None);
    let transport = server.open().await.unwrap();
    let abilities = transport.abilities(NodeId::default());
    assert_eq!(abilities.scripts, Some(Scripts::Any));
    assert_eq!(server.said("HELLO"), 3, "three connections");
    assert_eq!((server.said("EVALSHA"), server.said("EVAL ")), (1, 0));
    assert_eq!(
        transport.call(Lane::Caller, add("n")).await,
        Ok(Value::Int(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_scripts_without_keys_is_asked_with_one() {
    let server = Strict::new(|text| {
        if text.contains("run_id") {
            return Some("$2\r\nab\r\n");
        }
        (text.starts_with("EVALSHA") && text.ends_with(" 0")).then_some("-ERR no keys\r\n")
    });
    let transport = server.open().await.unwrap();
    assert!(transport.wants_keys());
    let with_a_key = "EVAL local key = KEYS[1] return redis.call('exists', key) 1 ";
    assert_eq!(server.said(with_a_key), 1);
    let without = Call {
        keys: Keys::new(),
        ..add("n")
    };
    let error = transport.call(Lane::Caller, without).await.unwrap_err();
    assert!(matches!(error, CallError::Refused(_)), "{error:?}");
    assert_eq!(server.said("EVALSHA"), 1, "the question only");
    assert_eq!(
        transport.call(Lane::Caller, add("n")).await,
        Ok(Value::Int(1))
    );
}

/// A proxy with the words of Envoy. Who runs a script depends on the last letter of its key.
fn proxy(runs: fn(char) -> &'static str, with_two_keys: Option<&'static str>) -> Strict {
    Strict::new(move |text| {
        if text.starts_with("EVALSHA") && text.ends_with(" 0") {
            return Some("-wrong number of arguments for 'evalsha' command\r\n");
        }
        if text.ends_with("leasehold_ping:0 leasehold_ping:1") {
            return with_two_keys;
        }
        let last = text.chars().next_back().expect("a text");
        text.contains("run_id").then(|| runs(last))
    })
}

const ONE: fn(char) -> &'static str = |_| "$2\r\nab\r\n";
const TWO: fn(char) -> &'static str = |last| match last {
    '7' => "$2\r\ncd\r\n",
    _ => "$2\r\nab\r\n",
};

#[tokio::test(start_paused = true)]
async fn a_proxy_of_one_server_gets_keys_of_several_slots() {
    let server = proxy(ONE, None);
    let transport = server.open().await.unwrap();
    assert_eq!(server.said("EVAL local info"), 16);
    assert!(transport.takes_many_keys());
}

/// It would ask the server of one lock for the others of its call as well.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_chooses_a_server_by_the_first_key_is_refused() {
    for runs in [TWO, |_| "-ERR no INFO in scripts\r\n"] {
        let error = proxy(runs, None).open().await.unwrap_err();
        let says = |fault: &Fault| {
            fault
                .0
                .contains("by the first key of a script, as Envoy does")
        };
        assert!(
            matches!(&error, CallError::Refused(fault) if says(fault)),
            "{error:?}"
        );
    }
}

/// The nodes behind it refuse what would ask one of them for all.
#[tokio::test(start_paused = true)]
async fn a_proxy_of_a_cluster_gets_keys_of_one_slot() {
    let server = proxy(TWO, Some("-CROSSSLOT keys\r\n"));
    let transport = server.open().await.unwrap();
    assert!(!transport.takes_many_keys());
}

/// The proxy may be unable to say more, because its servers are away.
#[tokio::test(start_paused = true)]
async fn a_proxy_whose_servers_are_away_gets_keys_of_one_slot() {
    let server = Strict::new(|text| match text {
        _ if text.ends_with("00 0") => Some("-wrong number of arguments\r\n"),
        _ if text.ends_with("leasehold_ping") => Some("-no upstream host\r\n"),
        _ => None,
    });
    let transport = server.open().await.unwrap();
    assert_eq!(transport.abilities(NodeId::default()).scripts, None);
    assert!(!transport.takes_many_keys());
}

/// Not even one script of a lock is sent.
#[tokio::test(start_paused = true)]
async fn a_server_that_runs_no_scripts_gets_none() {
    let server = Strict::new(|text| text.starts_with("EVAL").then_some(UNKNOWN));
    let transport = server.open().await.unwrap();
    let asked = server.said("EVAL");
    let error = transport.call(Lane::Caller, add("n")).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Refused(Fault(text)) if text.contains("unknown command")),
        "{error:?}"
    );
    assert!(transport.send(Lane::Background, add("n")).is_err());
    assert_eq!(
        (asked, server.said("EVAL")),
        (2, 2),
        "with and without a key"
    );
}

/// The connections of a node, and those that only ask for the layout.
#[tokio::test(start_paused = true)]
async fn all_ways_to_an_address_share_what_is_known() {
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let down = is_down.clone();
    let server = Strict::new(move |_| down.load(Ordering::Relaxed).then_some(""));
    let setup = Setup {
        streams: Some(server.fakes.streams()),
        ..setup(TIMING, Arc::<Recorder>::default(), &Handle::current())
    };
    let endpoint = Endpoint::parse("redis://a:1").unwrap();
    let open = async || {
        let remote = setup.server(&endpoint).unwrap();
        let opened = remote.open(&[], &Handle::current(), SECOND).await;
        opened.map(drop)
    };
    assert_eq!((open().await, open().await), (Ok(()), Ok(())));
    assert_eq!(
        (server.said("EVALSHA"), server.fakes.dialled("a:1")),
        (1, 2)
    );
    is_down.store(true, Ordering::Relaxed);
    assert!(open().await.is_err());
    assert_eq!(
        server.fakes.dialled("a:1"),
        3,
        "one attempt, in the known protocol"
    );
}

/// A busy server, a user without the right, and a proxy whose server is away say nothing about
/// scripts.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_counts_as_able() {
    for error in [
        "-BUSY Redis is busy\r\n",
        "-NOPERM no permission\r\n",
        "-upstream failure\r\n",
        "-ERR server is away\r\n",
    ] {
        let is_question = |text: &str| text.ends_with("00 0") || text.ends_with("leasehold_ping");
        let server = Strict::new(move |text| is_question(text).then_some(error));
        let transport = server.open().await.unwrap();
        assert_eq!(transport.abilities(NodeId::default()).scripts, None);
        let answer = transport.call(Lane::Caller, add("n")).await;
        assert_eq!(answer, Ok(Value::Int(1)), "{error}");
    }
}

/// Another server at the same address may be able to do more.
#[tokio::test(start_paused = true)]
async fn another_server_at_the_address_is_asked_again() {
    let refuses = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let does = refuses.clone();
    let server = Strict::new(move |text| {
        (text.starts_with("EVAL") && does.load(Ordering::Relaxed)).then_some(UNKNOWN)
    });
    let remote = server.fakes.remote("redis://a:1");
    remote.known().gets_scripts();
    let open = async || {
        let opened = remote.open(&[], &Handle::current(), SECOND).await;
        drop(opened.unwrap());
        remote.known().abilities()
    };
    assert!(matches!(open().await.scripts, Some(Scripts::None(_))));
    let error = CallError::Refused(Fault("no".into()));
    remote.known().subscription_refused(&error);
    refuses.store(false, Ordering::Relaxed);
    let same = open().await;
    assert!(matches!(same.scripts, Some(Scripts::None(_))) && same.no_messages.is_some());
    *server.run_id.lock() = "cd".to_owned();
    let other = open().await;
    assert_eq!((other.scripts, other.no_messages), (None, None));
    assert_eq!(
        open().await.scripts,
        Some(Scripts::Any),
        "by the next connection"
    );
    assert_eq!(remote.known().check_call(&add("n")), Ok(()));
}

/// Whatever a connection sends, it does not get the same refusal twice.
#[tokio::test(start_paused = true)]
async fn a_refused_command_is_not_sent_again() {
    let refused = ["CLIENT SETINFO", "CONFIG GET", "WAIT"];
    let server = Strict::new(move |text| {
        let mut refused = refused.iter();
        refused
            .any(|begin| text.starts_with(begin))
            .then_some(UNKNOWN)
    });
    let transport = server.open().await.unwrap();
    assert_eq!(server.said("CLIENT SETINFO"), 2, "LIB-NAME and LIB-VER");
    let node = NodeId::default();
    for words in [
        &[b"CONFIG".as_slice(), b"GET", b"a"],
        &[b"WAIT", b"1", b"1"],
    ] {
        for lane in [Lane::Caller, Lane::Background, Lane::Caller] {
            let outcome = transport.command(node, lane, words).await;
            assert!(matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
        }
    }
    assert_eq!((server.said("CONFIG GET"), server.said("WAIT")), (1, 1));
}

/// A user may get a right while a connection lives.
#[tokio::test(start_paused = true)]
async fn a_forbidden_command_is_tried_again_after_a_minute() {
    let refused = |text: &str| {
        ["WAIT", "CONFIG"]
            .iter()
            .any(|begin| text.starts_with(begin))
    };
    let server = Strict::new(move |text| refused(text).then_some("-NOPERM no\r\n"));
    let transport = server.open().await.unwrap();
    let ask = async || {
        for words in [["WAIT", "1", "1"], ["CONFIG", "GET", "a"]] {
            let words = words.map(str::as_bytes);
            let asked = transport.command(NodeId::default(), Lane::Caller, &words);
            assert!(asked.await.is_err());
        }
    };
    let times = || (server.said("WAIT"), server.said("CONFIG"));
    ask().await;
    ask().await;
    assert_eq!(times(), (1, 1));
    sleep(SECOND * 61).await;
    ask().await;
    assert_eq!(times(), (2, 1), "no lock needs CONFIG");
}

/// Whoever may not ask one thing of a sentinel still sees its failovers, and tells servers apart.
#[test]
fn a_missing_right_silences_nothing_that_shows_failovers() {
    let known = crate::abilities::Known::default();
    let words = |text: &'static str| text.split(' ').map(str::as_bytes).collect::<Vec<_>>();
    for (asked, error, next, is_silenced) in [
        (
            "SENTINEL CKQUORUM m",
            "NOPERM no",
            "SENTINEL MASTER m",
            false,
        ),
        (
            "SENTINEL CKQUORUM m",
            "ERR Unknown subcommand",
            "SENTINEL MASTER m",
            false,
        ),
        ("INFO replication", "NOPERM no", "INFO server", false),
        ("CLUSTER INFO", "NOPERM no", "CLUSTER SLOTS", false),
        ("ROLE", "NOPERM no", "ROLE", true),
        ("ROLE", "ERR unknown command 'ROLE'", "ROLE", true),
        ("CONFIG GET a", "NOPERM no", "CONFIG GET b", true),
    ] {
        known.refused(&words(asked), error);
        let refusal = known.refusal(&words(next));
        assert_eq!(refusal.is_some(), is_silenced, "{asked}, then {next}");
    }
}

/// A port with TLS and Twemproxy end the connection without a reply, so the error names both.
#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_at_hello_may_lead_to_a_port_with_tls_or_to_twemproxy() {
    let server = Strict::new(|_| Some(""));
    let error = server.open().await.unwrap_err();
    assert_not_applied(&error, "does this port want TLS, rediss://?");
    assert_not_applied(&error, "such as Twemproxy?");
}
