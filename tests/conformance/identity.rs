//! Who a client is, and whether its server answers.

use leasehold::{Error, Lease};
use leasehold_testbed::ms;

use crate::backend::Backend;

pub(crate) async fn every_owner_text_begins_with_the_id_of_its_client(backend: Backend) {
    let (one, other) = (backend.client().await, backend.client().await);
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

pub(crate) async fn connections_are_called_as_they_shall_be(backend: Backend) {
    let client = backend.client().await;
    let named = backend
        .builder()
        .name("billing@pod-7")
        .connect()
        .await
        .unwrap();
    // The engine in memory has no list.
    if let Backend::Redis(server) = &backend {
        // Each master of a cluster has connections of its own.
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

pub(crate) async fn a_ping_is_one_call_that_tells_whether_the_server_answers(mut backend: Backend) {
    let client = backend
        .builder()
        .command_timeout(ms(200))
        .connect()
        .await
        .unwrap();
    // The first one may bring the script.
    client.ping().await.unwrap();
    let before = backend.calls();
    client.ping().await.unwrap();
    assert_eq!(backend.calls() - before, 1);
    assert_eq!(backend.number(&["DBSIZE"]), 0);

    backend.pause();
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    backend.resume();
    client.ping().await.unwrap();
    backend.fail();
    let error = client.ping().await.unwrap_err();
    assert!(
        matches!(error, Error::Unavailable { .. } | Error::Unknown { .. }),
        "{error}"
    );
    drop(client.shutdown(ms(1)).await);
    assert!(matches!(client.ping().await, Err(Error::Closed)));
}
