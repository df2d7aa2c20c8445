//! Independent servers, a client for each, and a view of all of them from outside.

use futures::future::join_all;
use leasehold::{Client, ClientBuilder, Lease, Lock, LockGuard};

use crate::{Server, eventually, ms, patient, soon};

/// The key of a quorum lock on [`Servers`].
pub const RED: &str = "red";

/// Servers that know nothing of each other.
#[derive(Debug)]
pub struct Servers(pub Vec<Server>);

impl Servers {
    pub fn start(number: usize) -> Self {
        Servers((0..number).map(|_| Server::start()).collect())
    }

    pub fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    pub async fn clients(&self) -> Nodes {
        self.clients_with(|builder| builder).await
    }

    /// One client for each server, which may be down.
    pub async fn clients_with(&self, settings: impl Fn(ClientBuilder) -> ClientBuilder) -> Nodes {
        let connect = |url: &String| settings(patient(url)).connect_in_background();
        let clients = join_all(self.urls().iter().map(connect)).await;
        let connected = |client: Result<Client, _>| client.expect("nothing is refused");
        Nodes(clients.into_iter().map(connected).collect())
    }

    pub fn kill(&mut self, nodes: std::ops::Range<usize>) {
        self.0[nodes].iter_mut().for_each(Server::kill);
    }

    /// The number of servers that are up and on which the key exists.
    pub fn holding(&self, key: &str) -> usize {
        let up = self.0.iter().filter(|server| server.is_up());
        up.filter(|server| server.command(&["EXISTS", key]).int() == 1)
            .count()
    }
}

/// A client for each server.
#[derive(Debug)]
pub struct Nodes(pub Vec<Client>);

impl Nodes {
    /// A quorum of string locks. Each acquisition is its own owner.
    pub fn lock(&self) -> Lock {
        self.quorum(|client| client.string_lock(RED))
    }

    pub fn quorum(&self, of: impl Fn(&Client) -> Lock) -> Lock {
        Lock::quorum(self.0.iter().map(of))
    }

    /// Takes a lock called [`RED`] until all of these servers have granted it. A majority is enough
    /// for a grant, and who answers much later has no part in it: what it granted is given back.
    pub async fn held_by_all(&self, servers: &Servers, lock: &Lock, lease: Lease) -> LockGuard {
        let taken = async {
            loop {
                let guard = lock.try_lock(ms(5000), lease).await.expect("free");
                self.settled().await;
                if servers.holding(RED) == servers.0.len() {
                    return guard;
                }
                guard.unlock().await.expect("held");
            }
        };
        soon("all hold it", taken).await
    }

    /// Nothing is owed to any server that can be reached.
    pub async fn settled(&self) {
        let owed = |client: &Client| client.stats().releases_pending;
        eventually("settled", async || {
            self.0.iter().map(owed).sum::<u64>() == 0
        })
        .await;
    }
}
