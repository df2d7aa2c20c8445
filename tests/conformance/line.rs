//! A client whose line to the server can be made to fail, whatever the server is.

use std::time::Duration;

use leasehold::test_util::{Flow, LinkControl};
use leasehold::{Client, ClientBuilder};

use crate::support::proxy::Proxy;
use crate::world::{LIMIT, World, connection};

/// One client's line.
pub(crate) enum Line {
    Proxy(Box<Proxy>),
    Link(LinkControl),
}

impl Line {
    /// Makes a client with a line of its own.
    pub(crate) async fn with(
        world: &World,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> (Client, Line) {
        match world {
            World::Redis(server) => {
                let proxy = Proxy::start(server.address());
                // As in the world: to connect is no part of what is shown.
                let builder = connection(&proxy.url()).connect_timeout(LIMIT);
                let client = settings(builder).connect().await.unwrap();
                (client, Line::Proxy(Box::new(proxy)))
            }
            World::Embedded(engine) => {
                let client = settings(engine.builder()).connect().await.unwrap();
                let link = engine.links().pop().expect("the client's link");
                (client, Line::Link(link))
            }
        }
    }

    /// With default settings, but for the lease.
    pub(crate) async fn with_lease(world: &World, lease: Duration) -> (Client, Line) {
        Line::with(world, |builder| builder.lease(lease)).await
    }

    /// Requests are executed, and no reply comes back.
    pub(crate) fn lose_replies(&self) {
        match self {
            Line::Proxy(proxy) => proxy.swallow_replies(),
            Line::Link(link) => link.set_replies(Flow::Vanishes),
        }
    }

    /// Messages do not arrive, and nobody notices.
    pub(crate) fn lose_messages(&self) {
        match self {
            Line::Proxy(proxy) => proxy.swallow_messages(),
            Line::Link(link) => link.set_messages(Flow::Vanishes),
        }
    }

    /// Breaks the connections; they come back at once, as good as new.
    pub(crate) fn reconnect(&self) {
        match self {
            Line::Proxy(proxy) => proxy.pass(),
            Line::Link(link) => {
                link.cut();
                link.set_replies(Flow::Passes);
                link.set_messages(Flow::Passes);
                link.heal();
            }
        }
    }

    /// The client is gone without a farewell.
    pub(crate) fn die(&self) {
        match self {
            Line::Proxy(proxy) => proxy.half_open(),
            Line::Link(link) => link.crash(),
        }
    }
}
