//! The rights that `docs/operations.md` lists are enough for a client, and none is there in vain.

use std::time::Duration;

use leasehold::{Client, Error, Lease};

use crate::bed::{Outside, beside, ms, until};
use crate::support::resp::Reply;
use crate::support::server::Server;

const LIMIT: Duration = Duration::from_secs(20);
const PAGE: &str = include_str!("../../docs/operations.md");
/// Sent on connecting; a refusal is ignored.
const OPTIONAL: &[&str] = &["client", "client|id", "info"];

/// The ACL rule of the page, for locks named `orders:…`, word by word.
fn rule() -> Vec<&'static str> {
    let rule = PAGE.lines().find(|line| line.starts_with("ACL SETUSER"));
    rule.expect("the page has a rule").split_whitespace().collect()
}

/// The commands, keys and channels that somebody was refused.
fn refused(outside: &mut Outside) -> Vec<String> {
    let log = outside.command(&["ACL", "LOG"]);
    let objects = log.array().iter().map(|entry| {
        let entry = entry.array();
        let is_object = |part: &Reply| matches!(part, Reply::Bulk(name) if name == b"object");
        let at = entry.iter().position(is_object).expect("an object");
        entry[at + 1].text()
    });
    objects.filter(|object| !OPTIONAL.contains(&object.as_str())).collect()
}

/// All that a client can do.
async fn everything(a: &Client, b: &Client) -> Result<(), Error> {
    let (mut held, mut wanted) = (a.lock("orders:1"), b.lock("orders:1"));
    let outer = held.lock().await?;
    let inner = held.try_lock(ms(0), ms(900)).await?;
    inner.unlock().await?;
    outer.extend(ms(500)).await?;
    assert!(wanted.is_locked().await? && held.is_held().await?);
    // Another client waits, is renewed meanwhile, and is woken.
    let unlock = async {
        until("it waits, and we renew", LIMIT, || {
            b.stats().listeners == 1 && a.stats().renewed > 0
        })
        .await;
        until("it polls", LIMIT, || b.stats().polls > 0).await;
        outer.unlock().await
    };
    let (taken, unlocked) = tokio::join!(wanted.lock(), unlock);
    unlocked?;
    // Another waiter of the same client takes over with a lease of its own.
    let mut next = b.lock("orders:1");
    let (taken_over, unlocked) = tokio::join!(next.try_lock(ms(5000), ms(5000)), taken?.unlock());
    unlocked?;
    let handle = taken_over?.into_handle()?;
    drop(a.adopt(&handle).await?);
    let forced = a.lock("orders:2").try_lock(ms(0), Lease::Renewed).await?;
    assert!(b.lock("orders:2").force_unlock().await?);
    drop(forced);
    Ok(())
}

#[test]
fn the_documented_rights_are_enough_and_all_are_used() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        assert!(matches!(outside.command(&rule()), Reply::Status(_)));
        let url = server.url().replace("redis://", "redis://locks:secret@");
        let client = || Client::builder(&url).lease(ms(300)).safety_poll(ms(100)).connect();
        let (a, b) = (client().await.expect("connects"), client().await.expect("connects"));

        everything(&a, &b).await.expect("it may");
        let rights = rule();
        let rights = rights.iter().filter_map(|word| word.strip_prefix('+'));
        // Unsubscribed when nobody has waited for some seconds.
        for right in rights {
            // Redis 6.2 counts all commands of CLIENT together.
            let command = right.split('|').next().unwrap_or_default();
            let mut used = || outside.calls(right) + outside.calls(command) > 0;
            until(right, LIMIT, &mut used).await;
        }
        assert_eq!(refused(&mut outside), Vec::<String>::new());
        assert_eq!(b.stats().acquired_after_waiting, 2);
    });
}
