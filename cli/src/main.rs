//! `leasehold`: distributed locks on Redis and Valkey for people, scripts and cron.

mod arguments;
mod bench;
mod break_lock;
mod clock;
mod exit;
mod found;
mod help;
mod list;
mod name;
mod output;
mod papers;
mod permits;
mod preflight;
mod run;
mod server;
mod show;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Task};
use exit::Failure;

fn main() -> ExitCode {
    if let Some(code) = run::helper(std::env::args_os()) {
        return ExitCode::from(code);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(mut error) => {
            help::add_tip(&mut error);
            // If printing fails, there is nowhere left to report that.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 });
        }
    };
    let done = perform(arguments);
    ExitCode::from(done.unwrap_or_else(|failure| {
        output::complain(&failure.text);
        failure.code
    }))
}

/// Returns the exit code.
fn perform(Arguments { server, task }: Arguments) -> Result<u8, Failure> {
    match task {
        Task::Run(job) => on_runtime(run::run(&job, &server)),
        Task::Ls(list) => on_runtime(list::list(&list, &server)),
        Task::Show(show) => on_runtime(show::show(&show, &server)),
        Task::Break(asked) => on_runtime(break_lock::break_lock(&asked, &server)),
        Task::Permits(asked) => on_runtime(permits::permits(&asked, &server)),
        Task::Watch(watch) => on_runtime(watch::watch(&watch, &server)),
        Task::Preflight(asked) => on_runtime(preflight::preflight(&asked, &server)),
        Task::Bench(bench) => on_runtime(bench::bench(&bench, &server)),
        Task::Completions { shell } => papers::completions(shell),
        Task::Man { dir } => papers::manual(dir.as_deref()),
    }
}

/// Uses a single thread. The kernel ends a command with its runner when the thread that started it
/// ends, which a worker thread could do earlier.
fn on_runtime(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(Failure::internal("the runtime does not start"))?
        .block_on(work)
}
