//! A hold that is given back to whoever knows its owner text.

use std::time::Duration;

use leasehold::{Error, Owner};

use crate::sorts::SORTS;
use crate::world::{World, ms, soon, waiting};

pub(crate) async fn other_futures_of_the_owner_re_enter_what_was_restored(world: World) {
    let (client, elsewhere) = (world.client().await, world.client().await);
    for sort in SORTS.iter().filter(|sort| sort.exclusive && sort.reentrant && sort.is_single()) {
        let held = sort.lock(&elsewhere, sort.name).lock().await.unwrap();
        let text = held.owner().to_owned();
        held.forget();
        let owner = Owner::new();
        let mut waits = sort.lock(&client, sort.name).owned_by(&owner);
        let waits = tokio::spawn(async move { waits.lock().await });
        waiting(&client, 1).await;
        let mut lock = sort.lock(&client, sort.name).owned_by(&owner);
        let restored = lock.restore(&text).await.unwrap();
        let inner = soon(sort.name, waits).await.0.unwrap().unwrap();
        assert_eq!((inner.owner(), inner.hold_count()), (&*text, 2), "{}", sort.name);
        restored.unlock().await.unwrap();
        inner.check().unwrap();
        assert!(lock.is_held().await.unwrap());
        inner.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

pub(crate) async fn who_holds_it_already_restores_nothing_twice(world: World) {
    let client = world.client().await;
    for sort in SORTS.iter().filter(|sort| sort.is_single()) {
        let mut lock = sort.lock(&client, sort.name);
        let guard = lock.lock().await.unwrap();
        let again = lock.restore(guard.owner()).await.unwrap_err();
        assert!(matches!(again, Error::AlreadyHeld { .. }), "{}: {again}", sort.name);
        guard.check().unwrap();
        assert!(lock.is_held().await.unwrap(), "{}", sort.name);
        guard.unlock().await.unwrap();
    }
}

/// What a hash has beside its owners is nobody's text, and a side of a lock takes none of the other.
pub(crate) async fn a_text_that_is_no_owners_changes_nothing(world: World) {
    let (client, elsewhere) = (world.client().await, world.client().await);
    let mut held = elsewhere.read_write_lock("x");
    let (read, write) = (held.read().lock().await.unwrap(), "somebody:1:write");
    let reader = read.owner().to_owned();
    let before = world.list(&["HGETALL", "x"]);
    let mut lock = client.read_write_lock("x");
    for text in ["mode", "", write, &reader] {
        let refused = lock.write().restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
    }
    for text in ["mode", "", write] {
        let refused = lock.read().restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
        let refused = client.lock("x").restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
    }
    assert_eq!(client.stats().releases_pending, 0);
    assert_eq!(world.list(&["HGETALL", "x"]), before);
    read.unlock().await.unwrap();
    let write = held.write().lock().await.unwrap();
    let writer = write.owner().to_owned();
    let refused = lock.read().restore(&writer).await.unwrap_err();
    assert!(matches!(refused, Error::NotOwner { .. }), "{refused}");
    write.check().unwrap();
    write.unlock().await.unwrap();
}

pub(crate) async fn an_owner_text_may_be_anything_within_its_limit(world: World) {
    let client = world.client().await;
    let long = "n".repeat(64 * 1024);
    for text in ["", " ", "a b\n\"c\"", "mode", "é😀", "1e400", "-1", &long] {
        world.command(&["SET", "x", text, "PX", "60000"]);
        let mut lock = client.string_lock("x");
        assert!(lock.try_lock(Duration::ZERO, ms(1000)).await.unwrap_err().is_timeout());
        assert!(lock.is_locked().await.unwrap());
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!((&*holder.owner, holder.holds), (text, 1));
        assert!(matches!(lock.restore("other").await, Err(Error::NotOwner { .. })));
        let guard = lock.restore(text).await.unwrap();
        assert_eq!(guard.owner(), text);
        assert!(lock.is_held().await.unwrap());
        guard.unlock().await.unwrap();
        assert!(!world.exists("x"), "{text}");
    }
    let calls = client.stats().calls;
    let refused = client.string_lock("x").restore(&format!("{long}n")).await.unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused}");
    assert_eq!(client.stats().calls, calls);
}
