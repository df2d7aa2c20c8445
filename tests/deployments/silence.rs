//! Connections to sentinels that stay open but carry nothing, while the primary changes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold::{Client, Lease};
use leasehold_testbed::{
    LIMIT, MASTER, Proxy, Sentinels, Server, eventually, take_and_release, until_certain,
};
use tokio::time::timeout;

/// So long that neither a poll nor the end of a lease makes up for a lost message.
const NEVER: Duration = Duration::from_secs(60);

/// Proxies in front of the sentinels, and a client that knows only the proxies.
struct Line {
    proxies: Vec<Proxy>,
    client: Client,
}

impl Line {
    /// The addresses that sentinels announce lead to the proxies.
    async fn to(sentinels: &Sentinels) -> Self {
        let addresses: Vec<SocketAddr> =
            sentinels.sentinels().iter().map(Server::address).collect();
        let proxies = Proxy::start_for_all(&addresses);
        let hosts: Vec<_> = proxies
            .iter()
            .map(|proxy| proxy.address().to_string())
            .collect();
        let url = format!("redis-sentinel://{}/{MASTER}", hosts.join(","));
        let builder = Client::builder(&url).lease(5 * NEVER).safety_poll(NEVER);
        let client = builder
            .connect_timeout(LIMIT)
            .connect()
            .await
            .expect("connects");
        Line { proxies, client }
    }
}

/// Waits until the client's calls arrive at the new primary. Returns how long that took. What a
/// former primary grants before that is lost.
pub(crate) async fn follows(client: &Client, server: &Server) -> Duration {
    let (since, id) = (Instant::now(), client.id());
    eventually("its connections lead to the new primary", async || {
        server.clients(&id).len() == 3
    })
    .await;
    since.elapsed()
}

/// A known complaint: a subscription to a sentinel was dead for weeks, and a failover went
/// unnoticed. The former primary lives, and accepts writes for about ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "measured times are shown with --nocapture"
)]
async fn a_switch_is_noticed_although_every_sentinel_has_fallen_silent() {
    let sentinels = Sentinels::start();
    let Line { proxies, client } = Line::to(&sentinels).await;
    let other = Client::builder(&sentinels.url())
        .lease(5 * NEVER)
        .connect_timeout(LIMIT);
    let other = other.connect().await.expect("connects");
    let held = client.lock("held").lock().await.expect("free");
    let in_the_way = other.lock("waited").lock().await.expect("free");
    let waiting = tokio::spawn({
        let lock = client.lock("waited");
        async move { lock.lock().await.expect("released").unlock().await }
    });
    eventually("listening", async || client.stats().subscriptions == 1).await;
    sentinels.until_in_step();

    let old = sentinels.current_master();
    proxies.iter().for_each(Proxy::silence);
    let new = sentinels.failover();
    let took = follows(&client, sentinels.server(new)).await;
    eprintln!("the new primary is followed {took:?} after all sentinels have named it");
    assert!(
        sentinels.is_master(old),
        "it has not ended the connections itself"
    );
    // The subscription has moved as well: no poll is due for a minute.
    eventually("it listens there", async || {
        !channels(sentinels.server(new)).is_empty()
    })
    .await;
    until_certain(&held).await;
    follows(&other, sentinels.server(new)).await;
    until_certain(&in_the_way).await;
    in_the_way.unlock().await.expect("held");
    let woken = timeout(NEVER / 3, waiting)
        .await
        .expect("by a message")
        .expect("no panic");
    woken.expect("held");
    held.unlock().await.expect("held all the time");
    // The former primary would also have granted it.
    assert_eq!(
        sentinels.server(old).clients(&client.id()),
        Vec::<String>::new()
    );
}

fn channels(server: &Server) -> Vec<String> {
    let all = server.command(&["PUBSUB", "CHANNELS"]);
    let all = all.array().iter().map(leasehold_testbed::Reply::text);
    all.filter(|channel| channel.starts_with("redisson_lock__channel"))
        .collect()
}

/// One sentinel that still answers is enough, and each failover is followed, including the one
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sentinel_that_speaks_is_enough() {
    let sentinels = Sentinels::start();
    let Line { proxies, client } = Line::to(&sentinels).await;
    let lock = client.lock("n");
    take_and_release(&lock).await;
    sentinels.until_in_step();
    proxies[1..].iter().for_each(Proxy::half_open);
    let old = sentinels.current_master();
    let new = sentinels.failover();
    follows(&client, sentinels.server(new)).await;
    assert!(
        sentinels.is_master(old),
        "it has not ended the connections itself"
    );
    let guard = lock.try_lock(LIMIT, Lease::Renewed).await.expect("free");
    assert_eq!(sentinels.server(new).command(&["EXISTS", "n"]).int(), 1);
    guard.unlock().await.expect("held");
}
