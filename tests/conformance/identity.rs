//! Who a client is, and whether its server answers.

use leasehold::{Error, Lease};

use crate::world::{World, ms};

pub(crate) async fn every_owner_text_begins_with_the_id_of_its_client(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    assert_eq!(one.id(), one.clone().id());
    assert_ne!(one.id(), other.id());
    for client in [&one, &other] {
        for lock in [client.lock("x"), client.fair_lock("y"), client.string_lock("z")] {
            let guard = lock.try_lock(ms(0), Lease::Renewed).await.unwrap();
            assert!(guard.owner().starts_with(&format!("{}:", client.id())), "{}", guard.owner());
            guard.unlock().await.unwrap();
        }
    }
}

pub(crate) async fn connections_are_called_as_they_shall_be(world: World) {
    let client = world.client().await;
    let named = world.builder().name("billing@pod-7").connect().await.unwrap();
    // The engine in memory has no list.
    if let World::Redis(server) = &world {
        assert_eq!(server.clients(&format!(" name=leasehold:{} ", client.id())).len(), 3);
        assert_eq!(server.clients(" name=billing@pod-7 ").len(), 3);
    }
    named.ping().await.unwrap();
}

pub(crate) async fn a_ping_is_one_call_that_tells_whether_the_server_answers(mut world: World) {
    let client = world.builder().command_timeout(ms(200)).connect().await.unwrap();
    // The first one may bring the script.
    client.ping().await.unwrap();
    let before = world.calls();
    client.ping().await.unwrap();
    assert_eq!(world.calls() - before, 1);
    assert_eq!(world.number(&["DBSIZE"]), 0);

    world.pause();
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    world.resume();
    client.ping().await.unwrap();
    world.fail();
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. } | Error::Unknown { .. }), "{error}");
    drop(client.shutdown(ms(1)).await);
    assert!(matches!(client.ping().await, Err(Error::Closed)));
}
