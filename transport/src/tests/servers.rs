//! One address that leads to several servers: a load balancer, a change in DNS, or a restart.

use super::memory::{
    CALLER, Ending, MESSAGES, MemoryServer, MemoryTestbed, PRIMARY_CONNECTION, echo,
};
use super::*;

/// The servers that the next connections reach, in turn.
type Route = Arc<Mutex<Vec<usize>>>;

/// Two servers behind one address.
struct Balanced {
    servers: [MemoryServer; 2],
    route: Route,
    testbed: MemoryTestbed,
}

impl Balanced {
    async fn new(route: &[usize]) -> Self {
        let servers = ["a", "b"].map(|run_id| MemoryServer::answering(echo).with_run_id(run_id));
        Balanced::between(servers, route).await
    }

    async fn between(servers: [MemoryServer; 2], route: &[usize]) -> Self {
        let dialers = servers.each_ref().map(MemoryServer::dialer);
        let route: Route = Arc::new(Mutex::new(route.to_vec()));
        let (next, turn) = (route.clone(), AtomicUsize::new(0));
        let dialer = StreamDialer::new(move |address| {
            let route = next.lock();
            dialers[route[turn.fetch_add(1, Ordering::SeqCst) % route.len()]].dial(address)
        });
        let way = (
            MemoryServer::remote_by(&dialer),
            (TIMING, IfUnreachable::Fail),
        );
        let testbed = MemoryTestbed::of(servers[0].clone(), way.0, way.1)
            .await
            .unwrap();
        Balanced {
            servers,
            route,
            testbed,
        }
    }

    /// Routes new connections to these servers, in turn.
    fn lead_to(&self, route: &[usize]) {
        *self.route.lock() = route.to_vec();
    }

    fn living(&self) -> [usize; 2] {
        self.servers.each_ref().map(|server| server.living().len())
    }

    /// Ends a connection, and waits until the client has three again.
    async fn lose(&self, number: usize) {
        let epochs = || LANES.map(|lane| self.testbed.redis.epoch(lane));
        let (before, missed) = (epochs(), self.testbed.events.missed());
        self.servers[0].living()[number].end(Ending::Closed);
        until("the loss is noticed", || {
            epochs() != before || self.testbed.events.missed() > missed
        })
        .await;
        until("all connections are back", || {
            self.living().iter().sum::<usize>() == 3
        })
        .await;
        for lane in LANES {
            let slot = self.testbed.redis.shared.slot(lane);
            until("the lane is up", || slot.connection().is_ok()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_connections_of_a_new_client_agree_on_one_server() {
    for route in [&[0, 1][..], &[0, 1, 1], &[0, 1, 1, 1, 1, 1]] {
        let balanced = Balanced::new(route).await;
        assert_eq!(balanced.living(), [3, 0], "{route:?}");
        assert_eq!(balanced.testbed.events.changed(), 0);
    }
}

/// Whichever connection is cut, the client keeps everything that its server has.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_goes_back_to_the_server_of_the_others() {
    for number in [PRIMARY_CONNECTION, CALLER, MESSAGES] {
        let balanced = Balanced::new(&[0, 1]).await;
        for _ in 0..5 {
            balanced.lose(number).await;
            assert_eq!(balanced.living(), [3, 0], "{number}");
        }
        assert_eq!(
            balanced.testbed.events.changed(),
            0,
            "{number}: every hold is as it was"
        );
    }
}

/// All connections move before one of them carries a call to the other server.
#[tokio::test(start_paused = true)]
async fn if_the_address_leads_to_another_server_all_connections_move_together() {
    for number in [PRIMARY_CONNECTION, CALLER, MESSAGES] {
        let balanced = Balanced::new(&[0]).await;
        balanced.lead_to(&[1]);
        let epochs = LANES.map(|lane| balanced.testbed.redis.epoch(lane));
        balanced.lose(number).await;
        until("all connections have moved", || balanced.living() == [0, 3]).await;
        assert_eq!(
            balanced.testbed.events.changed(),
            1,
            "{number}: every hold is uncertain"
        );
        for (lane, before) in LANES.into_iter().zip(epochs) {
            assert!(balanced.testbed.redis.epoch(lane) > before, "{number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_counts_as_another_one() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo).with_run_id("a")).await;
    let cut = |testbed: &MemoryTestbed| {
        testbed
            .server
            .living()
            .iter()
            .for_each(|socket| socket.end(Ending::Closed));
    };
    cut(&testbed);
    until("the connections are back", || {
        testbed.redis.reconnects() == 3
    })
    .await;
    assert_eq!(testbed.events.changed(), 0, "another server was reported");
    drop(testbed.server.clone().with_run_id("b"));
    cut(&testbed);
    until("the connections are back", || {
        testbed.redis.reconnects() == 6
    })
    .await;
    assert_eq!(testbed.events.changed(), 1);
}

/// Without the permission for INFO, the client cannot distinguish servers, so its connections stay
/// as they are.
#[tokio::test(start_paused = true)]
async fn servers_without_an_identity_are_taken_for_the_same() {
    let servers = [(); 2].map(|()| MemoryServer::answering(echo));
    let balanced = Balanced::between(servers, &[0, 1]).await;
    assert_eq!(balanced.living(), [2, 1]);
    assert_eq!(balanced.testbed.events.changed(), 0);
}
