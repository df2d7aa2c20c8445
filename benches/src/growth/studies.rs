//! What the tables and pictures of `docs/dev/growth.md` show.

use crate::study::{Axis, Picture, Row, Study};

const BLUE: &str = "#1f5fd0";
const RED: &str = "#c22";
const GREEN: &str = "#1a8f3c";

const fn row(what: &'static str, figure: &'static str) -> Row {
    scaled(what, figure, 1.0)
}

const fn scaled(what: &'static str, figure: &'static str, times: f64) -> Row {
    Row {
        what,
        figure,
        times,
    }
}

const SCRIPTS: Row = row("script calls/s", "redis_evals");
const COMMANDS: Row = row("commands/s, those in scripts included", "redis_commands");
const TO_SERVER: Row = row("bytes/s to the server", "redis_net_in");
const CLIENT_CPU: Row = scaled("CPU of the client, ms/s", "client_cpu_us", 1e-3);
const SERVER_CPU: Row = scaled("CPU of the server, ms/s", "redis_cpu_us", 1e-3);

pub(super) static HELD: Study = Study {
    name: "held",
    arguments: "--scenario S11 --table held",
    sizes: "names held",
    rows: &[
        SCRIPTS,
        COMMANDS,
        TO_SERVER,
        CLIENT_CPU,
        SERVER_CPU,
        row("memory of the client, bytes a name", "client_bytes_each"),
        row("memory of the server, bytes a name", "server_bytes_each"),
        row("a further pair, p50, µs", "pair_p50_us"),
        row("a further pair, p99, µs", "pair_p99_us"),
    ],
    picture: Picture {
        title: "CPU that holding names costs",
        upwards: "CPU, ms/s",
        axis: Axis::Logarithmic,
        curves: &[
            (scaled("client", "client_cpu_us", 1e-3), BLUE),
            (scaled("server", "redis_cpu_us", 1e-3), RED),
        ],
    },
};

pub(super) static ONE_NAME: Study = Study {
    name: "one-name",
    arguments: "--scenario S11 --table one-name",
    sizes: "waiters for one name",
    rows: &[
        SCRIPTS,
        COMMANDS,
        TO_SERVER,
        CLIENT_CPU,
        SERVER_CPU,
        row("memory of the client, bytes a waiter", "client_bytes_each"),
        scaled(
            "from the release until the last has its turn, ms",
            "last_us",
            1e-3,
        ),
    ],
    picture: Picture {
        title: "From the release of one name until its last waiter has its turn",
        upwards: "ms",
        axis: Axis::Logarithmic,
        curves: &[(scaled("until the last turn", "last_us", 1e-3), RED)],
    },
};

pub(super) static NAMES: Study = Study {
    name: "names",
    arguments: "--scenario S11 --table names",
    sizes: "waiters, each for a name of its own",
    rows: &[
        SCRIPTS,
        COMMANDS,
        TO_SERVER,
        CLIENT_CPU,
        SERVER_CPU,
        row("memory of the client, bytes a waiter", "client_bytes_each"),
        row("memory of the server, bytes a waiter", "server_bytes_each"),
        scaled(
            "from the release of all until the last has its lock, ms",
            "last_us",
            1e-3,
        ),
        row("locks/s meanwhile", "acquisitions_per_s"),
    ],
    picture: Picture {
        title: "CPU that waiting for as many names costs",
        upwards: "CPU, ms/s",
        axis: Axis::Logarithmic,
        curves: &[
            (scaled("client", "client_cpu_us", 1e-3), BLUE),
            (scaled("server", "redis_cpu_us", 1e-3), RED),
        ],
    },
};

pub(super) static PROCESSES: Study = Study {
    name: "processes",
    arguments: "--scenario S11 --table processes",
    sizes: "client processes",
    rows: &[
        scaled(
            "names of their own: thousand pairs/s",
            "own_ops_per_s",
            1e-3,
        ),
        row("p50, µs", "own_p50_us"),
        row("p99, µs", "own_p99_us"),
        row("CPU of all clients, µs a pair", "own_client_cpu_us"),
        row("CPU of the server, µs a pair", "own_redis_cpu_us"),
        row("least served process, of an even share", "own_least_share"),
        scaled("one name: thousand pairs/s", "one_ops_per_s", 1e-3),
        row("p50, µs", "one_p50_us"),
        row("p99, µs", "one_p99_us"),
        row("CPU of all clients, µs a pair", "one_client_cpu_us"),
        row("CPU of the server, µs a pair", "one_redis_cpu_us"),
        row("least served process, of an even share", "one_least_share"),
    ],
    picture: Picture {
        title: "Pairs per second of all processes together",
        upwards: "thousand pairs/s",
        axis: Axis::Logarithmic,
        curves: &[
            (scaled("names of their own", "own_ops_per_s", 1e-3), GREEN),
            (scaled("one name", "one_ops_per_s", 1e-3), RED),
        ],
    },
};

pub(super) static DISTANCE: Study = Study {
    name: "distance",
    arguments: "--scenario S10",
    sizes: "distance, ms there and back",
    rows: &[
        scaled("waking the far client, p50, ms", "wake_p50_us", 1e-3),
        scaled("waking the far client, p99, ms", "wake_p99_us", 1e-3),
        row("the far client's part of the turns", "share_far"),
    ],
    picture: Picture {
        title: "From the near client's unlock until the far waiter has the lock",
        upwards: "ms",
        axis: Axis::Linear,
        curves: &[
            (scaled("p50", "wake_p50_us", 1e-3), BLUE),
            (scaled("p99", "wake_p99_us", 1e-3), RED),
        ],
    },
};
