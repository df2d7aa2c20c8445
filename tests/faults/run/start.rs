//! How the client processes are started: ours, and those of other libraries.

use std::net::SocketAddr;
use std::process::Command;

use crate::clients::Start;
use crate::peers::Peer;
use crate::run::{Prepared, RunArguments};

pub(crate) fn client(arguments: &RunArguments, prepared: &Prepared, resource: SocketAddr) -> Start {
    let peer = Peer::named(&arguments.library);
    let own = std::env::current_exe().expect("this program");
    let mut options: Vec<String> = [
        ("--workers", arguments.workers.to_string()),
        ("--lease-ms", arguments.lease_ms.to_string()),
        ("--wait-ms", arguments.wait_ms.unwrap_or(arguments.lease_ms).to_string()),
        ("--hold-ms", arguments.hold_ms.to_string()),
        ("--think-ms", arguments.think_ms.to_string()),
        ("--seed", prepared.seed.to_string()),
        ("--resource", resource.to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect();
    let of_peers = [
        ("--deployment", arguments.deployment.name()),
        ("--names", "0,1".to_owned()),
        // Until it is told to stop.
        ("--seconds", (arguments.seconds + 600).to_string()),
    ];
    let workloads: Vec<_> = arguments.workloads().iter().map(|one| one.name()).collect();
    let of_ours = [
        ("--workloads", workloads.join(",")),
        ("--step-ms", arguments.step_ms.to_string()),
        ("--safety-poll-ms", arguments.safety_poll_ms.to_string()),
    ];
    let more = if peer.is_some() { &of_peers[..] } else { &of_ours[..] };
    options.extend(more.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]));
    let environment = prepared.client_environment.clone();
    let memory = prepared.memory.clone();
    Box::new(move |urls, number, seat| {
        let mut command = peer.map_or_else(|| Command::new(&own), Peer::command);
        if peer.is_some() {
            command.args(["--url", &urls.join(",")]);
        } else {
            command.args(["client", "--urls", &urls.join(" ")]);
        }
        command.args(["--process", &number.to_string()]).args(&options);
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
