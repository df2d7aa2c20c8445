//! The pages about using this crate. Their sources are in `docs/`.
//!
//! | page | what it answers |
//! | --- | --- |
//! | [choosing] | which kind, its cost, how to take it again, which wait and lease, when another tool is better |
//! | [what the compiler cannot see](what_the_compiler_cannot_see) | which code compiles and protects nothing |
//! | [coming from](coming_from) | what to write here for the calls of another library |
//! | [fencing] | how a resource refuses a stale holder |
//! | [guarantees] | what can go wrong, and the meaning of each error |
//! | [services] | shutdown, leader election, cron jobs, worker slots, each as a tested program |
//! | [testing] | how to test code that takes locks |
//! | [deployments] | URLs, failovers, replicas, clusters |
//! | [managed services](managed_services) | what works on which service, behind which proxy; URL, login, settings |
//! | [networks] | Kubernetes, NAT and tunnels, names that move, proxies |
//! | [operations] | server settings, keys and rights, settings of the client |
//! | [sizing] | connections, memory of a lock, commands and bytes of idle and waiting processes |
//! | [telemetry] | metrics, spans, a dashboard and alerts |
//! | [alerts] | for each alert, what happened and what to do |
//! | [troubleshooting] | what an error message means and what to do |
//! | [the command line](command_line) | how to run a command under a lock, who holds what, exit codes |
//! | [sharing locks with Redisson](interop) | the keys, and where the two libraries differ |
//! | [compatibility] | which versions work together, and the order of an upgrade |

macro_rules! pages {
    ($($page:ident = $path:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../docs/", $path))]
            pub mod $page {}
        )*
    };
}

// `docs/rustdoc.html` makes the links between these pages work, and has the same list.
pages! {
    alerts = "alerts.md",
    choosing = "choosing.md",
    coming_from = "coming-from.md",
    command_line = "command-line.md",
    compatibility = "compatibility.md",
    deployments = "deployments.md",
    fencing = "fencing.md",
    guarantees = "guarantees.md",
    interop = "interop.md",
    managed_services = "managed-services.md",
    networks = "networks.md",
    operations = "operations.md",
    services = "services.md",
    sizing = "sizing.md",
    telemetry = "telemetry.md",
    testing = "testing.md",
    troubleshooting = "troubleshooting.md",
    what_the_compiler_cannot_see = "what-the-compiler-cannot-see.md",
}
