//! The targets. Each derives choices from the bytes of an input, and acts on them.

mod bytes;
mod deployments;
mod handles;
mod names;
mod settings;
mod url;

use arbitrary::{Result, Unstructured};

/// One door by which bad input comes in.
#[derive(Debug)]
pub struct Target {
    /// As on the command line, and of the folder of its corpus.
    pub name: &'static str,
    /// What is fed.
    pub about: &'static str,
    pub(crate) run: fn(&mut Unstructured<'_>) -> Result<()>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "url",
        about: "URLs of every deployment",
        run: url::run,
    },
    Target {
        name: "names",
        about: "names and key prefixes of every kind",
        run: names::run,
    },
    Target {
        name: "settings",
        about: "settings of a client and of calls",
        run: settings::run,
    },
    Target {
        name: "handles",
        about: "texts of holds, ids of permits, tokens",
        run: handles::run,
    },
    Target {
        name: "bytes",
        about: "bytes of a server, from the first one on",
        run: bytes::run,
    },
    Target {
        name: "server",
        about: "replies of one server",
        run: deployments::server,
    },
    Target {
        name: "sentinel",
        about: "replies of sentinels",
        run: deployments::sentinel,
    },
    Target {
        name: "cluster",
        about: "replies of a cluster",
        run: deployments::cluster,
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
