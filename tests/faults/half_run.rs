//! A script that the server refuses in its middle has written before: nothing of that stays.

use std::time::Duration;

use leasehold::{Client, Error, Lease};

use crate::bed::{Outside, beside, builder, connect, ms, until};
use crate::rights::rule;
use crate::support::resp::Reply;
use crate::support::server::Server;

const LIMIT: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(5);
/// Long enough that nothing here ends by it.
const LEASE: Lease = Lease::Fixed(Duration::from_mins(10));

/// A client that may do all that it needs, but for one command.
async fn without(server: &Server, command: &str) -> Client {
    let (mut outside, refused) = (Outside::of(server), format!("-{command}"));
    let mut rule = rule("kinds");
    rule.push(&refused);
    assert!(matches!(outside.command(&rule), Reply::Status(_)));
    let url = server.url().replace("redis://", "redis://kinds:secret@");
    builder(&url).connect().await.expect("connects")
}

/// One permit of two is taken in vain, of both kinds: soon both are there again.
async fn both_permits_come_back(command: &str) {
    let server = Server::start();
    let (mut outside, other) = (Outside::of(&server), connect(&server.url()).await);
    let client = without(&server, command).await;
    let life = Duration::from_mins(5);
    let semaphore = other.semaphore("orders:s");
    assert!(semaphore.try_set_permits_for(2, life).await.expect("it may"));
    let taken = client.semaphore("orders:s").try_acquire(1, ms(0)).await;
    assert!(refused(&taken), "{taken:?}");
    until("it is there again", SOON, || outside.command(&["GET", "orders:s"]).text() == "2").await;
    until("nobody has it", SOON, || !outside.exists("leasehold_semaphore:{orders:s}")).await;

    let permits = other.permit_expirable_semaphore("orders:p");
    assert!(permits.try_set_permits(2).await.expect("it may"));
    assert!(permits.expire_after(life).await.expect("it may"));
    let ours = client.permit_expirable_semaphore("orders:p");
    let taken = ours.try_acquire(ms(0), LEASE).await;
    assert!(refused(&taken), "{taken:?}");
    until("it is there again", SOON, || outside.command(&["GET", "orders:p"]).text() == "2").await;
    until("nobody has it", SOON, || !outside.exists("{orders:p}:timeout")).await;
}

#[test]
fn permits_that_nobody_could_be_told_to_hold_are_not_taken() {
    beside(LIMIT, both_permits_come_back("zadd"));
}

fn refused<T>(taken: &Result<T, Error>) -> bool {
    matches!(taken, Err(Error::Protocol { .. }))
}
