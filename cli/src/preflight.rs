//! `preflight`: what the server's settings mean for locks.

use std::collections::BTreeSet;

use leasehold_admin::Admin;
use leasehold_admin::preflight::{self, CheckedServer, Preflight, Severity, Use};
use serde::Serialize;

use crate::arguments::{Checked, PreflightArguments, ServerArguments};
use crate::exit::Failure;
use crate::output::{say, say_json};
use crate::server::close;

/// The exit code if locks do not work on the server, or are lost in normal operation.
const DANGER: u8 = 1;

#[derive(Debug, Serialize)]
struct Report {
    servers: Vec<Node>,
    findings: Vec<Finding>,
    survives: Vec<String>,
    broken_by: Vec<String>,
    not_known: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Node {
    server: String,
    version: Option<String>,
    round_trip_ms: Option<f64>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Finding {
    severity: String,
    server: String,
    text: String,
}

/// Returns the exit code.
pub(crate) async fn preflight(
    asked: &PreflightArguments,
    server: &ServerArguments,
) -> Result<u8, Failure> {
    let client = server
        .connect_with(None, |builder| builder.lease(asked.lease), |_| ())
        .await?;
    let admin = Admin::new(&client);
    let mut check = admin.preflight().name(&asked.name);
    if !asked.kind.is_empty() {
        let uses: BTreeSet<_> = asked.kind.iter().map(|kind| kind.as_use()).collect();
        check = check.uses(uses);
    }
    let report = check.await;
    close(&client).await;
    let report = report?;
    let code = if report.worst() >= Some(Severity::Danger) {
        DANGER
    } else {
        0
    };
    if asked.json {
        say_json(&Report::from(&report))?;
    } else {
        say(report.to_string().trim_end())?;
    }
    Ok(code)
}

impl Checked {
    fn as_use(self) -> Use {
        match self {
            Checked::Lock => Use::Lock,
            Checked::Fair => Use::FairLock,
            Checked::Fenced => Use::FencedLock,
            Checked::ReadWrite => Use::ReadWriteLock,
            Checked::String => Use::StringLock,
            Checked::Semaphore => Use::Semaphore,
            Checked::Permits => Use::Permits,
            Checked::Latch => Use::Latch,
            Checked::List => Use::Listing,
            Checked::Holders => Use::DescribeHolds,
        }
    }
}

impl From<&Preflight> for Report {
    fn from(report: &Preflight) -> Self {
        let server = |server: CheckedServer| Node {
            version: server.version,
            round_trip_ms: server.round_trip.map(|span| span.as_secs_f64() * 1e3),
            error: server.error.map(|error| error.to_string()),
            server: server.server,
        };
        let finding = |found: &preflight::Finding| Finding {
            severity: found.severity.to_string(),
            server: found.server.clone(),
            text: found.text.clone(),
        };
        Report {
            servers: report.servers().map(server).collect(),
            findings: report.findings().iter().map(finding).collect(),
            survives: report.survives().to_vec(),
            broken_by: report.broken_by().to_vec(),
            not_known: report.not_known().to_vec(),
        }
    }
}
