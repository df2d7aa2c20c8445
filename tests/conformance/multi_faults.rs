//! What goes wrong with one member of several locks while the others are waited for.

use leasehold::{Lease, Lock};

use crate::backend::{Backend, eventually, ms, soon, waiting};
use crate::faulty_connection::FaultyConnection;
use crate::multi::{NAMES, settled, there};

/// A guard that does not hold all is no guard.
pub(crate) async fn a_member_that_was_lost_meanwhile_is_taken_again(backend: Backend) {
    let (client, other) =
        (backend.client_with_lease(backend.lease(300)).await, backend.client().await);
    let make: [fn(&leasehold::Client) -> Lock; 2] = [
        |client| client.multi_lock(NAMES),
        |client| {
            let [a, b, c] = NAMES;
            Lock::multi([client.fair_lock(a), client.spin_lock(b), client.lock(c)])
        },
    ];
    for make in make {
        let held = other.lock("c").lock().await.unwrap();
        let lock = make(&client);
        let taking = tokio::spawn(async move { lock.lock().await });
        // It waits for the last one, for half a second at least.
        eventually("it has the others", async || there(&backend) == NAMES).await;
        waiting(&client, 1).await;
        let lost = client.stats().lost;
        backend.command(&["DEL", "a"]);
        eventually("it knows", async || client.stats().lost > lost).await;
        held.unlock().await.unwrap();
        let guard = soon("its turn", taking).await.0.unwrap().unwrap();
        guard.check().unwrap();
        assert_eq!(there(&backend), NAMES);
        guard.unlock().await.unwrap();
        settled(&client).await;
    }
}

/// What comes after a call without an answer, others in the way or an outage, says nothing about it.
pub(crate) async fn a_doubt_of_an_earlier_round_is_told_in_the_end(backend: Backend) {
    let (client, line) = FaultyConnection::with(&backend, |builder| {
        builder.command_timeout(ms(400)).safety_poll(ms(60_000))
    })
    .await;
    let other = backend.client().await;
    // The server of both knows the scripts.
    let [a, b] = ["{m}a", "{m}b"];
    let held = other.lock(b).lock().await.unwrap();
    let lock = client.multi_lock([a, b]);
    let taking = tokio::spawn(async move { lock.try_lock(ms(6000), Lease::Renewed).await });
    let listens = async || backend.exists(a) && client.stats().subscriptions == 1;
    eventually("it waits for the second", listens).await;
    line.lose_replies();
    held.unlock().await.unwrap();
    // Its reply does not come; it gives the first one back, after a while.
    eventually("it has the second", async || backend.exists(b)).await;
    eventually("it gives way", async || !backend.exists(a)).await;
    line.reconnect();
    // From now on somebody else is in the way.
    let held = soon("it is free", other.lock(a).lock()).await.0.unwrap();
    let error = soon("it gives up", taking).await.0.unwrap().unwrap_err();
    assert!(error.may_be_held(), "{error}");
    held.unlock().await.unwrap();
    let none = async || !backend.exists(a) && !backend.exists(b);
    eventually("it was given back", none).await;
}
