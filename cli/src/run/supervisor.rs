//! Watches the running command: passes signals and the terminal on, and stops it if the lock is
//! lost.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::command::{Command, Exit};
use super::hold::Hold;
use super::loss::Loss;
use super::notices::Notices;
use super::plan::{Plan, whole_ms};
use super::reaper::Reaper;
use super::signals::Signals;
use super::terminal::{Terminal, is_for_command, stop_this_process, suspend_job};
use crate::clock::{self, Moment};
use crate::exit::Failure;

/// The longest sleep. Timers may pause while the machine is suspended, so the clock is checked this
/// often.
const LOOK_MAX: Duration = Duration::from_millis(250);
const LOOK_MIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    hold: &'a Hold,
    plan: Plan,
    command: Command,
    reaper: Reaper,
    terminal: Option<Terminal>,
    stopping: Option<Stopping>,
    notices: Notices,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, with this exit code.
    Finished(u8),
    /// It was stopped because the lock was lost.
    Stopped,
}

/// The state after SIGTERM was sent to the command.
#[derive(Clone, Copy, Debug)]
struct Stopping {
    kill_at: Moment,
    is_killed: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(hold: &'a Hold, plan: Plan, command: Command, reaper: Reaper) -> Self {
        let terminal = Terminal::open();
        Supervisor {
            hold,
            plan,
            command,
            reaper,
            terminal,
            stopping: None,
            notices: Notices::new(),
        }
    }

    /// Runs until all processes of the command have ended.
    pub(super) async fn run(mut self, signals: &mut Signals) -> Result<Ending, Failure> {
        let hold = self.hold;
        let mut ended = std::pin::pin!(hold.lost());
        let mut has_ended = false;
        self.look()?;
        if self.stopping.is_none() {
            if is_for_command() {
                self.lend_terminal();
            }
            self.command.go_on();
        }
        while !self.command.has_ended() {
            if let Some(signal) = self.command.take_stopped() {
                self.stopped_by(signal)?;
            }
            self.look()?;
            let next_look = self.next_look();
            tokio::select! {
                biased;
                loss = &mut ended, if !has_ended => {
                    has_ended = true;
                    self.stop_for(&loss);
                }
                () = self.command.changed() => {}
                signal = signals.next() => self.pass_on(signal),
                () = tokio::time::sleep(next_look) => {}
            }
        }
        Ok(self.end())
    }

    /// All processes of the command have ended.
    fn end(mut self) -> Ending {
        let has_terminal = self.take_terminal_back();
        let was_stopped = self.reaper.done() || self.stopping.is_some();
        let ending = match self.command.exit {
            Some(exit) if !was_stopped => Ending::Finished(exit.code()),
            _ => Ending::Stopped,
        };
        let has_finished = matches!(self.command.exit, Some(Exit::Code(_)));
        // As a shell does: a command that ends by itself may change the modes, such as `stty`.
        if let Some(terminal) = &self.terminal
            && has_terminal
            && (was_stopped || !has_finished)
        {
            terminal.restore();
        }
        if has_finished {
            self.notices.write();
        } else {
            self.notices.write_on_a_new_line();
        }
        ending
    }

    /// The time until the next call of `look`.
    fn next_look(&self) -> Duration {
        let until = self.hold.until();
        let due = match self.stopping {
            Some(Stopping {
                is_killed: true, ..
            }) => return LOOK_MAX,
            Some(Stopping { kill_at, .. }) => kill_at.left(),
            None => self.plan.stop_at(until).left(),
        };
        // Often enough that the reaper learns of renewals in time.
        due.min((until.left() / 20).clamp(LOOK_MIN, LOOK_MAX))
    }

    /// Tells the reaper about renewals, and sends the signals that are due.
    fn look(&mut self) -> Result<(), Failure> {
        let until = self.hold.until();
        let now = clock::now();
        match self.stopping {
            None if now >= self.plan.stop_at(until) => {
                let left = humantime::format_duration(whole_ms(until.left()));
                self.stop(
                    &format!("no renewal succeeds, the lock ends in {left}"),
                    self.plan.kill_at(until),
                );
            }
            None => {
                let watched = self.reaper.watch(self.command.group(), until);
                watched.map_err(Failure::internal("the reaper"))?;
            }
            Some(Stopping {
                kill_at,
                is_killed: false,
            }) if now >= kill_at => {
                self.notices.add("the command is killed");
                self.command.signal(Signal::SIGKILL);
                self.stopping = Some(Stopping {
                    kill_at,
                    is_killed: true,
                });
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn stop_for(&mut self, loss: &Loss) {
        match loss {
            Loss::Expired => self.stop("its lease ended", clock::now()),
            // Nobody knows since when the lock is lost, so the command gets its grace period from
            // now on.
            Loss::Gone(reason) => self.stop(reason, clock::now().after(self.plan.grace)),
        }
    }

    /// Sends SIGTERM now. SIGKILL follows at `kill_at`.
    fn stop(&mut self, reason: &str, kill_at: Moment) {
        if let Some(stopping) = &mut self.stopping {
            stopping.kill_at = stopping.kill_at.min(kill_at);
            self.tell_reaper();
            return;
        }
        self.notices.add(format!(
            "the lock is lost: {reason}; the command is stopped"
        ));
        self.command.signal(Signal::SIGTERM);
        // A stopped process would not react to SIGTERM.
        self.command.signal(Signal::SIGCONT);
        self.stopping = Some(Stopping {
            kill_at,
            is_killed: false,
        });
        self.tell_reaper();
    }

    /// Tells the reaper that the command is being stopped, so that it does not send SIGTERM once
    /// more.
    fn tell_reaper(&mut self) {
        let Some(Stopping { kill_at, .. }) = self.stopping else {
            return;
        };
        // Without a reaper, this process still sends SIGKILL.
        if let Err(error) = self.reaper.stopping(self.command.group(), kill_at) {
            self.notices.add(format!("the reaper: {error}"));
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.command.signal(signal);
        if signal == Signal::SIGTSTP {
            // The shell waits for this process to stop.
            stop_this_process();
            self.resume();
        }
    }

    /// The command was stopped: by a key, or because it wants to use the terminal.
    fn stopped_by(&mut self, signal: Signal) -> Result<(), Failure> {
        if self.terminal.is_none() {
            return Ok(());
        }
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.lend_terminal() {
            self.command.go_on();
            return Ok(());
        }
        let has_terminal = self.take_terminal_back();
        if has_terminal || wants_terminal {
            // A user who suspends the command means the whole job, so the runner stops, too. It
            // then does not renew the lock, and the reaper ends the command before the lease ends.
            if let Some(terminal) = &self.terminal
                && has_terminal
            {
                terminal.restore();
            }
            suspend_job();
            self.look()?;
            self.resume();
        }
        Ok(())
    }

    /// Continues the command after this process was continued.
    fn resume(&mut self) {
        self.lend_terminal();
        self.command.go_on();
    }

    /// Lends the command the terminal. False if it is not ours.
    fn lend_terminal(&mut self) -> bool {
        match &mut self.terminal {
            Some(terminal) if terminal.is_ours() => terminal.lend(self.command.group()),
            _ => return false,
        }
        true
    }

    /// Takes the terminal back. False if the command does not have it.
    fn take_terminal_back(&mut self) -> bool {
        let Some(terminal) = &mut self.terminal else {
            return false;
        };
        let foreground = terminal.foreground().filter(|_| terminal.was_lent());
        let has_terminal = foreground.is_some_and(|group| self.command.has_left(group));
        if has_terminal {
            terminal.take_back();
        }
        has_terminal
    }
}
