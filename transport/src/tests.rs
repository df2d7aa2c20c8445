//! The transport against a real server, and against every fault that a server or network can have.
//!
//! Every test has its own server. A test waits for a condition instead of a duration where
//! possible.

/// Skips the test if there is no server.
macro_rules! needs_a_server {
    () => {
        if leasehold_testbed::is_missing() {
            return;
        }
    };
}

mod abilities;
mod address_maps;
mod calls;
mod clusters;
mod connecting;
mod crowds;
mod cuts;
mod drops;
mod fakes;
mod graces;
mod late;
mod lifecycle;
mod logins;
mod look_ups;
mod losses;
mod memory;
#[cfg(shuttle)]
pub(crate) mod model;
mod pacing;
mod resp2;
mod sentinels;
mod servers;
mod steps;
mod subscriptions;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_testbed::Server;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::dial::{Dial, StreamDialer};
use crate::endpoint::{Endpoint, Security};
use crate::node::{CLOSING_MAX, LANES, Node, answer};
use crate::pubsub::PubSub;
use crate::remote::Remote;
use crate::request::{CallOutcome, KeyForm};
use crate::*;

static ADD: Script = Script::new("add", "return redis.call('incrby', KEYS[1], ARGV[1])");
/// Adds a field to an empty hash.
static TAKE: Script = Script::new(
    "take",
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
       redis.call('hset', KEYS[1], ARGV[1], 1)
       return nil
     end
     return 1",
)
.takes();
/// Removes the field.
static GIVE: Script = Script::new(
    "give",
    "if redis.call('hdel', KEYS[1], ARGV[1]) == 1 then return 0 end return nil",
);
static ECHO: Script = Script::new("echo", "return {KEYS, ARGV, false, {1, {'x'}}}");

const NAME: &str = "leasehold:test";
const SECOND: Duration = Duration::from_secs(1);
const TIMING: Timing = Timing {
    command: Duration::from_millis(300),
    connect: SECOND,
    grace: SECOND,
};

/// The length of the reply to a PING with a number.
const PONG_LENGTH: usize = b"$19\r\n4611686018427387904\r\n".len();

/// Records the events of the transport.
#[derive(Default)]
struct Recorder {
    messages: Mutex<Vec<(String, Vec<u8>)>>,
    missed: AtomicUsize,
    restored: Mutex<Vec<Lane>>,
    refused: Mutex<Vec<String>>,
    /// How often another server was reported.
    switched: AtomicUsize,
    /// How long the consumer needs for each message.
    pause: Option<Duration>,
}

impl Recorder {
    fn messages(&self) -> usize {
        self.messages.lock().len()
    }

    fn missed(&self) -> usize {
        self.missed.load(Ordering::SeqCst)
    }

    /// How often another server was reported.
    fn changed(&self) -> usize {
        self.switched.load(Ordering::SeqCst)
    }

    fn refused(&self) -> Vec<String> {
        self.refused.lock().clone()
    }

    fn restored(&self, lane: Lane) -> bool {
        self.restored.lock().contains(&lane)
    }
}

impl TransportEvents for Recorder {
    fn message(&self, channel: &str, payload: &[u8]) {
        if let Some(pause) = self.pause {
            #[expect(clippy::disallowed_methods, reason = "a consumer that blocks")]
            std::thread::sleep(pause);
        }
        self.messages
            .lock()
            .push((channel.to_owned(), payload.to_vec()));
    }

    fn missed(&self, _: Missed<'_>) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }

    fn refused(&self, channel: &str) {
        self.refused.lock().push(channel.to_owned());
    }

    fn restored(&self, lane: Lane, _: &dyn Fn(&str) -> bool) {
        self.restored.lock().push(lane);
    }

    fn primary_changed(&self, _: &dyn Fn(&str) -> bool) {
        self.switched.fetch_add(1, Ordering::SeqCst);
    }
}

/// A runtime on its own thread, as the library has one.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        OwnRuntime(Some(runtime.unwrap()))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().unwrap().handle()
    }

    fn tasks(&self) -> usize {
        self.handle().metrics().num_alive_tasks()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        self.0.take().unwrap().shutdown_background();
    }
}

impl Node {
    async fn call(&self, lane: Lane, call: Call) -> CallOutcome {
        let sent = self.send(lane, call, KeyForm::Plain)?;
        answer(sent).await
    }
}

/// The server, refused unless it is a primary.
fn primary_at(mut remote: Remote) -> Remote {
    remote.handshake.primary_only = true;
    remote
}

/// A connected transport with all that it needs. A test declares it last, so that it is dropped
/// first.
struct Testbed {
    redis: Arc<Node>,
    events: Arc<Recorder>,
    own: OwnRuntime,
}

impl Testbed {
    async fn new(server: &Server) -> Self {
        Testbed::at(&server.url()).await
    }

    async fn at(url: &str) -> Self {
        Testbed::with(url, Recorder::default()).await
    }

    async fn with(url: &str, events: Recorder) -> Self {
        let (own, events) = (OwnRuntime::new(), Arc::new(events));
        let redis = connect(url, events.clone(), own.handle()).await.unwrap();
        Testbed {
            redis: Arc::new(redis),
            events,
            own,
        }
    }

    /// A testbed whose runtime is blocked: nothing runs on a current-thread runtime outside
    /// `block_on`.
    fn on_a_runtime_that_stands_still(server: &Server) -> (Self, Runtime) {
        let (own, events) = (OwnRuntime::new(), Arc::new(Recorder::default()));
        let callers = Builder::new_current_thread().enable_all().build().unwrap();
        let redis = callers
            .block_on(connect(&server.url(), events.clone(), own.handle()))
            .unwrap();
        (
            Testbed {
                redis: Arc::new(redis),
                events,
                own,
            },
            callers,
        )
    }

    /// A testbed with a longer timeout, for work that may take longer than the timeout of the other
    /// tests.
    async fn patient(server: &Server) -> Self {
        Testbed::patient_at(&server.url()).await
    }

    async fn patient_at(url: &str) -> Self {
        let (own, events) = (OwnRuntime::new(), Arc::<Recorder>::default());
        let timing = Timing {
            command: SECOND * 10,
            connect: SECOND,
            ..TIMING
        };
        let redis = connect_to(
            remote(url),
            timing,
            events.clone(),
            own.handle(),
            IfUnreachable::Fail,
        );
        Testbed {
            redis: Arc::new(redis.await.unwrap()),
            events,
            own,
        }
    }

    async fn add(&self, lane: Lane, key: &str) -> Result<i64, CallError> {
        self.redis
            .call(lane, add(key))
            .await
            .map(|value| match value {
                Value::Int(number) => number,
                other => panic!("{other:?}"),
            })
    }

    /// Waits until a call on the lane is answered.
    async fn until_up(&self, lane: Lane) {
        let deadline = Instant::now() + SECOND * 10;
        while let Err(error) = self.add(lane, "up").await {
            assert!(
                Instant::now() < deadline,
                "{lane:?} does not come back: {error:?}"
            );
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<(), CallError> {
        self.redis
            .subscribe(&Arc::from(channel), PubSub::Plain)
            .await
    }
}

async fn connect(url: &str, events: Arc<Recorder>, background: &Handle) -> Result<Node, CallError> {
    connect_to(remote(url), TIMING, events, background, IfUnreachable::Fail).await
}

async fn connect_to(
    remote: Remote,
    timing: Timing,
    events: Arc<Recorder>,
    own: &Handle,
    if_unreachable: IfUnreachable,
) -> Result<Node, CallError> {
    Node::connect(remote, setup(timing, events, own), if_unreachable).await
}

fn setup(timing: Timing, events: Arc<Recorder>, own: &Handle) -> Setup {
    Setup {
        name: NAME.to_owned(),
        tls: None,
        provider: None,
        streams: None,
        timing,
        events,
        runtimes: Runtimes {
            caller: Handle::current(),
            own: own.clone(),
        },
        sharded_pubsub: ShardedPubSub::Auto,
        servers: Servers::default(),
    }
}

fn remote(url: &str) -> Remote {
    let endpoint = Endpoint::parse(url).unwrap();
    #[cfg(feature = "tls")]
    let tls = (endpoint.security() == Security::Tls).then(tls::system);
    #[cfg(not(feature = "tls"))]
    let tls = None;
    Remote::new(Dial::to(&endpoint, tls.as_ref()).unwrap(), &endpoint, NAME)
}

fn add(key: &str) -> Call {
    Call::new(&ADD, [Arc::from(key)], [Arg::Int(1)])
}

fn take(key: &str, owner: &str) -> Call {
    with_field(&TAKE, key, owner)
}

fn give(key: &str, owner: &str) -> Call {
    with_field(&GIVE, key, owner)
}

fn with_field(script: &'static Script, key: &str, owner: &str) -> Call {
    Call::new(script, [Arc::from(key)], [Arg::from(owner)])
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SECOND * 10;
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

fn count(server: &Server, key: &str) -> i64 {
    match server.command(&["GET", key]) {
        leasehold_testbed::Reply::Nil => 0,
        reply => reply.int(),
    }
}
