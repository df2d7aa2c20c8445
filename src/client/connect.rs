//! Connecting: from checked settings to a client with its session and its background task.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use super::builder::ClientBuilder;
use super::streams::Streams;
use crate::client_id::ClientId;
#[cfg(feature = "embedded")]
use crate::embedded::EmbeddedRedis;
use crate::error::{Cause, ConfigError, Error};
use crate::session::SessionParts;
use crate::session::background::{self, Reported, Thread};
use crate::session::calls::MadeIn;
use crate::session::core::Session;
use crate::stats::Counters;
use crate::timer;
use crate::transport::{
    CallError, Fault, IfUnreachable, Runtimes, Servers, Setup, StreamDialer, Transport,
};

impl ClientBuilder {
    /// Checks the settings and connects.
    ///
    /// # Redis cost
    ///
    /// Three connections, with one round trip each for the handshake. The first one may take up to
    /// two more on a server that refuses `HELLO` or scripts without keys.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`]: a setting is out of range, with its value and its limits, or there is
    ///   no tokio runtime with timers and I/O. Nothing was sent.
    /// - [`Error::Unavailable`]: no server answered within the connect timeout.
    /// - [`Error::Protocol`]: the server refused the user, the password, the database, scripts, or
    ///   to wait for the copies of a [`durability`](ClientBuilder::durability).
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::Fail).await
    }

    /// Like [`connect`](ClientBuilder::connect), but does not fail if a server cannot be reached.
    ///
    /// The client keeps connecting in the background. Until it is connected, its calls fail with
    /// [`Error::Unavailable`] or wait, as in an outage. Use it for the servers of a quorum lock, so
    /// that the program can start while a minority of the servers is down.
    ///
    /// # Redis cost
    ///
    /// Three connections, with one round trip each for the handshake. The first one may take up to
    /// two more on a server that refuses `HELLO` or scripts without keys.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`]: a setting is out of range, with its value and its limits, or there is
    ///   no tokio runtime with timers and I/O. Nothing was sent.
    /// - [`Error::Unavailable`]: the system cannot start a thread. An unreachable server is not an
    ///   error.
    /// - [`Error::Protocol`]: the server refused the user, the password, the database, scripts, or
    ///   to wait for the copies of a [`durability`](ClientBuilder::durability).
    pub async fn connect_in_background(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::RetryLater).await
    }

    async fn connect_to(self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let client = Box::pin(self.open(if_unreachable)).await?;
        client.may_wait_for_copies().await?;
        Ok(client)
    }

    /// Connects to an engine of this process without awaiting anything.
    async fn open(self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let settings = self.settings()?;
        let deployment = self.deployment.clone()?;
        let (runtimes, thread) = self.runtimes()?;
        let made_in = MadeIn {
            runtime: runtimes.caller.clone(),
            runs_all: thread.is_none() && self.streams.are_of_an_engine(),
        };
        #[cfg(feature = "metrics")]
        crate::telemetry::describe(crate::stats::METRICS);
        let counters = Arc::<Counters>::default();
        let reported = Reported::new(counters.clone());
        let client_id = ClientId::random();
        let setup = Setup {
            name: self.connection_name(client_id),
            tls: self.shared_tls(&deployment, &runtimes.own).await?,
            provider: self.credentials.clone(),
            streams: self.streams.dialer(&runtimes.own),
            timing: self.timing(),
            events: Arc::new(reported.clone()),
            runtimes,
            sharded_pubsub: self.sharded_pubsub,
            servers: Servers::default(),
        };
        let url: Arc<str> = deployment.to_string().into();
        // The name says where already.
        let whereto = format!("cannot connect to {url}:");
        let failed = |error: CallError| {
            let error = error.reworded(|text| text.replacen(&whereto, "cannot connect:", 1));
            Error::from_call(&url, Duration::ZERO, error)
        };
        let transport = Transport::connect(deployment, setup, if_unreachable).await;
        let transport = transport.map_err(failed)?;
        if let Some(reason) = transport.why_no_scripts() {
            return Err(failed(CallError::Refused(Fault(reason))));
        }
        let session = Session::new(SessionParts {
            transport,
            reported,
            counters,
            settings,
            client_id,
            made_in,
        });
        let thread = thread.map(|thread| thread.serve(session.clone()));
        if thread.is_none() {
            let harness = &session.calls.settings.telemetry.harness;
            let serving = harness.wrap(Box::pin(background::serve(session.clone())));
            session.calls.made_in.runtime.spawn(serving);
        }
        Ok(Client::new(crate::session::core::Handle::new(
            session, thread,
        )))
    }

    /// The runtimes of a client, and its own thread if it needs one.
    fn runtimes(&self) -> Result<(Runtimes, Option<Thread>), Error> {
        let caller = Handle::try_current();
        let caller = match (caller, self.streams.are_in_process()) {
            (Ok(caller), true) if timer::has_timers() => {
                let own = caller.clone();
                return Ok((Runtimes { caller, own }, None));
            }
            (_, true) => None,
            // Without a runtime, or with less, tokio would panic later.
            (Err(_), false) => return Err(ConfigError::NoRuntime.into()),
            (Ok(caller), false) => match timer::lacks() {
                Some(what) => return Err(ConfigError::RuntimeLacks { what }.into()),
                None => Some(caller),
            },
        };
        let no_thread = |error: std::io::Error| Error::Unavailable {
            name: Arc::from("connect"),
            cause: Cause::new(error.to_string()),
        };
        let thread = Thread::spawn().map_err(no_thread)?;
        let own = thread.runtime.clone();
        let caller = caller.unwrap_or_else(|| own.clone());
        Ok((Runtimes { caller, own }, Some(thread)))
    }

    /// Replaces TCP, TLS and Unix sockets: `dial` gets `host:port` or a path. All tasks of the
    /// client run on the caller's runtime, under its paused time.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn dial_by(
        mut self,
        dial: impl Fn(&str) -> std::io::Result<tokio::io::DuplexStream> + Send + Sync + 'static,
    ) -> Self {
        let dial = move |address: &str| dial(address).map(tokio::io::split);
        self.streams = Streams::Test(StreamDialer::new(dial));
        self
    }

    /// Replaces TCP, TLS and Unix sockets, for other crates of this workspace: `streams` encrypt
    /// and log in themselves.
    #[doc(hidden)]
    pub fn dial_through(mut self, streams: StreamDialer) -> Self {
        self.streams = Streams::Custom(streams);
        self
    }
}

#[cfg(feature = "embedded")]
impl EmbeddedRedis {
    /// Makes a client of this engine with the default settings.
    ///
    /// Inside a tokio runtime, all its tasks run there, so that paused time applies to all of them.
    /// Outside a runtime, or in one without timers, they get a thread.
    ///
    /// # Panics
    ///
    /// Outside a runtime, if the system cannot start a thread.
    ///
    /// # Examples
    ///
    /// Two clients that contend, as two processes would:
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{EmbeddedRedis, Lease};
    ///
    /// let redis = EmbeddedRedis::new();
    /// let (first, second) = (redis.client(), redis.client());
    /// let guard = first.lock("orders:42").lock().await?;
    /// let refused = second.lock("orders:42").try_lock_now(Lease::Renewed).await;
    /// assert!(refused.is_err_and(|error| error.is_timeout()));
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(&self) -> Client {
        let client = self.builder().open(IfUnreachable::RetryLater);
        let client = futures_util::FutureExt::now_or_never(client);
        client
            .expect("BUG: it is connected without an await")
            .expect("a thread for the embedded engine")
    }

    /// Starts a client of this engine with settings.
    pub fn builder(&self) -> ClientBuilder {
        let engine = self.clone();
        let dialer = Arc::new(move |runtime: &Handle| engine.stream_dialer(runtime));
        let streams = if self.is_like_a_server() {
            Streams::EngineAsServer(dialer)
        } else {
            Streams::Engine(dialer)
        };
        ClientBuilder::on(Ok(self.deployment()), streams)
    }
}
