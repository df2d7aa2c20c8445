//! How the connections of a client are made.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::transport::StreamDialer;

type MakeDialer = Arc<dyn Fn(&Handle) -> StreamDialer + Send + Sync>;

#[derive(Clone)]
#[cfg_attr(
    not(feature = "test-util"),
    expect(dead_code, reason = "those to an engine or by a test need a feature")
)]
pub(super) enum Streams {
    Sockets,
    /// By another client of Redis, which handles login and TLS itself.
    Custom(StreamDialer),
    /// To an engine of this process, without login or TLS. A dialer is made for each client, and
    /// the engine's tasks run on the given runtime.
    Engine(MakeDialer),
    /// To an engine of this process that is like a server: with handshake and login.
    EngineAsServer(MakeDialer),
    /// By a test, in this process.
    Test(StreamDialer),
}

impl Streams {
    /// True if the client runs on the caller's runtime, so that paused time applies to all of its
    /// tasks.
    pub(super) fn are_in_process(&self) -> bool {
        self.are_of_an_engine() || matches!(self, Streams::Test(_))
    }

    pub(in crate::client) fn are_of_an_engine(&self) -> bool {
        matches!(self, Streams::Engine(_) | Streams::EngineAsServer(_))
    }

    pub(super) fn dialer(&self, runtime: &Handle) -> Option<StreamDialer> {
        match self {
            Streams::Sockets => None,
            Streams::Engine(make) | Streams::EngineAsServer(make) => Some(make(runtime)),
            Streams::Custom(dialer) | Streams::Test(dialer) => Some(dialer.clone()),
        }
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Streams::Sockets => "Sockets",
            Streams::Custom(_) => "Given",
            Streams::Engine(_) => "Engine",
            Streams::EngineAsServer(_) => "EngineAsServer",
            Streams::Test(_) => "Test",
        })
    }
}
