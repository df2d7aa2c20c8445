//! What a process uses, as Linux tells it.

use std::fs;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// Of this process.
pub(crate) fn usage() -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse().ok()
    };
    Usage {
        rss_kib: field("VmRSS:").unwrap_or_default(),
        descriptors: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
        threads: field("Threads:").unwrap_or_default(),
    }
}
