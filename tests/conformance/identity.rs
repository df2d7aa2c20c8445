//! The identity of a client, and whether its server answers.

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, Place, connected, eventually, ms};

pub(crate) async fn every_owner_text_begins_with_the_id_of_its_client(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    assert_eq!(one.id(), one.clone().id());
    assert_ne!(one.id(), other.id());
    for client in [&one, &other] {
        for lock in [
            client.lock("x"),
            client.fair_lock("y"),
            client.string_lock("z"),
        ] {
            let guard = lock.try_lock(ms(0), Lease::Renewed).await.unwrap();
            assert!(
                guard.owner().starts_with(&format!("{}:", client.id())),
                "{}",
                guard.owner()
            );
            guard.unlock().await.unwrap();
        }
    }
}

pub(crate) async fn connections_are_called_as_they_shall_be(bed: Bed) {
    let client = bed.client().await;
    let named = bed.builder().name("billing@pod-7").connect().await.unwrap();
    // The embedded engine has no list.
    if let Place::Server(server, _) = &bed.place {
        // In a cluster, the client has connections to each master.
        let masters = if server.is_cluster() { 3 } else { 1 };
        for name in [
            format!("leasehold:{}", client.id()),
            format!("billing@pod-7:{}", named.id()),
        ] {
            assert_eq!(
                server.clients(&format!(" name={name} ")).len(),
                3 * masters,
                "{name}"
            );
        }
    }
    named.ping().await.unwrap();
}

pub(crate) async fn a_ping_is_one_call_and_checks_that_the_server_answers(mut bed: Bed) {
    let client = connected(bed.builder().command_timeout(ms(200))).await;
    // The first call may have to load the script.
    client.ping().await.unwrap();
    let before = bed.calls();
    client.ping().await.unwrap();
    assert_eq!(bed.calls() - before, 1);
    assert_eq!(bed.number(&["DBSIZE"]), 0);

    bed.pause();
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    bed.resume();
    // The connection may have been silent for so long that the client replaces it.
    eventually("the server answers", async || client.ping().await.is_ok()).await;
    bed.fail();
    let error = client.ping().await.unwrap_err();
    assert!(
        matches!(error, Error::Unavailable { .. } | Error::Unknown { .. }),
        "{error}"
    );
    drop(client.shutdown(ms(1)).await);
    assert!(matches!(client.ping().await, Err(Error::Closed)));
}
