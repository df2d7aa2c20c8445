//! A client whose connection can be made to fail, on any backend.

use std::time::Duration;

use leasehold::test_util::LinkControl;
use leasehold::{Client, ClientBuilder};
use leasehold_testbed::{Bed, Line, Place, SOON};

/// The connection of one client.
pub(crate) enum FaultyConnection {
    Line(Box<Line>),
    Link(LinkControl),
}

impl FaultyConnection {
    /// Makes a client with its own connection.
    pub(crate) async fn with(
        bed: &Bed,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> (Client, FaultyConnection) {
        match &bed.place {
            Place::Server(server, connect) => {
                let line = server.line();
                // As in the bed: connecting is not what a test is about.
                let builder = connect(line.url()).connect_timeout(SOON);
                let client = settings(bed.judged(builder)).connect().await.unwrap();
                (client, FaultyConnection::Line(Box::new(line)))
            }
            Place::Embedded(engine) => {
                let client = settings(bed.judged(engine.builder()))
                    .connect()
                    .await
                    .unwrap();
                let link = engine.links().pop().expect("the client's link");
                (client, FaultyConnection::Link(link))
            }
        }
    }

    /// With default settings except for the lease.
    pub(crate) async fn with_lease(bed: &Bed, lease: Duration) -> (Client, FaultyConnection) {
        FaultyConnection::with(bed, |builder| builder.lease(lease)).await
    }

    /// Requests are executed, but no reply comes back.
    pub(crate) fn lose_replies(&self) {
        match self {
            FaultyConnection::Line(line) => line.swallow_replies(),
            FaultyConnection::Link(link) => link.mute(),
        }
    }

    /// Messages do not arrive, and nobody notices.
    pub(crate) fn lose_messages(&self) {
        match self {
            FaultyConnection::Line(line) => line.swallow_messages(),
            FaultyConnection::Link(link) => link.deafen(),
        }
    }

    /// Breaks the connections, which can be made again immediately.
    pub(crate) fn reconnect(&self) {
        match self {
            FaultyConnection::Line(line) => line.pass(),
            FaultyConnection::Link(link) => {
                link.cut();
                link.heal();
            }
        }
    }

    /// The client disappears without closing anything.
    pub(crate) fn die(&self) {
        match self {
            FaultyConnection::Line(line) => line.half_open(),
            FaultyConnection::Link(link) => link.crash(),
        }
    }
}
