//! Checks a deployment before you rely on it: what its settings mean for locks.
//!
//! [`Admin::preflight`](crate::Admin::preflight) asks each server, and reports in words what it
//! found and which guarantee the deployment gives. [`Admin::require`](crate::Admin::require)
//! refuses a deployment that gives less than its [`Requirements`].

// | file | what it does |
// | --- | --- |
// | `ask`, `probe`, `rights`, `scripts` | ask one server |
// | `answers` | parses its answers |
// | `node` | what was found |
// | `commands`, `needs` | which commands each use needs, and which abilities |
// | `abilities` | what the server can do, and which uses work |
// | `findings` | what that means for locks |
// | `failover` | what the sentinels report, and whether holds outlast a failover |
// | `guarantee` | what it means for the deployment as a whole |
// | `requirements` | whether it is enough |

mod abilities;
mod answers;
mod ask;
mod commands;
mod failover;
mod findings;
mod guarantee;
mod needs;
mod node;
mod probe;
mod requirements;
mod rights;
mod scripts;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use self::abilities::UsesOfServer;
use self::ask::Ask;
use self::failover::SentinelState;
use self::findings::Context;
use self::guarantee::Guarantee;
use self::node::{NodeReport, ServerState};
use self::rights::NeededRights;

use leasehold::Error;
use leasehold::parts::Parts;
use leasehold_transport::{DeploymentKind, NodeId};

pub use self::commands::Use;
pub use self::findings::{Finding, Severity};
pub use self::node::Persistence;
pub use self::requirements::Requirements;

/// The lock whose keys and channels are checked by default.
const NAME: &str = "preflight";

/// The report about a deployment: what was found, and what it means for locks.
///
/// `Display` prints the whole report for an operator. It is a snapshot: settings and replicas may
/// change a moment later.
#[derive(Clone, Debug)]
pub struct Preflight {
    /// Every primary of a cluster, the primary behind sentinels, or the single server.
    nodes: Vec<NodeReport>,
    /// `None` without sentinels.
    sentinels: Option<SentinelState>,
    findings: Vec<Finding>,
    guarantee: Guarantee,
}

/// A server that was checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedServer {
    /// The server, as the configuration or the cluster names it.
    pub server: String,
    /// The version of Redis or Valkey; `None` if the user has no right to see it.
    pub version: Option<String>,
    /// The median round trip; `None` if the server could not be asked.
    pub round_trip: Option<Duration>,
    /// Why the server could not be asked; `None` if it was.
    pub error: Option<Error>,
}

impl Preflight {
    /// What matters for locks: for each server, the worst first, and then for the sentinels.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The severity of the worst finding; `None` without findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The servers that grant locks: every primary of a cluster, the primary behind sentinels, or
    /// the single server.
    pub fn servers(&self) -> impl Iterator<Item = CheckedServer> {
        self.nodes.iter().map(CheckedServer::of)
    }

    /// Events that do not break exclusion.
    pub fn survives(&self) -> &[String] {
        &self.guarantee.survives
    }

    /// Events that break exclusion. Holders notice at their next renewal, within a third of the
    /// lease at most.
    pub fn broken_by(&self) -> &[String] {
        &self.guarantee.broken_by
    }

    /// Events whose effect could not be determined. Assume that they break exclusion.
    pub fn not_known(&self) -> &[String] {
        &self.guarantee.not_known
    }
}

impl CheckedServer {
    fn of(node: &NodeReport) -> Self {
        let state = node.state.as_ref().ok();
        CheckedServer {
            server: node.server.clone(),
            version: state.and_then(|state| Some(state.version?.to_string())),
            round_trip: state.map(|state| state.round_trips.median),
            error: node.state.as_ref().err().cloned(),
        }
    }
}

/// A preflight with settings: `.await` it for a [`Preflight`].
///
/// [`Admin::preflight`](crate::Admin::preflight) makes it, and describes its cost, cancel safety
/// and errors.
#[derive(Debug)]
#[must_use = "a preflight asks nothing until it is awaited"]
pub struct PreflightCheck<'a> {
    parts: &'a Parts,
    uses: Vec<Use>,
    name: String,
}

impl<'a> PreflightCheck<'a> {
    pub(crate) fn new(parts: &'a Parts) -> Self {
        PreflightCheck {
            parts,
            uses: Use::ALL.to_vec(),
            name: NAME.to_owned(),
        }
    }

    /// The check for these requirements.
    pub(crate) fn for_requirements(parts: &'a Parts, requirements: &Requirements) -> Self {
        let (uses, name) = requirements
            .rights
            .clone()
            .unwrap_or((vec![], NAME.to_owned()));
        PreflightCheck { parts, uses, name }
    }

    /// Sets what the client will be used for. Only the rights for that are checked. Default: all
    /// uses.
    pub fn uses(mut self, uses: impl IntoIterator<Item = Use>) -> Self {
        self.uses = uses.into_iter().collect();
        self
    }

    /// Sets the lock name for which rights are checked. Default: `preflight`.
    ///
    /// It matters for users with rights to only some keys and channels. The client's prefix is
    /// prepended. No such key is read or written.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    async fn run(self) -> Result<Preflight, Error> {
        let (parts, prefix) = (self.parts, self.parts.key_prefix());
        let needed = NeededRights::new(&self.uses, prefix, &self.name)?;
        if parts.is_closed() {
            return Err(Error::Closed);
        }
        let transport = parts.transport();
        let deployment = transport.kind();
        probe::ask_for_messages(parts, &needed).await;
        let nodes = transport.all_nodes().into_iter();
        let asked = nodes.map(|node| report(parts, node, &needed, &self.uses));
        let mut nodes = futures_util::future::join_all(asked).await;
        nodes.sort_by(|left, right| left.server.cmp(&right.server));
        let sentinels = match deployment {
            DeploymentKind::Sentinel => Some(failover::ask_sentinels(transport).await),
            _ => None,
        };
        let context = Context {
            kind: deployment,
            lease: parts.lease(),
            command_timeout: parts.command_timeout(),
            copies: parts.copies(),
            key: format!("{prefix}{}", self.name),
        };
        let mut findings: Vec<_> = nodes
            .iter()
            .flat_map(|node| findings::of(node, &context))
            .collect();
        if let Some(state) = &sentinels {
            let server = transport.server();
            findings.extend(findings::of_sentinels(&server, state, &context));
        }
        let guarantee = guarantee::of(deployment, parts.copies(), &nodes);
        Ok(Preflight {
            nodes,
            sentinels,
            findings,
            guarantee,
        })
    }
}

impl<'a> IntoFuture for PreflightCheck<'a> {
    type Output = Result<Preflight, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

async fn report(parts: &Parts, node: NodeId, needed: &NeededRights, uses: &[Use]) -> NodeReport {
    let transport = parts.transport();
    let server = transport.server_of(node);
    let state = match transport.kind() {
        DeploymentKind::Embedded => Ok(ServerState::embedded()),
        _ => probe::look(Ask { parts, node }, &server, needed).await,
    };
    // The look has learned more about it.
    let abilities = transport.abilities(node);
    let unusable = state.as_ref().map(|state| state.rights.unusable());
    NodeReport {
        uses: UsesOfServer::new(uses, abilities, &unusable.unwrap_or_default()),
        server,
        state,
    }
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
