//! A transition of the specification that no world walks (`docs/dev/specification.md`).

use leasehold::test_util::{Delay, Faults, scripts};
use leasehold::{EmbeddedRedis, HoldState};
use leasehold_testbed::{Histories, NOISE, eventually};
use tokio::time::{Instant, sleep};

use crate::plan::{ms, name_of};

const ON_THE_WAY: u64 = 500;

/// Two calls renew a hold, and the server forgets it between them.
#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_and_the_next_call_finds_it_gone() {
    let (redis, histories) = (EmbeddedRedis::new(), Histories::default());
    // Each call is one request.
    for (name, text, _) in scripts() {
        redis.command(&["SCRIPT", "LOAD", text]).expect(name);
    }
    let recorder = histories.of_client(0);
    let builder = redis.builder().lease(ms(30_000)).harness(recorder);
    let client = builder.connect().await.expect("a client");
    let guard = client.lock(name_of(0)).lock().await.expect("free");
    let request = Delay::between(ms(ON_THE_WAY), ms(ON_THE_WAY));
    let faults = Faults {
        request,
        ..Faults::default()
    };
    redis.links().pop().expect("a link").set_faults(faults, 1);

    let extends = guard.extend(ms(60_000));
    let reenters = async {
        sleep(ms(ON_THE_WAY / 2)).await;
        guard.reenter().await
    };
    let forgets = async {
        sleep(ms(ON_THE_WAY + ON_THE_WAY / 4)).await;
        histories.forgot(Instant::now(), 0, [name_of(0)]);
        redis.lose(&name_of(0));
    };
    let (extended, reentered, ()) = tokio::join!(extends, reenters, forgets);
    extended.expect("it was there");
    assert!(reentered.is_err(), "it is gone");
    eventually("it is lost", async || guard.state() == HoldState::Lost).await;

    let verdict = histories.verdict(NOISE);
    assert_eq!(verdict.disallowed(), None);
    let transition = ("is renewed".to_owned(), "finds it gone".to_owned());
    assert!(verdict.walked.contains(&transition), "{:?}", verdict.walked);
}
