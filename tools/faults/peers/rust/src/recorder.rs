//! Writes the history of this process to standard output.

use std::fs;
use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::history::{self, Event, What};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    process: u32,
}

impl Recorder {
    pub(crate) fn new(process: u32) -> Self {
        Recorder { process }
    }

    pub(crate) fn process(self) -> u32 {
        self.process
    }

    pub(crate) fn record(self, worker: u32, name: &str, what: What) {
        let (at, wall) = (clock::monotonic(), clock::wall());
        let event = Event { at, wall, process: self.process, worker, name: name.to_owned(), what };
        let mut out = stdout().lock();
        history::write(&mut out, &event).expect("the reader is alive");
        out.flush().expect("the reader is alive");
    }

    pub(crate) fn sample_every_second(self) {
        thread::spawn(move || {
            loop {
                self.record(0, "", sample());
                thread::sleep(Duration::from_secs(1));
            }
        });
    }
}

fn sample() -> What {
    let status = fs::read_to_string("/proc/self/status").expect("a Linux system");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line \
            exists");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let descriptors = fs::read_dir("/proc/self/fd").expect("a Linux system").count();
    What::Sample {
        rss_kib: number("VmRSS:"),
        descriptors: descriptors as u64,
        threads: number("Threads:"),
    }
}
