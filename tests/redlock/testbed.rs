//! Independent servers, a client for each, and a view of all of them from outside.

use std::time::Duration;

use futures::future::join_all;
use leasehold::{Client, ClientBuilder, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Server, eventually, ms, soon};

/// The name of the lock in most tests.
pub(crate) const NAME: &str = "red";
/// For tests in which no lease may end.
pub(crate) const LONG: Lease = Lease::Fixed(Duration::from_secs(60));

/// Servers that know nothing of each other.
pub(crate) struct Servers(pub(crate) Vec<Server>);

impl Servers {
    pub(crate) fn start(number: usize) -> Self {
        Servers((0..number).map(|_| Server::start()).collect())
    }

    pub(crate) async fn clients(&self) -> Nodes {
        self.clients_with(|builder| builder).await
    }

    /// One client for each server, which may be down.
    pub(crate) async fn clients_with(
        &self,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Nodes {
        let urls = self.0.iter().map(Server::url);
        Nodes::connect(urls, settings).await
    }

    pub(crate) fn kill(&mut self, nodes: std::ops::Range<usize>) {
        self.0[nodes].iter_mut().for_each(Server::kill);
    }

    /// The number of servers on which the key exists.
    pub(crate) fn holding(&self, key: &str) -> usize {
        let there = |server: &&Server| server.command(&["EXISTS", key]).int() == 1;
        self.0.iter().filter(there).count()
    }
}

/// A client for each server.
pub(crate) struct Nodes(pub(crate) Vec<Client>);

impl Nodes {
    pub(crate) async fn connect(
        urls: impl Iterator<Item = String>,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let connect = |url: String| settings(Client::builder(&url)).connect_in_background();
        let clients = join_all(urls.map(connect)).await;
        Nodes(clients.into_iter().map(Result::unwrap).collect())
    }

    /// Each acquisition is its own owner.
    pub(crate) fn lock(&self) -> Lock {
        Lock::quorum(self.0.iter().map(|client| client.string_lock(NAME)))
    }

    /// Takes the lock until all of these servers have granted it. A majority is enough for a grant,
    /// and who answers much later has no part in it: what it granted is given back.
    pub(crate) async fn held_by_all(
        &self,
        servers: &Servers,
        lock: &Lock,
        lease: Lease,
    ) -> LockGuard {
        let taken = async {
            loop {
                let guard = lock.try_lock(ms(5000), lease).await.unwrap();
                self.settled().await;
                if servers.holding(NAME) == servers.0.len() {
                    return guard;
                }
                guard.unlock().await.unwrap();
            }
        };
        soon("all hold it", taken).await
    }

    /// Nothing is owed to any server that can be reached.
    pub(crate) async fn settled(&self) {
        let owed = || {
            self.0
                .iter()
                .map(|client| client.stats().releases_pending)
                .sum::<u64>()
        };
        eventually("settled", async || owed() == 0).await;
    }
}

/// The servers know the scripts: a call whose reply is lost was executed.
pub(crate) async fn scripts_known(nodes: &Nodes) {
    let lock = Lock::quorum(nodes.0.iter().map(|client| client.string_lock("known")));
    lock.lock().await.unwrap().unlock().await.unwrap();
    nodes.settled().await;
}

/// Others held it until the end of the wait. Where the machine stalls the last answers come too late for
/// it, and a server that was asked is counted as one that did not answer.
pub(crate) fn in_vain(refused: &Error) {
    assert!(
        refused.is_timeout() || matches!(refused, Error::Quorum { .. }),
        "{refused}"
    );
}
