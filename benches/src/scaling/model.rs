//! What bounds the pairs per second, by the processor time that a pair costs.
//!
//! A pair costs the client `c` and all servers together `s`. A server has one thread, and the
//! client as many as it was given. So with `m` masters, over which the keys are spread evenly, the
//! rate is at most
//!
//! ```text
//! T(m) = min(threads / c, m / s, cores / (c + s))
//! ```

/// Processor time of a pair, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) client_us: f64,
    pub(super) server_us: f64,
}

/// What the client and the servers run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) threads: f64,
    pub(super) cores: f64,
}

/// Pairs per second that each bound admits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) client: f64,
    pub(super) servers: f64,
    pub(super) cores: f64,
}

impl Setting {
    pub(super) fn bounds(self, masters: usize, costs: Costs) -> Bounds {
        let Costs {
            client_us,
            server_us,
        } = costs;
        Bounds {
            client: self.threads / client_us * 1e6,
            servers: crate::report::count(masters) / server_us * 1e6,
            cores: self.cores / (client_us + server_us) * 1e6,
        }
    }
}

impl Bounds {
    pub(super) fn rate(self) -> f64 {
        self.with_enough_cores().min(self.cores)
    }

    /// With a core for each thread of the client and for each server.
    pub(super) fn with_enough_cores(self) -> f64 {
        self.client.min(self.servers)
    }

    /// Which of them that is.
    pub(super) fn least(self) -> &'static str {
        if self.cores <= self.with_enough_cores() {
            "cores"
        } else if self.servers <= self.client {
            "servers"
        } else {
            "client"
        }
    }
}
