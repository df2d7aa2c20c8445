//! Starts, controls, kills and replaces the client processes, and collects their events.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold_specification::trace::Entry;
use leasehold_testbed::{Deployment, Line};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock;
use crate::history::{Event, Line as Written, What};

/// How long a client may take to start and to get its first lock, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The events so far, of all processes, and the steps of the protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Event>>>, Arc<Mutex<Vec<Entry>>>);

impl History {
    pub(crate) fn push(&self, event: Event) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }

    fn push_step(&self, step: Entry) {
        self.1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(step);
    }

    /// Takes all steps.
    pub(crate) fn take_steps(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an event of this program, with the present time.
    pub(crate) fn record(&self, what: What) {
        let (at, wall) = (clock::monotonic(), clock::wall());
        self.push(Event {
            at,
            wall,
            process: 0,
            worker: 0,
            name: String::new(),
            what,
        });
    }

    pub(crate) fn any(&self, is_it: impl FnMut(&Event) -> bool) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(is_it)
    }

    /// Takes all events, sorted by time.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut events =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        events.sort_by_key(|event| event.at);
        events
    }
}

/// Builds the command that starts a client process, from the URLs, the number of the process and
/// the number of its seat.
pub(crate) type Start = Box<dyn Fn(&[String], u32, usize) -> Command + Send>;

pub(crate) struct Clients {
    start: Start,
    history: History,
    next: u32,
    seats: Vec<Seat>,
    reading: Vec<JoinHandle<Result<(), String>>>,
}

/// The place of a client process: the running process, and its own connections to the servers. A
/// process that replaces another one takes over its seat and connections, but gets a new number.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) lines: Vec<Line>,
    pub(crate) number: u32,
    child: Child,
    orders: ChildStdin,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

impl Clients {
    pub(crate) fn start(
        start: Start,
        seats: usize,
        deployments: &[Deployment],
        history: History,
    ) -> Self {
        let mut clients = Clients {
            start,
            history,
            next: 1,
            seats: Vec::new(),
            reading: Vec::new(),
        };
        for _ in 0..seats {
            let lines = deployments.iter().map(Deployment::line).collect();
            let seat = clients.launch(lines, clients.seats.len());
            clients.seats.push(seat);
        }
        clients
    }

    fn launch(&mut self, lines: Vec<Line>, seat: usize) -> Seat {
        let number = self.next;
        self.next += 1;
        let urls: Vec<_> = lines.iter().map(|line| line.url().to_owned()).collect();
        let mut command = (self.start)(&urls, number, seat);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (history, out) = (self.history.clone(), child.stdout.take().expect("piped"));
        self.reading.push(thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                // A line that was cut off because the process was killed is not an event.
                let Ok(line) = line else { break };
                match serde_json::from_str::<Written>(&line) {
                    Ok(Written::Event(event)) => history.push(Event {
                        process: number,
                        ..event
                    }),
                    Ok(Written::Step { step }) => history.push_step(step),
                    Err(error) if line.ends_with('}') => return Err(format!("{error}: {line}")),
                    Err(_) => break,
                }
            }
            Ok(())
        }));
        let orders = child.stdin.take().expect("piped");
        Seat {
            lines,
            number,
            child,
            orders,
        }
    }

    pub(crate) fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(crate) fn order(&mut self, seat: usize, order: &str) {
        // Fails if the process is dead.
        drop(writeln!(self.seats[seat].orders, "{order}"));
    }

    /// Waits until each client has got a lock.
    pub(crate) fn wait_until_working(&self) {
        for seat in &self.seats {
            let is_grant = |event: &Event| {
                event.process == seat.number && matches!(event.what, What::Granted { .. })
            };
            leasehold_testbed::wait_until("a client has got a lock", LIMIT, || {
                self.history.any(is_grant)
            });
        }
    }

    pub(crate) fn signal(&self, seat: usize, signal: Signal) {
        // Fails if the process has ended.
        kill(self.seats[seat].pid(), signal).ok();
    }

    /// Waits until the process is stopped. False if it is not within the limit.
    pub(crate) fn wait_until_stopped(&self, seat: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if self.seats[seat].state() == Some('T') {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    pub(crate) fn is_gone(&mut self, seat: usize) -> bool {
        self.seats[seat]
            .child
            .try_wait()
            .is_ok_and(|status| status.is_some())
    }

    /// Kills the process if it still runs, and starts a new one with the same connections.
    pub(crate) fn replace(&mut self, seat: usize) {
        drop(self.seats[seat].child.kill());
        drop(self.seats[seat].child.wait());
        let lines = std::mem::take(&mut self.seats[seat].lines);
        self.seats[seat] = self.launch(lines, seat);
    }

    /// Stops all clients. Returns one sentence for each problem.
    pub(crate) fn stop(&mut self, limit: Duration) -> Vec<String> {
        for seat in 0..self.seats.len() {
            self.order(seat, "stop");
        }
        let deadline = Instant::now() + limit;
        let mut wrong = Vec::new();
        for seat in &mut self.seats {
            let status = loop {
                match seat.child.try_wait().expect("a child of this process") {
                    Some(status) => break Some(status),
                    None if Instant::now() > deadline => break None,
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            match status {
                Some(status) if status.success() => {}
                Some(status) => wrong.push(format!("process {} ended with {status}", seat.number)),
                None => {
                    wrong.push(format!(
                        "process {} did not end within {limit:?}",
                        seat.number
                    ));
                    drop(seat.child.kill());
                    drop(seat.child.wait());
                }
            }
        }
        for reading in self.reading.drain(..) {
            wrong.extend(reading.join().expect("the thread does not panic").err());
        }
        wrong
    }
}

impl Seat {
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    /// The state letter that `ps` shows: `T` if the process is stopped.
    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }
}
