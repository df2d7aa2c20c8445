//! Sentinel: a node whose target is the server that the sentinels name as the primary.
//!
//! All known sentinels are asked at once ([`look`]). One of them may be cut off, or its address may
//! belong to another deployment by now, so a single one is never believed:
//!
//! - The primary is the server that more than half of the sentinels name. Without such a majority,
//!   the client stays with the present one.
//! - A server that fewer sentinels name is accepted if it proves to be the successor of the present
//!   primary: it is a primary, and its former replication id is the id of the present one.
//! - A starting client has nothing to compare with. After [`look::PATIENCE`], it takes the server
//!   that most of the answering sentinels name.
//! - The sentinels of the URL are always asked. Others are asked as long as most of the answering
//!   ones see them up.
//!
//! The server itself must confirm that it is a primary, on each connection for calls: at the start
//! (`handshake.rs`) and then about every second (`supervisor.rs`).
//!
//! | event | what follows |
//! | --- | --- |
//! | `+switch-master` on any sentinel, a sentinel is connected | a look; the message itself is not trusted |
//! | a connection to the primary is lost, refused, demoted, read-only, or cannot be opened | a look |
//! | [`EVERY`] has passed | a look |
//! | a look finds another primary | every connection to the former one is given up at once (`Node::switch`); every hold is uncertain until the new primary has confirmed it |
//! | no sentinel answers | nothing, because the primary may still work |
//!
//! # Why a switch gives up working connections
//!
//! A former primary that still runs is demoted about ten seconds after its successor was announced.
//! Until then it accepts writes, so it could grant a lock to a client that stays, while the new
//! primary grants the same lock to another client.
//!
//! # Limits
//!
//! A client that reaches the former primary but no sentinel does not notice the switch.

mod look;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{Duration, timeout};

use self::watch::{Origin, WatchedSentinel};
use super::deployment::Deployment;
use super::endpoint::Endpoint;
use super::grace::Former;
use super::handshake::not_connected;
use super::node::Node;
use super::remote::Remote;
use super::setup::{IfUnreachable, Setup};
use super::task::AbortOnDrop;
use crate::call::Value;
use crate::call_error::{CallError, Fault};
use crate::sync::Mutex;

/// The longest time between two looks, apart from jitter.
const EVERY: Duration = Duration::from_millis(1_500);

pub(crate) struct Sentinel {
    pub(super) node: Arc<Node>,
    shared: Arc<SentinelState>,
    looking: AbortOnDrop<()>,
}

struct SentinelState {
    deployment: Deployment,
    setup: Setup,
    /// Notified when there may be another primary.
    changed: Arc<Notify>,
    /// The watched sentinels by address.
    sentinels: Mutex<BTreeMap<String, WatchedSentinel>>,
    /// Why no primary is known. `None` once the sentinels have named one.
    unnamed: Mutex<Option<CallError>>,
}

impl Sentinel {
    pub(super) async fn connect(
        deployment: Deployment,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Self, CallError> {
        let changed = Arc::<Notify>::default();
        let unknown = Err(Fault("no sentinel has named the primary yet".into()));
        let node = Node::open(unknown, Former::Nobody, setup.clone(), changed.clone());
        let node = Arc::new(node);
        let shared = Arc::new(SentinelState {
            deployment,
            setup,
            changed,
            sentinels: Mutex::default(),
            unnamed: Mutex::default(),
        });
        for endpoint in &shared.deployment.endpoints {
            shared.watch(endpoint, Origin::Url)?;
        }
        let own = &shared.setup.runtimes.own;
        let looking = AbortOnDrop(own.spawn(look::run(shared.clone(), node.clone())));
        // CANCEL: dropping this value ends all tasks.
        let sentinel = Sentinel {
            node,
            shared,
            looking,
        };
        let (setup, deployment) = (&sentinel.shared.setup, &sentinel.shared.deployment);
        if if_unreachable == IfUnreachable::Fail {
            setup.first_resolved(&deployment.endpoints).await;
        }
        let connected = timeout(setup.timing.connect, sentinel.node.connected())
            .await
            .is_ok();
        if connected || if_unreachable == IfUnreachable::RetryLater {
            return Ok(sentinel);
        }
        let unnamed = sentinel.shared.unnamed.lock().take();
        Err(match unnamed {
            Some(error) => error,
            None => sentinel.node.why_not_connected().unwrap_or_else(|| {
                not_connected("the connection for messages was not made in time")
            }),
        })
    }

    pub(super) fn server(&self) -> String {
        self.shared.deployment.to_string()
    }

    /// The replies to `SENTINEL <question> <name of the primary>`, including error replies.
    pub(super) async fn answers(&self, question: &str) -> Vec<Value> {
        let sentinels: Vec<_> = self.shared.sentinels.lock().values().cloned().collect();
        let words = [
            b"SENTINEL",
            question.as_bytes(),
            self.shared.deployment.master.as_bytes(),
        ];
        let asked = join_all(sentinels.iter().map(|sentinel| sentinel.ask(&words))).await;
        let answer = |outcome| match outcome {
            Ok(value) => Some(value),
            Err(CallError::Refused(Fault(text))) => Some(Value::Text(text)),
            Err(_) => None,
        };
        asked.into_iter().filter_map(answer).collect()
    }

    pub(super) async fn close(&self) {
        self.looking.0.abort();
        self.shared.sentinels.lock().clear();
        self.node.close().await;
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinel")
            .field("deployment", &self.server())
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl SentinelState {
    /// A server that sentinels have named. It is refused unless it is a primary.
    fn primary(&self, server: &Result<Endpoint, Fault>) -> Result<Arc<Remote>, Fault> {
        let server = server.as_ref().map_err(Clone::clone)?;
        let mut remote = self.setup.server(server).map_err(|error| {
            Fault(format!(
                "the sentinels name a primary that cannot be used: {error:?}"
            ))
        })?;
        remote.handshake.primary_only = true;
        Ok(Arc::new(remote))
    }

    /// Watches a sentinel, unless it is watched already.
    fn watch(&self, endpoint: &Endpoint, origin: Origin) -> Result<(), CallError> {
        let remote = Arc::new(self.setup.sentinel(endpoint)?);
        let mut sentinels = self.sentinels.lock();
        if sentinels.len() == SENTINELS_MAX {
            return Err(not_connected("too many sentinels"));
        }
        let watched = || WatchedSentinel::start(origin, remote, &self.setup, &self.changed);
        sentinels
            .entry(endpoint.address().to_string())
            .or_insert_with(watched);
        Ok(())
    }
}

/// The most sentinels to watch.
const SENTINELS_MAX: usize = 128;
