//! Connecting: from checked settings to a client with its session and its background task.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use uuid::Uuid;

use super::Client;
use super::builder::{ClientBuilder, Target};
use crate::error::{Cause, ConfigError, Error};
use crate::session::background::Thread;
use crate::session::{Parts, Session, Settings, Subscriptions};
use crate::stats::Counters;
#[cfg(feature = "embedded")]
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::redis::dial::Dial;
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::redis::{IfUnreachable, Node, Redis};
use crate::transport::{CallError, Transport};

/// The parts that the transport and the session of a client share. They are made before both.
struct SharedParts {
    counters: Arc<Counters>,
    subscriptions: Arc<Subscriptions>,
    client_id: Uuid,
}

impl SharedParts {
    fn new() -> Self {
        let counters = Arc::<Counters>::default();
        let subscriptions = Subscriptions::new(counters.clone());
        SharedParts { counters, subscriptions, client_id: Uuid::new_v4() }
    }

    fn session(self, transport: Transport, settings: Settings) -> Arc<Session> {
        let SharedParts { counters, subscriptions, client_id } = self;
        Session::new(Parts { transport, subscriptions, counters, settings, client_id })
    }
}

impl ClientBuilder {
    /// Checks the settings and connects.
    ///
    /// # Redis cost
    ///
    /// Three connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connections are closed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the setting, its value and its limits, or says that there is no tokio
    /// runtime; nothing was sent. [`Error::Unavailable`] if no server answers within the connect
    /// time-out, [`Error::Protocol`] if the server refuses the user, the password or the database.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::Fail).await
    }

    /// As [`connect`](ClientBuilder::connect), but a server that cannot be reached is no error.
    ///
    /// The client goes on connecting in the background. Until it is connected, its calls end with
    /// [`Error::Unavailable`] or wait, as in an outage. For the servers of a quorum lock: a minority of the
    /// servers may be down when the program starts.
    ///
    /// # Redis cost
    ///
    /// Three connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connections are closed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the setting, its value and its limits, or says that there is no tokio
    /// runtime; nothing was sent. [`Error::Protocol`] if the server refuses the user, the password or the
    /// database.
    pub async fn connect_in_background(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::RetryLater).await
    }

    async fn connect_to(self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let settings = self.settings()?;
        let (dial, endpoint) = match &self.target {
            Target::Url(endpoint) => (None, endpoint.clone()?),
            #[cfg(feature = "fred")]
            Target::Fred(checked) => {
                let (template, endpoint) = checked.clone()?;
                (Some(Dial::Fred(template)), endpoint)
            }
            #[cfg(feature = "embedded")]
            Target::Engine(engine) => return Ok(self.embed(engine, settings)),
            #[cfg(feature = "test-util")]
            Target::Bytes(engine) => {
                return self.connect_by_bytes(engine, settings, if_unreachable).await;
            }
        };
        // Without a runtime tokio would panic later.
        if Handle::try_current().is_err() {
            return Err(Error::Config(ConfigError::NoRuntime));
        }
        let no_thread = |error: std::io::Error| Error::Unavailable {
            name: Arc::from("connect"),
            source: Cause::new(error.to_string()),
        };
        let thread = Thread::spawn().map_err(no_thread)?;
        let dial = match dial {
            Some(dial) => Ok(dial),
            None => {
                Dial::to(&endpoint, self.shared_tls(&endpoint, &thread.runtime).await?.as_ref())
            }
        };
        let session =
            self.session(dial, &endpoint, settings, if_unreachable, &thread.runtime).await?;
        thread.serve(session.clone());
        Ok(Client::new(session))
    }

    /// A session on a server.
    async fn session(
        &self,
        dial: Result<Dial, CallError>,
        endpoint: &Endpoint,
        settings: Settings,
        if_unreachable: IfUnreachable,
        background: &Handle,
    ) -> Result<Arc<Session>, Error> {
        let refused =
            |error| Error::from_call(&Arc::from(endpoint.to_string()), Duration::ZERO, error);
        let shared = SharedParts::new();
        let name = self.connection_name(shared.client_id);
        let node = Node::new(dial.map_err(refused)?, endpoint, &name);
        let node = node.log_in_by(self.credentials.clone());
        let subscriptions = shared.subscriptions.clone();
        let redis = Redis::connect(node, self.timing(), subscriptions, background, if_unreachable);
        let transport = Transport::Redis(redis.await.map_err(refused)?);
        Ok(shared.session(transport, settings))
    }
}

#[cfg(feature = "embedded")]
impl EmbeddedRedis {
    /// A client of this engine with the default settings.
    ///
    /// Inside a tokio runtime its background task runs there, so that paused time is the same for both.
    /// Outside a runtime the task gets a thread.
    ///
    /// # Panics
    ///
    /// Outside a runtime, if the system gives no thread.
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
        let settings = self.builder().settings().expect("BUG: the defaults are in range");
        self.builder().embed(self, settings)
    }

    /// Starts a client of this engine with settings. The connect time-out does nothing here.
    pub fn builder(&self) -> ClientBuilder {
        ClientBuilder::with_target(Target::Engine(self.clone()))
    }

    /// As [`builder`](EmbeddedRedis::builder), for a client that speaks RESP3 over byte streams, as to a
    /// server. Its switches are the last of `byte_links`.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn builder_over_bytes(&self) -> ClientBuilder {
        ClientBuilder::with_target(Target::Bytes(self.clone()))
    }
}

#[cfg(feature = "embedded")]
impl ClientBuilder {
    /// A client on an engine in this process. Its background task runs on the caller's runtime, so
    /// that paused time is the same for both; without a runtime the task gets a thread.
    fn embed(&self, engine: &EmbeddedRedis, settings: Settings) -> Client {
        let thread = match Handle::try_current() {
            Ok(_) => None,
            Err(_) => Some(Thread::spawn().expect("a thread for the embedded engine")),
        };
        let runtime = thread.as_ref().map_or_else(Handle::current, |thread| thread.runtime.clone());
        let shared = SharedParts::new();
        let embedded = engine.connect(shared.subscriptions.clone(), &runtime);
        embedded.set_command_timeout(settings.command_timeout);
        let session = shared.session(Transport::Embedded(embedded), settings);
        match thread {
            Some(thread) => thread.serve(session.clone()),
            None => self.serve_here(&runtime, session.clone()),
        }
        Client::new(session)
    }

    /// A client over byte streams in memory. All its tasks run on the caller's runtime, so that paused
    /// time is the same for all, and one seed gives one history.
    #[cfg(feature = "test-util")]
    async fn connect_by_bytes(
        &self,
        engine: &EmbeddedRedis,
        settings: Settings,
        if_unreachable: IfUnreachable,
    ) -> Result<Client, Error> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(Error::Config(ConfigError::NoRuntime));
        };
        let (dialer, _) = engine.dialer(&runtime);
        let (dial, endpoint) = (Ok(Dial::Memory(dialer)), Endpoint::parse(&engine.url())?);
        let session = self.session(dial, &endpoint, settings, if_unreachable, &runtime).await?;
        self.serve_here(&runtime, session.clone());
        Ok(Client::new(session))
    }

    #[cfg(feature = "test-util")]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(self.gate.clone().run(crate::session::background::serve(session)));
    }

    #[cfg(not(feature = "test-util"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(crate::session::background::serve(session));
    }
}
