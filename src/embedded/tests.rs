//! The engine and a client of it: order, delivery, outages.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::EmbeddedRedis;
use super::testing::{LinkControl, Reply, Restart};
use crate::protocol::{Arg, Call, Script, Value, lock};
use crate::transport::{
    CallError, IfUnreachable, Lane, Missed, Runtimes, Servers, Setup, ShardedPubSub, Timing,
    Transport, TransportEvents,
};

const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl TransportEvents for Recorder {
    fn message(&self, channel: &str, payload: &[u8]) {
        self.0
            .lock()
            .push(format!("{channel}={}", String::from_utf8_lossy(payload)));
    }
    fn missed(&self, _: Missed<'_>) {
        self.0.lock().push("missed".to_owned());
    }
    fn restored(&self, lane: Lane, _: &dyn Fn(&str) -> bool) {
        self.0.lock().push(format!("restored {lane:?}"));
    }

    fn primary_changed(&self, _: &dyn Fn(&str) -> bool) {}
}

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

fn transport(redis: &EmbeddedRedis, runtime: &Handle) -> (Transport, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let timing = Timing {
        command: TIMEOUT,
        connect: TIMEOUT,
        grace: TIMEOUT,
    };
    let setup = Setup {
        name: "test".to_owned(),
        tls: None,
        provider: None,
        streams: Some(redis.stream_dialer(runtime)),
        timing,
        events: recorder.clone(),
        runtimes: Runtimes {
            caller: runtime.clone(),
            own: runtime.clone(),
        },
        sharded_pubsub: ShardedPubSub::Auto,
        servers: Servers::default(),
    };
    let connected = Transport::connect(redis.deployment(), setup, IfUnreachable::RetryLater);
    let connected = connected.now_or_never().expect("it needs no await");
    (connected.expect("a good URL"), recorder)
}

fn connect(redis: &EmbeddedRedis) -> (Transport, LinkControl, Arc<Recorder>) {
    let (client, recorder) = transport(redis, &Handle::current());
    let control = redis.links().pop().expect("just made");
    (client, control, recorder)
}

fn call(script: &'static Script, args: &[&str]) -> Call {
    let args = args.iter().map(|arg| Arg::from(*arg));
    Call::new(script, [Arc::from("k")], args)
}

fn acquire(owner: &str) -> Call {
    call(&lock::ACQUIRE, &[owner, "30000"])
}

fn release(owner: &str) -> Call {
    call(&lock::RELEASE, &["ch", "PUBLISH", "0", owner])
}

/// Long enough for everything, a new connection included.
async fn settle() {
    sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_distinguishes_unknown_from_not_applied() {
    let redis = EmbeddedRedis::new();
    let (client, control, recorder) = connect(&redis);
    let channel: Arc<str> = Arc::from("ch");
    assert_eq!(client.subscribe(&channel, "k").await, Ok(()));
    let mut under_way = Box::pin(client.call(Lane::Caller, acquire("a")));
    assert!(futures_util::poll!(&mut under_way).is_pending());
    redis.cut();
    assert!(matches!(under_way.await, Err(CallError::Unknown(_))));
    assert!(matches!(
        client.call(Lane::Caller, acquire("a")).await,
        Err(CallError::NotApplied(_))
    ));
    let epoch = |lane| client.epoch(lane, "k").connection;
    assert_eq!((epoch(Lane::Caller), epoch(Lane::Background)), (1, 1));
    let (late, ..) = connect(&redis);
    assert!(matches!(
        late.subscribe(&channel, "k").await,
        Err(CallError::NotApplied(_))
    ));
    drop(late);
    redis.heal();
    settle().await;
    assert_eq!(
        recorder.take(),
        ["restored Background", "restored Caller", "missed"]
    );
    assert_eq!(redis.command(&["PUBLISH", "ch", "1"]), Ok(Reply::Int(1)));
    settle().await;
    assert_eq!(recorder.take(), ["ch=1"]);
    assert_eq!(client.reconnects(), 3);
    assert!(control.is_alive());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_engine_runs_the_waiting_calls() {
    let redis = EmbeddedRedis::new();
    let (client, ..) = connect(&redis);
    // The script is known: it is sent by its hash, once.
    assert_eq!(
        client.call(Lane::Caller, acquire("b")).await,
        Ok(Value::Nil)
    );
    assert_eq!(
        client.call(Lane::Caller, release("b")).await,
        Ok(Value::Int(0))
    );
    redis.pause();
    assert!(matches!(
        client.call(Lane::Caller, acquire("a")).await,
        Err(CallError::Unknown(_))
    ));
    assert!(redis.dump().is_empty());
    redis.resume();
    settle().await;
    assert_eq!(redis.dump().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_scripts_and_data_but_not_subscriptions() {
    let redis = EmbeddedRedis::new();
    let (client, _, recorder) = connect(&redis);
    assert_eq!(client.subscribe(&Arc::from("ch"), "k").await, Ok(()));
    assert_eq!(
        client.call(Lane::Caller, acquire("a")).await,
        Ok(Value::Nil)
    );
    redis.restart(Restart::Empty);
    settle().await;
    assert!(recorder.take().contains(&"missed".to_owned()));
    assert_eq!(
        client.call(Lane::Caller, acquire("b")).await,
        Ok(Value::Nil)
    );
    assert_eq!(redis.listeners().get("ch"), Some(&1));
    assert_eq!(redis.commands_run()["eval"], 2);
}

#[test]
fn a_client_ends_with_its_runtime() {
    let redis = EmbeddedRedis::new();
    let theirs = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (client, _) = transport(&redis, theirs.handle());
    drop(theirs);
    let ours = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(
        ours.block_on(client.call(Lane::Caller, acquire("a"))),
        Err(CallError::Closed)
    );
}
