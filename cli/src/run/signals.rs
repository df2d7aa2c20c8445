//! The signals that a runner passes on to the command.

use std::fs;
use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Failure;

const PASSED_ON: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Receives signals. While this exists, they do not end this process.
#[derive(Debug)]
pub(super) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Signals that were ignored when this process started stay ignored, here and in the command.
    /// So `nohup` works.
    pub(super) fn listen() -> Result<Signals, Failure> {
        let ignored = ignored();
        let is_wanted = |signal: &Signal| ignored & (1 << (*signal as i32 - 1)) == 0;
        let listen = |signal: Signal| {
            let stream = unix::signal(SignalKind::from_raw(signal as i32));
            stream.map(|stream| (signal, stream))
        };
        let streams = PASSED_ON.into_iter().filter(is_wanted).map(listen);
        let streams = streams.collect::<Result<_, _>>();
        Ok(Signals {
            streams: streams.map_err(Failure::internal("signals"))?,
        })
    }

    /// The next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that asks this process to end. Cancel safe.
    pub(super) async fn next_to_leave(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            let leave = [
                Signal::SIGTERM,
                Signal::SIGINT,
                Signal::SIGHUP,
                Signal::SIGQUIT,
            ];
            if leave.contains(&signal) {
                return signal;
            }
            if signal == Signal::SIGTSTP {
                super::terminal::stop_this_process();
            }
        }
    }
}

/// The ignored signals, one bit for each. Known only on Linux.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
