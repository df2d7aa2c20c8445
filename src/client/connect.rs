//! Connecting: from checked settings to a client with its session and its background task.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use super::builder::{ClientBuilder, Target};
use crate::client_id::ClientId;
use crate::error::{Cause, ConfigError, Error};
use crate::session::background::Thread;
use crate::session::{Parts, Reported, Session, Settings};
use crate::stats::Counters;
use crate::transport::Transport;
#[cfg(feature = "embedded")]
use crate::transport::embedded::EmbeddedRedis;
#[cfg(feature = "fred")]
use crate::transport::redis::Remote;
#[cfg(feature = "fred")]
use crate::transport::redis::access::Access;
use crate::transport::redis::deployment::Deployment;
#[cfg(feature = "fred")]
use crate::transport::redis::dial::Dial;
#[cfg(feature = "test-util")]
use crate::transport::redis::dial::StreamDialer;
#[cfg(feature = "fred")]
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::redis::{self, IfUnreachable, Opening};

/// The parts that the transport and the session of a client share. They are made first.
struct SharedParts {
    counters: Arc<Counters>,
    reported: Reported,
    client_id: ClientId,
}

impl SharedParts {
    fn new() -> Self {
        #[cfg(feature = "metrics")]
        crate::telemetry::describe(crate::stats::METRICS);
        let counters = Arc::<Counters>::default();
        let reported = Reported::new(counters.clone());
        SharedParts {
            counters,
            reported,
            client_id: ClientId::random(),
        }
    }

    fn session(self, transport: Transport, settings: Settings) -> Arc<Session> {
        let SharedParts {
            counters,
            reported,
            client_id,
        } = self;
        Session::new(Parts {
            transport,
            reported,
            counters,
            settings,
            client_id,
        })
    }
}

impl ClientBuilder {
    /// Checks the settings and connects.
    ///
    /// # Redis cost
    ///
    /// Three connections. With [requirements](ClientBuilder::require), also a [preflight](Client::preflight).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`]: a setting is out of range, with its value and its limits, or there is no tokio
    ///   runtime. Nothing was sent.
    /// - [`Error::Requirements`]: the deployment gives less than required.
    /// - [`Error::Unavailable`]: no server answered within the connect timeout.
    /// - [`Error::Protocol`]: the server refused the user, the password or the database.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::Fail).await
    }

    /// Like [`connect`](ClientBuilder::connect), but does not fail if a server cannot be reached.
    ///
    /// The client keeps connecting in the background. Until it is connected, its calls fail with
    /// [`Error::Unavailable`] or wait, as in an outage. Use it for the servers of a quorum lock, so that the
    /// program can start while a minority of the servers is down.
    ///
    /// # Redis cost
    ///
    /// Three connections. With [requirements](ClientBuilder::require), also a [preflight](Client::preflight).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](ClientBuilder::connect), except that an unreachable server is not an error.
    pub async fn connect_in_background(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::RetryLater).await
    }

    async fn connect_to(mut self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let requirements = self.requirements.take();
        let client = Box::pin(self.open(if_unreachable)).await?;
        if let Some(requirements) = requirements {
            client.meets(&requirements).await?;
        }
        Ok(client)
    }

    async fn open(self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let settings = self.settings()?;
        let place = match &self.target {
            Target::Url(deployment) => Place::Deployment(deployment.clone()?),
            #[cfg(feature = "fred")]
            Target::Fred(checked) => {
                let (template, endpoint) = checked.clone()?;
                Place::Server(template.dialer().to(&endpoint), endpoint)
            }
            #[cfg(feature = "embedded")]
            Target::Engine(engine) => return Ok(self.embed(engine, settings)),
        };
        // Without a runtime, tokio would panic later.
        if Handle::try_current().is_err() {
            return Err(Error::Config(ConfigError::NoRuntime));
        }
        #[cfg(feature = "test-util")]
        if self.streams.is_some() {
            return self.connect_here(place, settings, if_unreachable).await;
        }
        let no_thread = |error: std::io::Error| Error::Unavailable {
            name: Arc::from("connect"),
            source: Cause::new(error.to_string()),
        };
        let thread = Thread::spawn().map_err(no_thread)?;
        let session = self
            .session(place, settings, if_unreachable, &thread.runtime)
            .await?;
        thread.serve(session.clone());
        Ok(Client::new(session))
    }

    /// Opens a session on a deployment.
    async fn session(
        &self,
        place: Place,
        settings: Settings,
        if_unreachable: IfUnreachable,
        background: &Handle,
    ) -> Result<Arc<Session>, Error> {
        let place_name = place.to_string();
        let refused =
            |error| Error::from_call(&Arc::from(place_name.as_str()), Duration::ZERO, error);
        let shared = SharedParts::new();
        let name = self.connection_name(shared.client_id);
        let access = match &place {
            Place::Deployment(deployment) => self.access(deployment, background).await?,
            #[cfg(feature = "fred")]
            Place::Server(..) => Access::default(),
        };
        let place = match place {
            Place::Deployment(Deployment::Sentinel(deployment)) => {
                redis::Place::Sentinel(deployment)
            }
            Place::Deployment(Deployment::Cluster(deployment)) => redis::Place::Cluster(deployment),
            Place::Deployment(Deployment::Single(endpoint)) => {
                redis::Place::Server(access.server(&endpoint, &name).map_err(refused)?)
            }
            #[cfg(feature = "fred")]
            Place::Server(dial, endpoint) => {
                redis::Place::Server(Remote::new(dial, &endpoint, &name))
            }
        };
        let opening = Opening {
            name,
            access,
            timing: self.timing(),
            events: Arc::new(shared.reported.clone()),
            own_runtime: background.clone(),
            if_unreachable,
            sharded_pubsub: self.sharded_pubsub,
        };
        let transport = Transport::connect(place, opening).await.map_err(refused)?;
        Ok(shared.session(transport, settings))
    }
}

/// Where a client connects to.
enum Place {
    Deployment(Deployment),
    /// A server with its own way to dial.
    #[cfg(feature = "fred")]
    Server(Dial, Endpoint),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Deployment(deployment) => deployment.fmt(f),
            #[cfg(feature = "fred")]
            Place::Server(_, endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(feature = "embedded")]
impl EmbeddedRedis {
    /// Makes a client of this engine with the default settings.
    ///
    /// Inside a tokio runtime, all its tasks run there, so that paused time applies to all of them. Outside a
    /// runtime, they get a thread.
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
        let settings = self
            .builder()
            .settings()
            .expect("BUG: the defaults are in range");
        self.builder().embed(self, settings)
    }

    /// Starts a client of this engine with settings.
    pub fn builder(&self) -> ClientBuilder {
        ClientBuilder::with_target(Target::Engine(self.clone()))
    }
}

#[cfg(feature = "embedded")]
impl ClientBuilder {
    /// A client of an engine in this process. All its tasks run on the caller's runtime, so that paused time
    /// applies to all of them. Without a runtime they get a thread.
    fn embed(&self, engine: &EmbeddedRedis, settings: Settings) -> Client {
        let thread = match Handle::try_current() {
            Ok(_) => None,
            Err(_) => Some(Thread::spawn().expect("a thread for the embedded engine")),
        };
        let runtime = thread
            .as_ref()
            .map_or_else(Handle::current, |thread| thread.runtime.clone());
        let shared = SharedParts::new();
        let remote = engine.remote(&runtime, &self.connection_name(shared.client_id));
        let events = Arc::new(shared.reported.clone());
        let transport = Transport::embedded(remote, self.timing(), events, &runtime);
        let session = shared.session(transport, settings);
        match thread {
            Some(thread) => thread.serve(session.clone()),
            None => self.serve_here(&runtime, session.clone()),
        }
        Client::new(session)
    }

    /// Connects a client without its own thread.
    #[cfg(feature = "test-util")]
    async fn connect_here(
        &self,
        place: Place,
        settings: Settings,
        if_unreachable: IfUnreachable,
    ) -> Result<Client, Error> {
        let runtime = Handle::current();
        let session = self
            .session(place, settings, if_unreachable, &runtime)
            .await?;
        self.serve_here(&runtime, session.clone());
        Ok(Client::new(session))
    }

    /// Replaces TCP, TLS and Unix sockets: `dial` gets `host:port` or a path. All tasks of the client run on
    /// the caller's runtime, under its paused time.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn dial_by(
        mut self,
        dial: impl Fn(&str) -> std::io::Result<tokio::io::DuplexStream> + Send + Sync + 'static,
    ) -> Self {
        self.streams = Some(StreamDialer::new(move |address| {
            dial(address).map(tokio::io::split)
        }));
        self
    }

    #[cfg(feature = "test-util")]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(
            self.gate
                .clone()
                .run(crate::session::background::serve(session)),
        );
    }

    #[cfg(not(feature = "test-util"))]
    #[expect(
        clippy::unused_self,
        reason = "the same call with and without the feature"
    )]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(crate::session::background::serve(session));
    }
}
