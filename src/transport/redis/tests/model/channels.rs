//! Subscribers on several threads, while their connection is lost and replaced.

use super::*;

#[test]
fn channels_are_heard() {
    check("channels_are_heard", world);
}

/// Wanted by everybody.
const SHARED: &str = "shared";

struct World {
    hub: Arc<Hub>,
    /// The server of the connection of the moment.
    wire: Mutex<Option<Wire>>,
    losses: AtomicUsize,
}

fn world() {
    let hub = Arc::new(Hub::new());
    let world =
        Arc::new(World { hub: hub.clone(), wire: Mutex::default(), losses: AtomicUsize::new(0) });
    let subscribers: Vec<_> = ["one", "two"]
        .map(|own| {
            let world = world.clone();
            shuttle::thread::spawn(move || (0..5).for_each(|_| world.acts(&Arc::from(own))))
        })
        .into_iter()
        .collect();
    let mut made = world.opens();
    let mut gone = Vec::new();
    for _ in 0..draw(3) {
        pause();
        world.lose(&made);
        pause();
        gone.push(std::mem::replace(&mut made, world.opens()));
    }
    join(subscribers);
    // INVARIANTS H1 and H3.
    let heard = made.connection.ping().unwrap();
    block_on(heard).expect("it is answered");
    let wanted = hub.wanted();
    for channel in ["one", "two", SHARED] {
        let wants = wanted.iter().any(|wanted| wanted == channel);
        assert_eq!(made.wire.listens_to(channel), wants, "{channel}");
    }
    if draw(2) == 0 {
        // The last thing that is under way may be a confirmation.
        drop(hub.subscribe(&Arc::from(SHARED)));
        hub.unsubscribe(&Arc::from(SHARED));
    }
    hub.close();
    made.close(&hub);
    gone.push(made);
    gone.into_iter().for_each(Made::settle);
}

impl World {
    /// As the supervisor opens the connection for messages.
    fn opens(&self) -> Made {
        let made = Made::new(&self.hub);
        *self.wire.lock() = Some(made.wire.clone());
        self.hub.up(&made.connection);
        let heard = made.connection.ping().unwrap();
        if draw(2) == 0 {
            block_on(heard).expect("it is answered");
            self.hub.restored().unwrap();
        }
        made
    }

    fn lose(&self, made: &Made) {
        match draw(3) {
            0 => made.wire.kill(),
            1 => made.driver.abort(),
            _ => {}
        }
        pause();
        self.hub.lost();
        // What was confirmed before may be heard no more from here on.
        self.losses.fetch_add(1, Ordering::SeqCst);
        made.end(LOST, &self.hub);
        if draw(3) == 0 {
            self.hub.down(Fault(LOST.into()));
        }
    }

    fn acts(&self, own: &Arc<str>) {
        match draw(6) {
            0 => self.hub.unsubscribe(own),
            1 => drop(self.hub.subscribe(own)),
            2 => self.hub.unsubscribe(&Arc::from(SHARED)),
            3 => drop(self.hub.subscribe(&Arc::from(SHARED))),
            4 => {
                // Two orders under way, of which the first is not true for long.
                drop(self.hub.subscribe(own));
                self.hub.unsubscribe(own);
                drop(self.hub.subscribe(own));
                pause();
                self.listens(own);
            }
            _ => self.listens(own),
        }
    }

    /// Nobody else unsubscribes from this channel: what was confirmed is heard until a loss.
    fn listens(&self, own: &Arc<str>) {
        let losses = self.losses.load(Ordering::SeqCst);
        let Ok(answer) = self.hub.subscribe(own) else { return };
        let outcome = block_on(answer).expect("it is told something");
        for _ in 0..if outcome.is_ok() { 6 } else { 0 } {
            step();
            let wire = self.wire.lock().clone().expect("somebody confirmed it");
            assert!(
                wire.listens_to(own)
                    || self.losses.load(Ordering::SeqCst) > losses
                    || wire.is_dead(),
                "INVARIANT H2: {own} was confirmed and is not heard"
            );
        }
    }
}
