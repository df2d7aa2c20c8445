//! A client in a process of its own, seen from the program that started it.
//!
//! The client prints a line when it has reached a stage, and goes on after a line of its input. Its
//! last line is its report. It ends with the program: its input ends then.

use std::process::Stdio;
use std::time::Duration;

use leasehold_testbed::Server;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Failure;
use crate::options::Options;
use crate::report::Report;

/// Until a client has reached its next stage. A million names are taken within this time.
const STAGE_LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    id: u32,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a client of this server; it does not connect yet.
    pub(super) fn start(
        options: &Options,
        server: &Server,
        part: &str,
        arguments: &[(&str, String)],
    ) -> Result<Process, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--scenario", "S11", "--part", part, "--url", &server.url()]);
        let spans = [("warmup", options.warmup), ("seconds", options.measured)];
        for (name, span) in spans {
            command
                .arg(format!("--{name}"))
                .arg(span.as_secs_f64().to_string());
        }
        if let Some(threads) = options.threads {
            command.arg("--threads").arg(threads.to_string());
        }
        // The last one of a name counts.
        for (name, value) in arguments {
            command.arg(format!("--{name}")).arg(value);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let id = child.id().ok_or("a client ended at once")?;
        let input = child.stdin.take().ok_or("a client has no input")?;
        let output = child.stdout.take().ok_or("a client has no output")?;
        Ok(Process {
            child,
            id,
            input,
            lines: BufReader::new(output).lines(),
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Returns when the client has reached this stage, where it waits.
    pub(super) async fn until(&mut self, stage: &str) -> Result<(), Failure> {
        let line = self.line().await?;
        if line == stage {
            return Ok(());
        }
        Report::parse(&line)?;
        Err(format!("a client that was to be {stage} wrote {line}").into())
    }

    /// Lets the client leave its stage.
    pub(super) async fn go(&mut self) -> Result<(), Failure> {
        self.input.write_all(b"\n").await?;
        Ok(self.input.flush().await?)
    }

    pub(super) async fn report(mut self) -> Result<Report, Failure> {
        let report = Report::parse(&self.line().await?)?;
        timeout(STAGE_LIMIT, self.child.wait())
            .await
            .map_err(|_| "a client did not end")??;
        Ok(report)
    }

    async fn line(&mut self) -> Result<String, Failure> {
        let line = timeout(STAGE_LIMIT, self.lines.next_line()).await;
        let line = line.map_err(|_| "a client is stuck")??;
        line.ok_or_else(|| "a client ended without a report".into())
    }
}
