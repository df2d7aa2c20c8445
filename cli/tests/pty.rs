//! A program on a terminal of its own, and what that shows.

use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use leasehold_testbed::wait_until;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

/// Far longer than anything takes here.
const LATE: Duration = Duration::from_secs(30);

/// A terminal with the program that was started on it. The program is killed if it is still there
/// at the end.
pub(crate) struct Pty {
    shown: Arc<Mutex<Shown>>,
    input: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    /// It hangs up when it is dropped.
    master: Box<dyn MasterPty + Send>,
}

struct Shown {
    parser: Parser,
    bytes: Vec<u8>,
}

impl Pty {
    pub(crate) fn start(rows: u16, cols: u16, words: &[&str], environment: &[(&str, &str)]) -> Pty {
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).expect("a terminal");
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.env_clear();
        for (name, value) in leasehold_testbed::command(words[0]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.cwd(std::env::temp_dir());
        command.env("TERM", "xterm-256color");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("started");
        let input = pair.master.take_writer().expect("first caller");
        let mut output = pair.master.try_clone_reader().expect("it can be read");
        let parser = Parser::new(rows, cols, 0);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
            bytes: Vec::new(),
        }));
        let kept = shown.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with the last process that has the terminal.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let mut shown = kept.lock().unwrap_or_else(PoisonError::into_inner);
                shown.parser.process(&bytes[..count]);
                shown.bytes.extend_from_slice(&bytes[..count]);
            }
        });
        Pty {
            shown,
            input,
            child,
            master: pair.master,
        }
    }

    /// As if somebody typed it.
    pub(crate) fn send(&mut self, keys: &str) {
        self.input
            .write_all(keys.as_bytes())
            .expect("somebody reads");
    }

    pub(crate) fn screen(&self) -> vt100::Screen {
        self.shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .parser
            .screen()
            .clone()
    }

    pub(crate) fn text(&self) -> String {
        self.screen().contents()
    }

    /// All that was written, with its control sequences.
    pub(crate) fn written(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown.bytes).into_owned()
    }

    pub(crate) fn await_text(&self, part: &str) {
        let mut last = String::new();
        let shows = || {
            last = self.text();
            last.contains(part)
        };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(&format!("the terminal shows {part:?}"), LATE, shows);
        }));
        assert!(waited.is_ok(), "no {part:?} in:\n{last}");
    }

    /// The modes of the terminal: whether it echoes, waits for whole lines, translates line breaks.
    pub(crate) fn modes(&self) -> String {
        let modes = self.master.get_termios().expect("a terminal");
        format!(
            "{:?} {:?} {:?}",
            modes.input_flags, modes.output_flags, modes.local_flags
        )
    }

    /// The exit code.
    pub(crate) fn end(&mut self) -> u32 {
        let mut code = None;
        wait_until("the program ends", LATE, || {
            code = self
                .child
                .try_wait()
                .expect("it was started")
                .map(|status| status.exit_code());
            code.is_some()
        });
        code.expect("it has ended")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().expect("it was started")
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
