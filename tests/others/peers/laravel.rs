//! The format of Laravel's `Cache::lock`: its keys and values, by the commands that it sends.
//! Laravel itself does not run here.
//!
//! The commands were looked up in its sources; the script here does the same in other words.

use leasehold::{Client, Error, Lease, Lock};
use leasehold_testbed::{
    Reply, Server, eventually, ms, no_expiry, patient, take_and_release, take_turn,
};

use crate::ONCE;

/// Deletes the key if the value is the owner's.
const GIVE_BACK: &str = "local mine = redis.call('GET', KEYS[1]) == ARGV[1] \
     return mine and redis.call('DEL', KEYS[1]) or 0";

/// `Cache::lock('orders', 10)` stores 16 random letters and digits, as they are, at the prefix of
/// the Redis connection, the prefix of the cache and the name, in the database of that connection.
struct Form {
    connection: &'static str,
    cache: &'static str,
    database: u8,
}

const fn form(connection: &'static str, cache: &'static str, database: u8) -> Form {
    Form {
        connection,
        cache,
        database,
    }
}

/// The default configuration of an application without a name.
const V11: Form = form("laravel_database_", "laravel_cache_", 0);
const FORMS: [Form; 7] = [
    // 5.8 to 8, and 9 and 10: the store itself puts a colon behind the prefix of the cache.
    form("laravel_database_", "laravel_cache:", 0),
    form("laravel_database_", "laravel_cache_:", 0),
    V11,
    form("laravel-database-", "laravel-cache-", 0),
    // Without `lock_connection`, locks use the connection of the cached values.
    form("laravel_database_", "laravel_cache_", 1),
    // A `lock_connection` with its own prefix and database.
    form("locks:", "laravel-cache-", 3),
    form("", "", 0),
];

struct Peer {
    server: Server,
    database: u8,
    client: Client,
    lock: Lock,
    key: String,
}

/// A key of a peer, and our lock with the same key. Both prefixes come from the client.
async fn peer(form: &Form, name: &str) -> Peer {
    let (server, database) = (Server::start(), form.database);
    let prefix = format!("{}{}", form.connection, form.cache);
    let url = format!("{}/{database}", server.url());
    let client = patient(&url).key_prefix(&prefix).connect().await.unwrap();
    let lock = client.string_lock(name);
    Peer {
        server,
        database,
        client,
        lock,
        key: format!("{prefix}{name}"),
    }
}

impl Peer {
    fn command(&self, words: &[&str]) -> Reply {
        let mut connection = self.server.connection();
        connection
            .command(&["SELECT", &self.database.to_string()])
            .unwrap();
        connection.command(words).unwrap()
    }

    fn set(&self, owner: &str, options: &[&str]) -> bool {
        let words = [&["SET", &self.key, owner], options].concat();
        self.command(&words) != Reply::Nil
    }

    fn script(&self, script: &str, arguments: &[&str]) -> i64 {
        let words = [&["EVAL", script, "1", &self.key], arguments].concat();
        self.command(&words).int()
    }

    fn value(&self) -> Reply {
        self.command(&["GET", &self.key])
    }

    fn left(&self) -> i64 {
        self.command(&["PTTL", &self.key]).int()
    }
}

const LARAVEL: &str = "aZ3kQ9xW7mN1pL5t";
/// What `SET` is given for ten seconds.
const TEN: [&str; 3] = ["EX", "10", "NX"];

#[tokio::test]
async fn laravel_excludes_and_is_excluded() {
    for form in FORMS {
        let shop = peer(&form, "orders").await;
        assert!(shop.set(LARAVEL, &TEN), "{}", shop.key);
        let refused = shop.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
        assert!(refused.is_timeout(), "{refused}");
        assert_eq!(shop.script(GIVE_BACK, &[LARAVEL]), 1);
        let guard = shop.lock.try_lock(ONCE, Lease::Renewed).await.unwrap();
        assert_eq!(shop.value().text(), guard.owner());
        assert!(!shop.set(LARAVEL, &TEN));
        assert_eq!(shop.command(&["SETNX", &shop.key, LARAVEL]).int(), 0);
        assert_eq!(shop.script(GIVE_BACK, &[LARAVEL]), 0, "not its lock");
        guard.unlock().await.unwrap();
        assert!(shop.set(LARAVEL, &TEN));
        // The same key by its whole name. No other database has it.
        for database in [0, shop.database] {
            let url = format!("{}/{database}", shop.server.url());
            let client = patient(&url).connect().await.unwrap();
            let whole = client.string_lock(&*shop.key);
            let here = database == shop.database;
            assert_eq!(
                whole.is_locked().await.unwrap(),
                here,
                "{} in {database}",
                shop.key
            );
        }
    }
}

#[test]
fn laravels_keys_follow_its_version() {
    let key = |form: &Form| format!("{}{}orders", form.connection, form.cache);
    let page = include_str!("../../../docs/coming-from.md");
    for form in &FORMS[..4] {
        let row = format!("| `{}` |", key(form));
        assert!(page.contains(&row), "{row}");
    }
}

#[tokio::test]
async fn laravel_blocks_by_asking_until_we_release() {
    let shop = peer(&V11, "orders").await;
    let guard = shop.lock.lock().await.unwrap();
    // `block(5)`: once in 250 ms.
    assert!(!shop.set(LARAVEL, &TEN));
    guard.unlock().await.unwrap();
    assert!(shop.set(LARAVEL, &TEN));
    let lock = shop.client.string_lock("orders");
    let waits = tokio::spawn(async move { lock.lock().await });
    eventually("queued", async || shop.client.stats().waiting == 1).await;
    assert_eq!(shop.script(GIVE_BACK, &[LARAVEL]), 1);
    take_turn("asked again", waits).await;
}

#[tokio::test]
async fn laravels_lock_for_ever_ends_by_a_forced_release() {
    let shop = peer(&V11, "orders").await;
    // `Cache::lock('orders')` without seconds.
    assert_eq!(shop.command(&["SETNX", &shop.key, LARAVEL]).int(), 1);
    let refused = shop.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
    assert_eq!(no_expiry(&refused), Some(true));
    let holder = shop.lock.holder().await.unwrap().unwrap();
    assert_eq!((&*holder.owner, holder.lease), (LARAVEL, None));
    // `forceRelease`, theirs and ours.
    shop.command(&["DEL", &shop.key]);
    take_and_release(&shop.lock).await;
    assert_eq!(shop.command(&["SETNX", &shop.key, LARAVEL]).int(), 1);
    assert!(shop.lock.force_unlock("a test").await.unwrap());
    assert!(shop.set(LARAVEL, &TEN));
}

#[tokio::test]
async fn laravels_owner_is_restored_and_restores() {
    let shop = peer(&V11, "orders").await;
    // A job gets the owner from the request that took the lock.
    assert!(shop.set(LARAVEL, &TEN));
    let guard = shop.lock.restore(LARAVEL).await.unwrap();
    assert!(shop.left() > 20_000, "renewed from now on");
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(shop.value(), Reply::Nil);
    // A lock for ever stays one.
    assert_eq!(shop.command(&["SETNX", &shop.key, LARAVEL]).int(), 1);
    let guard = shop.lock.restore(LARAVEL).await.unwrap();
    assert_eq!(shop.left(), -1);
    guard.unlock().await.unwrap();
    let gone = shop.lock.restore(LARAVEL).await.unwrap_err();
    assert!(matches!(gone, Error::NotOwner { .. }), "{gone}");
    assert_eq!(shop.value(), Reply::Nil, "a failed restore leaves nothing");
    // `restoreLock('orders', $owner)->release()` of ours.
    let minute = Lease::Fixed(ms(60_000));
    let guard = shop.lock.try_lock(ONCE, minute).await.unwrap();
    let owner = guard.owner().to_owned();
    guard.forget();
    assert_eq!(shop.script(GIVE_BACK, &[&owner]), 1);
    assert!(!shop.lock.is_locked().await.unwrap());
}
