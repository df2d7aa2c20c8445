//! A look at the deployment before it is relied on: what its settings mean for locks.
//!
//! [`Client::preflight`](crate::Client::preflight) asks each server, and reports what it found and which guarantee
//! results, in words. [`ClientBuilder::require`](crate::ClientBuilder::require) refuses to connect to a deployment
//! that gives less than [`Requirements`].

// | file | what it does |
// | --- | --- |
// | `asked`, `probe`, `rights` | ask one server |
// | `answers` | reads what it says |
// | `node` | what was found |
// | `findings` | what that means for locks |
// | `failover` | what the sentinels say, and whether holds outlast a failover |
// | `guarantee` | what it means for the deployment as a whole |
// | `requirements` | whether it is enough |

mod answers;
mod asked;
mod failover;
mod findings;
mod guarantee;
mod node;
mod probe;
mod requirements;
mod rights;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use self::asked::Asked;
use self::findings::Context;
use self::rights::Wanted;
use crate::error::Error;
use crate::session::{Handle, Session};
use crate::transport::{DeploymentKind, Group};

pub use self::failover::SentinelState;
pub use self::findings::{Finding, Severity};
pub use self::guarantee::Guarantee;
pub use self::node::{
    ClockDifference, ClusterState, Flavour, NodeReport, Persistence, Replica, Rights, RoundTrips,
    ServerState, Version,
};
pub use self::requirements::Requirements;
pub use crate::protocol::rights::Use;

/// The lock whose keys and channels are asked for if the caller names none.
const NAME: &str = "preflight";

/// What was found of a deployment, and what it means for locks.
///
/// `Display` prints all of it, for an operator. It is a snapshot: settings and replicas may change a moment
/// later.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Preflight {
    /// What the locks live on.
    pub deployment: DeploymentKind,
    /// Each server that takes locks: every primary of a cluster, the primary of sentinels, the one server.
    pub nodes: Vec<NodeReport>,
    /// What the sentinels say; `None` without sentinels.
    pub sentinels: Option<SentinelState>,
    /// What matters of it, by server, the worst of each server first; then of the sentinels.
    pub findings: Vec<Finding>,
    /// What results.
    pub guarantee: Guarantee,
}

impl Preflight {
    /// The weight of the worst finding; `None` without findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// A preflight with settings; `.await` it for the [`Preflight`].
///
/// Made by [`Client::preflight`](crate::Client::preflight), which tells its cost, its cancel safety and its errors.
#[derive(Debug)]
#[must_use = "a preflight asks nothing until it is awaited"]
pub struct PreflightCheck<'a> {
    handle: &'a Handle,
    uses: Vec<Use>,
    name: String,
}

impl<'a> PreflightCheck<'a> {
    pub(crate) fn new(handle: &'a Handle) -> Self {
        PreflightCheck { handle, uses: Use::ALL.to_vec(), name: NAME.to_owned() }
    }

    /// As a client must find it that is to connect with these requirements.
    pub(crate) fn for_requirements(handle: &'a Handle, requirements: &Requirements) -> Self {
        let (uses, name) = requirements.rights.clone().unwrap_or((vec![], NAME.to_owned()));
        PreflightCheck { handle, uses, name }
    }

    /// What the client will be used for: other rights are not asked for. Default: all uses.
    pub fn uses(mut self, uses: impl IntoIterator<Item = Use>) -> Self {
        self.uses = uses.into_iter().collect();
        self
    }

    /// The name of a lock, for users with rights to some keys and channels only. Default: `preflight`.
    ///
    /// The client's prefix is put before it. No key is read or written.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    async fn run(self) -> Result<Preflight, Error> {
        let session = &self.handle.session;
        let settings = &session.settings;
        let wanted = Wanted::new(&self.uses, &settings.key_prefix, &self.name)?;
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let deployment = session.transport.kind();
        let groups = session.transport.groups().into_iter();
        let asked = groups.map(|group| report(session, group, &wanted));
        let mut nodes = futures::future::join_all(asked).await;
        nodes.sort_by(|left, right| left.server.cmp(&right.server));
        let sentinels = match deployment {
            DeploymentKind::Sentinel => Some(failover::ask_sentinels(session).await),
            _ => None,
        };
        let context = Context {
            kind: deployment,
            lease: settings.lease,
            command_timeout: settings.command_timeout,
            durability: settings.durability,
            key: format!("{}{}", settings.key_prefix, self.name),
        };
        let mut findings: Vec<_> =
            nodes.iter().flat_map(|node| findings::of(node, &context)).collect();
        if let Some(state) = &sentinels {
            let server = session.transport.server();
            findings.extend(findings::of_sentinels(&server, state, &context));
        }
        let guarantee = guarantee::of(deployment, settings.durability, &nodes);
        Ok(Preflight { deployment, nodes, sentinels, findings, guarantee })
    }
}

impl<'a> IntoFuture for PreflightCheck<'a> {
    type Output = Result<Preflight, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

async fn report(session: &Arc<Session>, group: Group, wanted: &Wanted) -> NodeReport {
    let server = session.transport.server_of(group);
    let state = match session.transport.kind() {
        DeploymentKind::Embedded => Ok(ServerState::embedded()),
        _ => probe::look(Asked { session, group }, &server, wanted).await,
    };
    NodeReport { server, state }
}

impl fmt::Display for Preflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tell = |f: &mut fmt::Formatter<'_>, finding: &Finding| {
            writeln!(f, "  {:<8} {}", finding.severity, finding.text)
        };
        let is_of = |finding: &&Finding, node: &NodeReport| finding.server == node.server;
        for node in &self.nodes {
            node.fmt(f)?;
            for finding in self.findings.iter().filter(|finding| is_of(finding, node)) {
                tell(f, finding)?;
            }
        }
        if let Some(sentinels) = &self.sentinels {
            writeln!(f, "{sentinels}")?;
            let of_none = |finding: &&Finding| !self.nodes.iter().any(|node| is_of(finding, node));
            for finding in self.findings.iter().filter(of_none) {
                tell(f, finding)?;
            }
        }
        self.guarantee.fmt(f)
    }
}
