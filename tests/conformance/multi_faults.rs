//! Faults of one member while the acquisition waits for others.

use leasehold::{Client, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Bed, eventually, ms, timed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::faulty_connection::FaultyConnection;
use crate::multi::{NAMES, settled, there};

/// Longer than the other members are held while one is waited for.
const GIVEN_WAY: std::time::Duration = ms(2000);

/// Starts to take all members, and takes the first one away while the last is waited for.
async fn loses_the_first(
    bed: &Bed,
    client: &Client,
    make: fn(&Client) -> Lock,
) -> JoinHandle<Result<LockGuard, Error>> {
    for _ in 0..5 {
        let (lock, lost) = (make(client), client.stats().lost);
        let taking = tokio::spawn(async move { lock.lock().await });
        let end = Instant::now() + GIVEN_WAY;
        while Instant::now() < end {
            if there(bed) == NAMES {
                bed.command(&["DEL", "a"]);
            }
            if client.stats().lost > lost {
                return taking;
            }
            sleep(ms(1)).await;
        }
        // If the machine stalled, the acquisition has given back its members and waits for the last
        // one with nothing held.
        taking.abort();
        settled(client).await;
    }
    panic!("it never held the others")
}

/// A guard must hold all members.
pub(crate) async fn a_member_lost_during_the_wait_is_taken_again(bed: Bed) {
    let (client, other) = (
        bed.client_with_lease(bed.lease(300)).await,
        bed.client().await,
    );
    let make: [fn(&Client) -> Lock; 2] = [
        |client| Lock::multi(NAMES.map(|name| client.lock(name))),
        |client| {
            let [a, b, c] = NAMES;
            Lock::multi([client.fair_lock(a), client.spin_lock(b), client.lock(c)])
        },
    ];
    for make in make {
        let held = other.lock("c").lock().await.unwrap();
        let taking = loses_the_first(&bed, &client, make).await;
        held.unlock().await.unwrap();
        let guard = timed("granted", taking).await.0.unwrap().unwrap();
        guard.check().unwrap();
        assert_eq!(there(&bed), NAMES);
        guard.unlock().await.unwrap();
        settled(&client).await;
    }
}

/// Later refusals or an outage say nothing about an earlier call without a reply.
pub(crate) async fn a_doubt_of_an_earlier_round_is_reported_at_the_end(bed: Bed) {
    let other = bed.client().await;
    // The locks do not fit into one call, and the server knows the scripts.
    let first = other.fair_lock(FIRST);
    first.lock().await.unwrap().unlock().await.unwrap();
    let (line, taking) = takes_the_second_in_doubt(&bed, &other).await;
    // The acquisition gives back what it has after a while. From then on another owner is in the
    // way.
    let held = timed("given back", first.lock()).await.0.unwrap();
    line.reconnect();
    let error = timed("gave up", taking).await.0.unwrap().unwrap_err();
    assert!(error.may_be_held(), "{error}");
    held.unlock().await.unwrap();
    nothing_is_held(&bed).await;
}

const FIRST: &str = "{m}a";
const SECOND: &str = "{m}b";

async fn nothing_is_held(bed: &Bed) {
    let none = async || !bed.exists(FIRST) && !bed.exists(SECOND);
    eventually("it was given back", none).await;
}

/// Starts to take both members, and takes away the reply that grants the second.
async fn takes_the_second_in_doubt(
    bed: &Bed,
    other: &Client,
) -> (FaultyConnection, JoinHandle<Result<LockGuard, Error>>) {
    // The counter shows whether the member was ever taken, however soon it is given back.
    let taken = || bed.number(&["GET", "redisson_lock_token:{m}b"]);
    for _ in 0..5 {
        let held = other.fenced_lock(SECOND).lock().await.unwrap();
        let before = taken();
        // The connection must last until it gives back what it has, which takes much less than the
        // limit of a command.
        let (client, line) =
            FaultyConnection::with(bed, |builder| builder.command_timeout(ms(2000))).await;
        // Its own safety poll asks for the second again, because messages are lost with the
        // replies.
        let second = Lock::from(client.fenced_lock(SECOND)).with_safety_poll(ms(100));
        let lock = Lock::multi([client.fair_lock(FIRST), second]);
        let taking = tokio::spawn(async move { lock.try_lock(ms(6000), Lease::Renewed).await });
        let waits = async || client.stats().listeners == 1 && client.stats().calls >= 3;
        eventually("it waits for the second", waits).await;
        line.lose_replies();
        held.unlock().await.unwrap();
        let has_it = eventually("it has the second, and no reply", async || taken() > before);
        if timeout(GIVEN_WAY, has_it).await.is_ok() {
            return (line, taking);
        }
        // If a reply was lost that refuses the second, it does not ask again.
        taking.abort();
        line.reconnect();
        nothing_is_held(bed).await;
    }
    panic!("it never took the second in doubt")
}
