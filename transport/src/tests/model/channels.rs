//! Subscribers on several threads, while their connection is lost and replaced.

use super::*;

#[test]
fn confirmed_channels_stay_subscribed() {
    check("confirmed_channels_stay_subscribed", scenario);
}

/// The channel that all threads use.
const SHARED: &str = "shared";

struct Testbed {
    registry: Arc<SubscriptionRegistry>,
    /// The socket of the present connection.
    socket: Mutex<Option<Socket>>,
    losses: AtomicUsize,
}

fn scenario() {
    let registry = Arc::new(SubscriptionRegistry::default());
    let testbed = Arc::new(Testbed {
        registry: registry.clone(),
        socket: Mutex::default(),
        losses: AtomicUsize::new(0),
    });
    let subscribers: Vec<_> = ["one", "two"]
        .map(|own| {
            let testbed = testbed.clone();
            shuttle::thread::spawn(move || (0..5).for_each(|_| testbed.act(&Arc::from(own))))
        })
        .into_iter()
        .collect();
    let mut made = testbed.open();
    let mut gone = Vec::new();
    for _ in 0..draw(3) {
        pause();
        testbed.lose(&made);
        pause();
        gone.push(std::mem::replace(&mut made, testbed.open()));
    }
    join(subscribers);
    // INVARIANTS REGISTRY-1 and REGISTRY-3.
    let heard = made.connection.ping().unwrap();
    block_on(heard).expect("the PING is answered");
    let wanted = registry.channels();
    for channel in ["one", "two", SHARED] {
        let wants = wanted.iter().any(|wanted| wanted == channel);
        assert_eq!(made.socket.is_subscribed(channel), wants, "{channel}");
    }
    if draw(2) == 0 {
        // Subscribe, so that the last frame in flight may be a confirmation.
        drop(registry.subscribe(&Arc::from(SHARED), PubSub::Plain));
        registry.unsubscribe(&Arc::from(SHARED));
    }
    registry.close();
    made.close(&registry);
    gone.push(made);
    gone.into_iter().for_each(Made::settle);
}

impl Testbed {
    /// Opens a connection for messages like the supervisor.
    fn open(&self) -> Made {
        let made = Made::new(&self.registry);
        *self.socket.lock() = Some(made.socket.clone());
        self.registry.connected(&made.connection, 0);
        let heard = made.connection.ping().unwrap();
        if draw(2) == 0 {
            block_on(heard).expect("the PING is answered");
            self.registry.restored().unwrap();
        }
        made
    }

    fn lose(&self, made: &Made) {
        match draw(3) {
            0 => made.socket.kill(),
            1 => made.driver.abort(),
            _ => {}
        }
        pause();
        self.registry.disconnected();
        // From now on, earlier confirmations may not hold any more.
        self.losses.fetch_add(1, Ordering::SeqCst);
        made.end(LOST, &self.registry);
        if draw(3) == 0 {
            self.registry.unreachable(Fault(LOST.into()));
        }
    }

    fn act(&self, own: &Arc<str>) {
        match draw(6) {
            0 => self.registry.unsubscribe(own),
            1 => drop(self.registry.subscribe(own, PubSub::Plain)),
            2 => self.registry.unsubscribe(&Arc::from(SHARED)),
            3 => drop(self.registry.subscribe(&Arc::from(SHARED), PubSub::Plain)),
            4 => {
                // Keep two subscriptions in flight. The first one is cancelled.
                drop(self.registry.subscribe(own, PubSub::Plain));
                self.registry.unsubscribe(own);
                drop(self.registry.subscribe(own, PubSub::Plain));
                pause();
                self.check_subscription(own);
            }
            _ => self.check_subscription(own),
        }
    }

    /// No other thread unsubscribes from this channel, so a confirmation holds until a loss.
    fn check_subscription(&self, own: &Arc<str>) {
        let losses = self.losses.load(Ordering::SeqCst);
        let Ok(answer) = self.registry.subscribe(own, PubSub::Plain) else {
            return;
        };
        let outcome = block_on(answer).expect("the subscription has an outcome");
        for _ in 0..if outcome.is_ok() { 6 } else { 0 } {
            step();
            let socket = self
                .socket
                .lock()
                .clone()
                .expect("a connection confirmed it");
            assert!(
                socket.is_subscribed(own)
                    || self.losses.load(Ordering::SeqCst) > losses
                    || socket.is_dead(),
                "INVARIANT REGISTRY-2: {own} was confirmed and is not subscribed"
            );
        }
    }
}
