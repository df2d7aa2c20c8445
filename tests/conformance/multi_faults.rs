//! Faults of one member while the acquisition waits for others.

use leasehold::{Client, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Bed, eventually, ms, timed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

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
    // The connection must last until it gives back what it has, which takes much less than the limit of a command.
    let (client, line) = FaultyConnection::with(&bed, |builder| {
        builder.command_timeout(ms(2000)).safety_poll(ms(100))
    })
    .await;
    let other = bed.client().await;
    // The locks do not fit into one call, and the server knows the scripts.
    let [a, b] = ["{m}a", "{m}b"];
    let first = |client: &Client| client.fair_lock(a);
    first(&other).lock().await.unwrap().unlock().await.unwrap();
    let held = other.fenced_lock(b).lock().await.unwrap();
    // The counter shows whether the member was ever taken, however soon it is given back.
    let taken = || bed.number(&["GET", "redisson_lock_token:{m}b"]);
    let before = taken();
    let lock = Lock::multi([first(&client), client.fenced_lock(b).into()]);
    let taking = tokio::spawn(async move { lock.try_lock(ms(6000), Lease::Renewed).await });
    eventually("it was refused the second", async || {
        client.stats().calls >= 2
    })
    .await;
    line.lose_replies();
    held.unlock().await.unwrap();
    eventually("it has the second, and no reply", async || taken() > before).await;
    // The acquisition gives back what it has after a while. From then on another owner is in the
    // way.
    let held = timed("given back", first(&other).lock()).await.0.unwrap();
    line.reconnect();
    let error = timed("gave up", taking).await.0.unwrap().unwrap_err();
    assert!(error.may_be_held(), "{error}");
    held.unlock().await.unwrap();
    let none = async || !bed.exists(a) && !bed.exists(b);
    eventually("it was given back", none).await;
}
