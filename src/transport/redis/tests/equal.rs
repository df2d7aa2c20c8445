//! A batch answers and leaves behind what its calls would, one by one: on a server and on the
//! embedded engine.

use super::*;
use crate::protocol::{batch, plain};
use crate::transport::sort_error_reply;

static PUSH: Script = Script::new("push", "return redis.call('rpush', KEYS[1], 'x')");
static DUMP: Script = Script::new(
    "dump",
    "if redis.call('type', KEYS[1]).ok ~= 'hash' then return redis.call('exists', KEYS[1]) end
     local all = redis.call('hgetall', KEYS[1])
     table.insert(all, 1, redis.call('pttl', KEYS[1]) > 100000 and 1 or 0)
     return all",
);

/// Few keys and owners, so that they meet; one key is a list.
fn random(random: &mut fastrand::Rng) -> impl Fn(&str) -> Call + use<> {
    let key = ["a", "b", "list"][random.usize(..3)];
    let mut owner = || Arc::<str>::from(format!("o{}", random.u8(..3)));
    let (owner, from) = (owner(), owner());
    let lease = Duration::from_secs([50, 200][random.usize(..2)]);
    let (kind, holds) = (random.u8(..4), random.u32(..3));
    move |folder| {
        let key: Arc<str> = Arc::from(format!("{folder}:{key}"));
        match kind {
            0 => plain::acquire(&key, &owner, lease),
            1 => plain::reenter(&key, &owner, lease, holds + 1),
            2 => plain::release(&key, holds, &owner),
            _ => plain::take_over(&key, &from, &owner, lease),
        }
    }
}

/// What can be compared: of a lease only about how long it is.
fn rough(outcome: Result<Value, CallError>) -> Result<Value, String> {
    match outcome {
        Ok(Value::Int(left @ 1_000..)) => Ok(Value::Int((left + 25_000) / 50_000 * 50_000)),
        Ok(value) => Ok(value),
        Err(CallError::Refused(fault)) => {
            assert!(fault.0.contains("WRONGTYPE"), "{fault}");
            Err("WRONGTYPE".to_owned())
        }
        Err(other) => panic!("{other:?}"),
    }
}

async fn compare<F: Future<Output = Result<Value, CallError>>>(call: impl Fn(Call) -> F) {
    let mut rng = fastrand::Rng::with_seed(7);
    let at = |script, key: &str| Call { script, keys: vec![Arc::from(key)], args: vec![] };
    let mut failed = 0;
    for round in 0..200 {
        let (single, together) = (format!("s{round}"), format!("t{round}"));
        for folder in [&single, &together] {
            call(at(&PUSH, &format!("{folder}:list"))).await.unwrap();
        }
        for _ in 0..5 {
            let makers: Vec<_> = (0..rng.usize(1..12)).map(|_| random(&mut rng)).collect();
            let mut expected = Vec::new();
            for make in &makers {
                expected.push(rough(call(make(&single)).await));
            }
            let calls: Vec<_> = makers.iter().map(|make| make(&together)).collect();
            let reply = call(batch::batch(calls.iter()).unwrap()).await.unwrap();
            let told = batch::replies(reply, calls.len()).unwrap();
            let told = told.map(|reply| rough(reply.map_err(|text| sort_error_reply(&text))));
            failed += expected.iter().filter(|outcome| outcome.is_err()).count();
            assert_eq!(told.collect::<Vec<_>>(), expected, "{calls:?}");
        }
        for key in ["a", "b", "list"] {
            let single = call(at(&DUMP, &format!("{single}:{key}"))).await.unwrap();
            let together = call(at(&DUMP, &format!("{together}:{key}"))).await.unwrap();
            assert_eq!(single, together, "round {round}, {key}");
        }
    }
    assert!(failed > 100, "{failed}");
}

#[tokio::test]
async fn on_a_server() {
    let server = Server::start();
    let bed = Bed::patient(&server).await;
    compare(|call| bed.redis.call(Lane::Caller, call)).await;
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn on_the_embedded_engine() {
    let redis = crate::transport::embedded::EmbeddedRedis::new();
    let link = redis.link(Arc::<Recorder>::default(), &Handle::current());
    compare(|call| link.call(Lane::Caller, call)).await;
}
