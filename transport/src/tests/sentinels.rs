//! Sentinels in this process: which of them the client believes and asks, and its errors if none
//! answers.

use super::fakes::{Answer, Fakes, array, as_usual, bulk};
use super::*;

const URL: &str = "redis-sentinel://s1:1,s2:1,s3:1/locks";

/// The answers of one sentinel.
#[derive(Clone, Default)]
struct Sentinel {
    /// `None` if it knows no master of that name.
    primary: Option<&'static str>,
    /// The other sentinels that it lists: their addresses and flags.
    others: Vec<(String, &'static str)>,
    /// True if nobody can connect to it.
    is_down: bool,
}

/// All sentinels, and all servers: address, replication id, and former replication id.
#[derive(Default)]
struct World {
    sentinels: Vec<(&'static str, Sentinel)>,
    servers: Vec<(&'static str, &'static str, &'static str)>,
}

#[derive(Clone, Default)]
struct Deployment(Arc<Mutex<World>>);

impl Deployment {
    /// Three sentinels that name the server `a`. The servers `b` and `x` run, too, and `b` was a
    /// replica of `a`.
    fn new() -> Self {
        let world = Deployment::default();
        for name in ["s1:1", "s2:1", "s3:1"] {
            world.say(name, "a");
        }
        let servers = [
            ("a:1", "ida", "none"),
            ("b:1", "idb", "none"),
            ("x:1", "idx", "none"),
        ];
        world.0.lock().servers = servers.to_vec();
        world
    }

    fn at(&self, name: &'static str, change: impl FnOnce(&mut Sentinel)) {
        let sentinels = &mut self.0.lock().sentinels;
        if !sentinels.iter().any(|(other, _)| *other == name) {
            sentinels.push((name, Sentinel::default()));
        }
        change(
            &mut sentinels
                .iter_mut()
                .find(|(other, _)| *other == name)
                .unwrap()
                .1,
        );
    }

    fn say(&self, name: &'static str, primary: &'static str) {
        self.at(name, |sentinel| sentinel.primary = Some(primary));
    }

    fn know(&self, name: &'static str, others: &[(&str, &'static str)]) {
        let others = others
            .iter()
            .map(|(other, flags)| ((*other).to_owned(), *flags))
            .collect();
        self.at(name, |sentinel| sentinel.others = others);
    }

    /// Makes the server `b` the successor of `a`.
    fn promote_b(&self) {
        self.0.lock().servers[1].2 = "ida";
    }

    fn fakes(&self) -> Fakes {
        let world = self.clone();
        Fakes::new(move |address, words| world.answer(address, words))
    }

    fn answer(&self, address: &str, words: &[String]) -> Answer {
        let inside = self.0.lock();
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        if let Some((_, sentinel)) = inside.sentinels.iter().find(|(name, _)| *name == address) {
            return match (word(0), word(1)) {
                _ if sentinel.is_down => Answer::End,
                ("SENTINEL", "MASTER") => Answer::Reply(match sentinel.primary {
                    Some(primary) => array(&["ip", primary, "port", "1"].map(bulk)),
                    None => "-ERR No such master with that name\r\n".to_owned(),
                }),
                ("SENTINEL", "SENTINELS") => {
                    let others = sentinel.others.iter().map(|(name, flags)| {
                        let (host, port) = name.split_once(':').unwrap();
                        array(&["ip", host, "port", port, "flags", flags].map(bulk))
                    });
                    Answer::Reply(array(&others.collect::<Vec<_>>()))
                }
                _ => as_usual(words),
            };
        }
        match inside.servers.iter().find(|(name, ..)| *name == address) {
            // No server has this address.
            None => Answer::End,

            Some((_, id, former)) if word(0) == "INFO" => Answer::Reply(bulk(&format!(
                "# Replication\r\nrole:master\r\nmaster_replid:{id}\r\nmaster_replid2:{former}\r\n"
            ))),
            Some(_) => as_usual(words),
        }
    }
}

fn server(redis: &Transport) -> String {
    redis.server_of(NodeId::default())
}

/// How often another primary was reported, and how often connections were replaced.
fn disturbed(redis: &Transport, events: &Recorder) -> (usize, u64) {
    (events.switched.load(Ordering::SeqCst), redis.reconnects())
}

/// Long enough to ask each sentinel many times, also for other sentinels.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn one_sentinel_alone_moves_no_client() {
    let world = Deployment::new();
    let (redis, events) = world.fakes().open(URL, IfUnreachable::Fail).await.unwrap();
    sleep(LONG).await;
    // The address of s3 now belongs to another deployment, with a master of the same name.
    world.say("s3:1", "x");
    sleep(LONG).await;
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events)),
        ("redis://a:1", (0, 0))
    );
    // The client stays even if the other sentinels do not answer.
    for name in ["s1:1", "s2:1"] {
        world.at(name, |sentinel| sentinel.is_down = true);
    }
    sleep(LONG).await;
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events)),
        ("redis://a:1", (0, 0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_sentinel_moves_the_client() {
    let world = Deployment::new();
    let (redis, events) = world.fakes().open(URL, IfUnreachable::Fail).await.unwrap();
    world.say("s2:1", "b");
    sleep(LONG).await;
    assert_eq!(server(&redis), "redis://a:1");
    world.say("s1:1", "b");
    sleep(LONG).await;
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events).0),
        ("redis://b:1", 1)
    );
}

/// Two of three sentinels are gone, so there is no majority. The new server itself proves that it
/// is the successor.
#[tokio::test(start_paused = true)]
async fn a_successor_that_proves_itself_needs_no_second_sentinel() {
    let world = Deployment::new();
    let (redis, events) = world.fakes().open(URL, IfUnreachable::Fail).await.unwrap();
    sleep(LONG).await;
    for name in ["s1:1", "s2:1"] {
        world.at(name, |sentinel| sentinel.is_down = true);
    }
    world.promote_b();
    world.say("s3:1", "b");
    sleep(LONG).await;
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events).0),
        ("redis://b:1", 1)
    );
    // The former primary is no successor of this one.
    world.say("s3:1", "a");
    sleep(LONG).await;
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events).0),
        ("redis://b:1", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn sentinels_that_disagree_keep_the_present_server() {
    let world = Deployment::new();
    world.say("s2:1", "b");
    let url = "redis-sentinel://s1:1,s2:1/locks";
    let (redis, events) = world.fakes().open(url, IfUnreachable::Fail).await.unwrap();
    sleep(LONG).await;
    let before = (server(&redis), disturbed(&redis, &events));
    for _ in 0..10 {
        for name in ["s1:1", "s2:1"] {
            world.at(name, |sentinel| sentinel.is_down = true);
            sleep(SECOND * 5).await;
            world.at(name, |sentinel| sentinel.is_down = false);
            sleep(SECOND * 5).await;
        }
    }
    assert_eq!((server(&redis), disturbed(&redis, &events)), before);
}

#[tokio::test(start_paused = true)]
async fn one_of_three_sentinels_is_enough_to_start() {
    let world = Deployment::new();
    for name in ["s1:1", "s3:1"] {
        world.at(name, |sentinel| sentinel.is_down = true);
    }
    let (redis, _) = world.fakes().open(URL, IfUnreachable::Fail).await.unwrap();
    assert_eq!(server(&redis), "redis://a:1");
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_start_with_the_first_answer_while_others_may_come() {
    let world = Deployment::new();
    world.say("s1:1", "x");
    for name in ["s2:1", "s3:1"] {
        world.at(name, |sentinel| sentinel.is_down = true);
    }
    let late = async {
        sleep(Duration::from_millis(30)).await;
        for name in ["s2:1", "s3:1"] {
            world.at(name, |sentinel| sentinel.is_down = false);
        }
    };
    let fakes = world.fakes();
    let (opened, ()) = tokio::join!(fakes.open(URL, IfUnreachable::Fail), late);
    let (redis, events) = opened.unwrap();
    assert_eq!(
        (server(&redis).as_str(), disturbed(&redis, &events).0),
        ("redis://a:1", 0)
    );
    assert_eq!(fakes.dialled("x:1"), 0);
}

#[tokio::test(start_paused = true)]
async fn lost_sentinels_are_forgotten_and_new_ones_are_learned() {
    let world = Deployment::new();
    let fakes = world.fakes();
    let dead: Vec<_> = (0..127).map(|number| format!("dead{number}:1")).collect();
    let dead: Vec<_> = dead.iter().map(String::as_str).collect();
    let all = |flags| dead.iter().map(|name| (*name, flags)).collect::<Vec<_>>();
    let dials = || dead.iter().map(|name| fakes.dialled(name)).sum::<usize>();
    world.know("s1:1", &all("sentinel"));
    let url = "redis-sentinel://s1:1/locks";
    let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
    sleep(LONG).await;
    assert!(dials() > 127, "the dead sentinels were not asked");
    // The list of a sentinel that has noticed the loss.
    let living = [("s2:1", "sentinel"), ("s3:1", "sentinel")];
    world.know(
        "s1:1",
        &[&all("s_down,sentinel,disconnected")[..], &living].concat(),
    );
    world.know("s2:1", &[("s1:1", "sentinel"), ("s3:1", "sentinel")]);
    world.know("s3:1", &[("s1:1", "sentinel"), ("s2:1", "sentinel")]);
    sleep(LONG).await;
    let before = dials();
    sleep(LONG).await;
    assert_eq!(dials(), before, "the dead sentinels were asked again");
    // Learned sentinels count towards the majority, so two of three are enough.
    for name in ["s2:1", "s3:1"] {
        world.say(name, "b");
    }
    sleep(LONG).await;
    assert_eq!(server(&redis), "redis://b:1");
}

/// If a sentinel of another deployment has one of our addresses, the client does not learn the
/// sentinels that it lists.
#[tokio::test(start_paused = true)]
async fn a_sentinel_that_only_one_names_is_not_asked() {
    let world = Deployment::new();
    let fakes = world.fakes();
    let (redis, _) = fakes.open(URL, IfUnreachable::Fail).await.unwrap();
    let friends = ["x1:1", "x2:1", "x3:1"];
    world.know("s3:1", &friends.map(|name| (name, "sentinel")));
    world.say("s3:1", "x");
    for name in friends {
        world.say(name, "x");
    }
    sleep(LONG).await;
    assert_eq!(friends.map(|name| fakes.dialled(name)), [0; 3]);
    assert_eq!(server(&redis), "redis://a:1");
}

#[tokio::test(start_paused = true)]
async fn the_fault_of_each_sentinel_is_in_the_error() {
    let world = Deployment::new();
    world.at("s1:1", |sentinel| sentinel.is_down = true);
    world.at("s2:1", |sentinel| sentinel.primary = None);
    let inside = world.clone();
    let fakes = Fakes::new(move |address, words| {
        let is_login = words.first().is_some_and(|word| word == "HELLO");
        if address == "s3:1" && is_login {
            return Answer::Reply("-WRONGPASS invalid username-password pair\r\n".to_owned());
        }
        inside.answer(address, words)
    });
    let refused = fakes
        .open(URL, IfUnreachable::Fail)
        .await
        .map(drop)
        .unwrap_err();
    let CallError::Refused(Fault(text)) = &refused else {
        panic!("{refused:?}")
    };
    for cause in [
        "redis://s1:1: connection refused",
        "s2:1: ERR No such master",
        "redis://s3:1: WRONGPASS",
    ] {
        assert!(text.contains(cause), "{cause}: {text}");
    }
    // A client that connects in the background reports the same to its callers.
    let (redis, _) = fakes.open(URL, IfUnreachable::RetryLater).await.unwrap();
    let outcome = redis.call(Lane::Caller, add("n")).await;
    let Err(CallError::NotApplied(Fault(text))) = &outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        text.contains("s3:1: WRONGPASS") && text.contains("s1:1: connection"),
        "{text}"
    );
    // If only the network is at fault, a later attempt may succeed.
    let nobody = "redis-sentinel://s1:1/locks";
    let outcome = fakes.open(nobody, IfUnreachable::Fail).await.map(drop);
    assert!(
        matches!(outcome, Err(CallError::NotApplied(_))),
        "{outcome:?}"
    );
}

/// The errors for a real server, a real port and the real resolver.
#[tokio::test]
async fn every_cause_of_a_failed_start_is_named() {
    needs_a_server!();
    let server = Server::start_with(&["--requirepass", "right"]);
    let here = format!("127.0.0.1:{}", server.port());
    let mut cases = vec![
        ("redis-sentinel://127.0.0.1:1/locks".to_owned(), "refused"),
        (
            format!("redis-sentinel://{here}/locks?sentinel_password=hunter2"),
            "WRONGPASS",
        ),
        (
            format!("redis-sentinel://{here}/locks?sentinel_password=right"),
            "SENTINEL",
        ),
        (
            "redis-sentinel://nonexistent.invalid/locks".to_owned(),
            "lookup",
        ),
    ];
    if cfg!(feature = "tls") {
        cases.push((
            format!("rediss-sentinel://{here}/locks"),
            "does this port speak TLS?",
        ));
    }
    for (url, cause) in cases {
        let deployment = crate::Deployment::parse(&url).unwrap();
        let timing = Timing {
            connect: SECOND * 3,
            ..TIMING
        };
        let setup = Setup {
            #[cfg(feature = "tls")]
            tls: deployment.is_secured().then(tls::system),
            ..setup(timing, Arc::<Recorder>::default(), &Handle::current())
        };
        let refused = Transport::connect(deployment, setup, IfUnreachable::Fail).await;
        let refused = refused.map(drop).unwrap_err();
        let text = format!("{refused:?}");
        assert!(
            text.contains(cause) && !text.contains("hunter2"),
            "{url}: {text}"
        );
        let is_protocol = matches!(refused, CallError::Refused(_));
        assert_eq!(
            is_protocol,
            ["WRONGPASS", "SENTINEL"].contains(&cause),
            "{url}: {refused:?}"
        );
    }
}

/// A plain server or sentinel takes a TLS handshake for the begin of a command, and stays silent.
/// The limit of `connect` is that of each attempt, so no attempt has ended by then.
#[tokio::test]
#[cfg(feature = "tls")]
async fn a_silent_server_may_not_speak_tls() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let here = silent.local_addr().unwrap();
    for url in [
        format!("rediss://{here}"),
        format!("rediss-sentinel://{here}/locks"),
        format!("rediss-cluster://{here}"),
    ] {
        let setup = Setup {
            tls: Some(tls::system()),
            ..setup(TIMING, Arc::<Recorder>::default(), &Handle::current())
        };
        let deployment = crate::Deployment::parse(&url).unwrap();
        let refused = Transport::connect(deployment, setup, IfUnreachable::Fail).await;
        let text = format!("{:?}", refused.map(drop).unwrap_err());
        let cause = format!("cannot connect to rediss://{here}: no answer");
        assert!(text.contains(&cause), "{url}: {text}");
        assert!(text.contains("does this port speak TLS?"), "{url}: {text}");
    }
}

/// The attempt to reach it begins later than the limit of `connect`.
#[tokio::test(start_paused = true)]
async fn a_primary_that_is_silent_is_the_cause() {
    let world = Deployment::new();
    let inside = world.clone();
    let fakes = Fakes::new(move |address, words| match address {
        "a:1" => Answer::Silence,
        _ => inside.answer(address, words),
    });
    let refused = fakes.strict().open(URL, IfUnreachable::Fail).await;
    let refused = refused.map(drop);
    connecting::assert_not_applied(&refused.unwrap_err(), "redis://a:1: no answer");
}
