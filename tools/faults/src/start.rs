//! Builds the command that starts a client process, of leasehold or of another library.

use std::net::SocketAddr;
use std::process::Command;

use crate::clients::Start;
use crate::peers::Peer;
use crate::run::{Prepared, RunArguments};
use crate::workload::Workload;

pub(crate) fn client(arguments: &RunArguments, prepared: &Prepared, resource: SocketAddr) -> Start {
    let peer = Peer::named(&arguments.library);
    let own = std::env::current_exe().expect("this program");
    let workloads = arguments.workloads().into_iter().map(Workload::name);
    let workloads = workloads.collect::<Vec<_>>().join(",");
    let mut options: Vec<String> = [
        ("--workloads", workloads),
        ("--workers", arguments.workers.to_string()),
        ("--lease-ms", arguments.lease_ms.to_string()),
        (
            "--wait-ms",
            arguments.wait_ms.unwrap_or(arguments.lease_ms).to_string(),
        ),
        ("--hold-ms", arguments.hold_ms.to_string()),
        ("--long-ms", arguments.long_ms.to_string()),
        ("--step-ms", arguments.step_ms.to_string()),
        ("--think-ms", arguments.think_ms.to_string()),
        ("--seed", prepared.seed.to_string()),
        ("--resource", resource.to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect();
    let grace = arguments
        .grace_ms
        .map(|grace| ("--grace-ms", grace.to_string()));
    let newcomers = ("--newcomers", arguments.newcomers.to_string());
    let own_options: Vec<_> = grace.into_iter().chain([newcomers]).collect();
    let peer_options = [
        ("--deployment", arguments.deployment.name()),
        // Longer than the run: the client ends when it receives `stop`.
        ("--seconds", (arguments.seconds + 600).to_string()),
    ];
    let more = if peer.is_some() {
        &peer_options[..]
    } else {
        &own_options[..]
    };
    options.extend(
        more.iter()
            .flat_map(|(name, value)| [(*name).to_owned(), value.clone()]),
    );
    let environment = prepared.client_environment.clone();
    let memory = prepared.memory.clone();
    Box::new(move |urls, number, seat| {
        let mut command = peer.map_or_else(|| Command::new(&own), Peer::command);
        if peer.is_some() {
            command.args(["--url", &urls.join(",")]);
        } else {
            command.args(["client", "--urls", &urls.join(" ")]);
        }
        command
            .args(["--process", &number.to_string()])
            .args(&options);
        if seat > 0 {
            return command;
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        match &memory {
            Some(group) => group.of(&command),
            None => command,
        }
    })
}
