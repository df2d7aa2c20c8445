//! `run`: runs a command while a lock is held.
//!
//! | file | what it does |
//! | --- | --- |
//! | `hold` | the lock or permit of the run |
//! | `enclosing` | a nested run |
//! | `progress` | says what the run waits for |
//! | `identity` | the holder and the purpose that others see |
//! | `plan` | when the command must stop |
//! | `command` | the processes of the command |
//! | `group` | whether they have all ended |
//! | `process` | what the system tells about a process |
//! | `supervisor` | signals, terminal, loss, and the end |
//! | `reaper` | a second process, in case the runner is killed or stopped |
//! | `terminal`, `signals` | the job control of a shell |
//! | `notices` | messages that wait until the screen is free |

mod command;
mod enclosing;
mod group;
mod hold;
mod identity;
mod loss;
mod notices;
mod plan;
mod process;
mod progress;
mod reaper;
mod signals;
mod supervisor;
mod terminal;

use std::ffi::OsString;
use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error};
use nix::unistd::Pid;
use tokio::time::Instant;

use crate::arguments::{RunArguments, ServerArguments};
use crate::clock::{self, Moment};
use crate::exit::{self, Failure};
use crate::found::lock;
use crate::output::{complain, short};
use crate::server::{CLOSE, close_within};

use command::Command;
use enclosing::{Enclosing, HELD, Mark};
use hold::Hold;
pub(crate) use identity::user_at_host;
use plan::Plan;
use process::ProcessId;
use progress::Progress;
use reaper::Reaper;
use signals::Signals;
use supervisor::{Ending, Supervisor};

/// A run starts further processes of this program, under these names. `ps` shows them.
const START: &str = "leasehold-start";
const REAPER: &str = "leasehold-reaper";

/// Variables of the command's environment.
const NAME: &str = "LEASEHOLD_NAME";
const OWNER: &str = "LEASEHOLD_OWNER";
const TOKEN: &str = "LEASEHOLD_TOKEN";

/// If this process is one of those, does its work and returns the exit code.
pub(crate) fn helper(words: impl IntoIterator<Item = OsString>) -> Option<u8> {
    let mut words = words.into_iter();
    let name = words.next()?;
    let mut next = || words.next()?.into_string().ok();
    let mut number = || next()?.parse::<u64>().ok();
    let of_nothing = || Some(exit::USAGE);
    if name == START {
        let Some(runner) = number() else {
            return of_nothing();
        };
        return Some(command::start(pid(runner), &words.collect::<Vec<_>>()));
    }
    if name == REAPER {
        let (Some(runner), Some(grace), Some(margin)) = (number(), number(), number()) else {
            return of_nothing();
        };
        let [grace, margin] = [grace, margin].map(Duration::from_nanos);
        let first_line = next().unwrap_or_default();
        return Some(reaper::reap(
            pid(runner),
            Plan { grace, margin },
            &first_line,
        ));
    }
    None
}

fn pid(number: u64) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap_or_default())
}

/// Returns the exit code.
pub(crate) async fn run(job: &RunArguments, server: &ServerArguments) -> Result<u8, Failure> {
    let plan = Plan::of(job.lease, job.grace)?;
    let marks = enclosing::marks()?;
    let kept = if job.no_credentials {
        server.credentials()
    } else {
        Vec::new()
    };
    let mut signals = Signals::listen()?;
    let progress = Progress::new(job);
    let obtained = tokio::select! {
        obtained = obtain(job, server, &marks, &progress) => obtained.map(Ok),
        // CANCEL: the client releases a lock that is granted later.
        signal = signals.next_to_leave() => Ok(Err(signal)),
        never = progress.report() => match never {},
    };
    let done = match obtained {
        Ok(Ok(hold)) => {
            let inherited = Inherited {
                marks,
                server: server.address()?,
                kept,
            };
            run_under(hold, job, plan, &inherited, &mut signals).await
        }
        Ok(Err(signal)) => Ok(Ended::with(exit::of_signal(signal))),
        Err(failure) => Err(failure),
    };
    if let Some(client) = progress.client() {
        close_within(&client, done.as_ref().map_or(CLOSE, |ended| ended.close)).await;
    }
    done.map(|ended| ended.code)
}

/// Connects and takes the lock, both within `--wait`.
async fn obtain(
    job: &RunArguments,
    server: &ServerArguments,
    marks: &[Mark],
    progress: &Progress<'_>,
) -> Result<Hold, Failure> {
    let began = Instant::now();
    let settings = |builder: ClientBuilder| builder.lease(job.lease).name(job.client_name());
    let client = server
        .connect_with(job.wait, settings, |failure| progress.failed(failure))
        .await?;
    progress.connected(&client);
    progress.read_permits(&client).await;
    let wait = job.wait.map(|wait| wait.saturating_sub(began.elapsed()));
    let taken = match Enclosing::find(&client, job, &server.address()?, marks).await? {
        Some(enclosing) => Ok(Hold::Enclosing(enclosing)),
        None => take(&client, job, wait).await,
    };
    match &taken {
        Ok(_) => progress.acquired(),
        Err(_) => progress.look_at_permits(&client).await,
    }
    taken
}

/// The time for a last release, if the server gave no answer before.
const LAST_TRY: Duration = Duration::from_millis(100);

async fn take(
    client: &Client,
    job: &RunArguments,
    wait: Option<Duration>,
) -> Result<Hold, Failure> {
    match Hold::take(client, job, wait).await {
        Ok(hold) => Ok(hold),
        Err(error) => Err(why_not(client, job, error).await),
    }
}

/// Explains a failed acquisition. If the last reply of the wait was late, but another owner holds
/// the lock, the lock was simply not acquired in time.
async fn why_not(client: &Client, job: &RunArguments, error: Error) -> Failure {
    if job.permits.is_some() || !(error.is_timeout() || error.may_be_held()) {
        return with_conflict_code(job, error.into());
    }
    let holder = lock(client, job.kind(), &job.name)
        .holder()
        .await
        .ok()
        .flatten();
    match holder.filter(|holder| !holder.owner.starts_with(&client.id())) {
        Some(holder) => {
            let left = holder.lease.map_or(
                "without expiry, so it may be other data".to_owned(),
                |left| format!("{} left of its lease", short(left)),
            );
            let text = format!(
                "not acquired in time: `{}` is held by {holder}, {left}",
                job.name
            );
            with_conflict_code(job, Failure::new(exit::NOT_ACQUIRED, text))
        }
        None => with_conflict_code(job, error.into()),
    }
}

fn with_conflict_code(job: &RunArguments, failure: Failure) -> Failure {
    let code = job
        .conflict_exit_code
        .filter(|_| failure.code == exit::NOT_ACQUIRED);
    Failure {
        code: code.unwrap_or(failure.code),
        ..failure
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    code: u8,
    /// The time for closing the client.
    close: Duration,
}

impl Ended {
    fn with(code: u8) -> Ended {
        Ended { code, close: CLOSE }
    }
}

/// What decides on the environment of the command, besides the hold.
struct Inherited {
    marks: Vec<Mark>,
    server: String,
    /// The variables that are not passed on.
    kept: Vec<&'static str>,
}

/// Runs the command and releases the hold.
async fn run_under(
    hold: Hold,
    job: &RunArguments,
    plan: Plan,
    inherited: &Inherited,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let end = clock::now().after(job.at_least.unwrap_or_default());
    let is_kept = job.kept_by_redis().is_some();
    let rest = || if is_kept { end.left() } else { Duration::ZERO };
    let code = match supervise(&hold, job, plan, inherited, signals).await {
        Ok(Ending::Finished(code)) => code,
        // The lock is gone, or the server gives no answer. The runner ends with its command.
        Ok(Ending::Stopped) => {
            if !rest().is_zero() {
                hold.leave();
            }
            return Ok(Ended {
                code: exit::LOST,
                close: LAST_TRY,
            });
        }
        Err(failure) => {
            drop(hold.release_after(rest()).await);
            return Err(failure);
        }
    };
    let hold = match job.at_least.filter(|_| !is_kept) {
        Some(_) => stay(hold, end, signals).await,
        None => Some(hold),
    };
    let Some(hold) = hold else {
        return Ok(Ended::with(code));
    };
    match hold.release_after(rest()).await {
        Err(Error::Lost { .. }) => {
            complain(&format!("`{}` was lost while the command ran", job.name));
            Ok(Ended::with(exit::LOST))
        }
        Ok(()) => Ok(Ended::with(code)),
        Err(error) => {
            let text = Failure::from(error).text;
            complain(&format!(
                "the release is not confirmed, the lease will end it: {text}"
            ));
            Ok(Ended {
                code,
                close: LAST_TRY,
            })
        }
    }
}

/// Runs the command until it has ended, or the hold.
async fn supervise(
    hold: &Hold,
    job: &RunArguments,
    plan: Plan,
    inherited: &Inherited,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let plan = match hold {
        Hold::Enclosing(enclosing) => Plan::of_rest(enclosing.until().left(), job.grace),
        _ => plan,
    };
    let reaper = Reaper::start(plan).map_err(Failure::internal("no process could be started"))?;
    let command = Command::prepare(&job.command, &environment(hold, job, inherited)).await?;
    Supervisor::new(hold, plan, command, reaper)
        .run(signals)
        .await
}

/// The environment variables of the command.
fn environment(
    hold: &Hold,
    job: &RunArguments,
    inherited: &Inherited,
) -> Vec<(&'static str, Option<String>)> {
    let (name, owner, token) = (job.name.to_string(), hold.owner().to_owned(), hold.token());
    let mut marks = inherited.marks.clone();
    if hold.is_exclusive(job) {
        marks.push(Mark {
            name: name.clone(),
            owner: owner.clone(),
            token,
            server: inherited.server.clone(),
            runner: ProcessId::of_this(),
        });
    }
    let mut variables = vec![
        (NAME, Some(name)),
        (OWNER, Some(owner)),
        (TOKEN, token.map(|token| token.to_string())),
        (HELD, serde_json::to_string(&marks).ok()),
    ];
    variables.extend(inherited.kept.iter().map(|name| (*name, None)));
    variables
}

/// Keeps the lock until `end` by waiting here. `None` if the lock is left until its lease ends.
async fn stay(hold: Hold, end: Moment, signals: &mut Signals) -> Option<Hold> {
    if matches!(hold, Hold::Enclosing(_)) || end.left() == Duration::ZERO {
        return Some(hold);
    }
    while !end.has_come() {
        tokio::select! {
            () = tokio::time::sleep(end.left().min(Duration::from_millis(250))) => {}
            // The user ends this process early, but the lock must not be released early. Its lease
            // ends it.
            _ = signals.next_to_leave() => {
                hold.leave();
                return None;
            }
        }
    }
    Some(hold)
}
