//! Pairs of lock and unlock for those who count: no clock is read, so nothing that runs beside it
//! matters.

use leasehold::{Client, Error, Lock};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const WARM_UP: usize = 2_000;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One thread with tasks that lock and unlock, each a key of its own.
pub(crate) struct Pairs {
    runtime: Runtime,
    locks: Vec<Lock>,
    each: usize,
}

impl Pairs {
    /// By the command line `S1|S2 PAIRS [URL]`: S1 is one task, S2 are 64, as the scenarios of
    /// `bench` of these names. Without a URL the engine in memory is used. Maps and buffers are
    /// full when this returns.
    pub(crate) fn prepare() -> Result<Self, Failure> {
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let [scenario, pairs, url @ ..] = &arguments[..] else {
            return Err("expected: S1|S2 PAIRS [URL]".into());
        };
        let tasks = match scenario.as_str() {
            "S1" => 1,
            "S2" => 64,
            other => return Err(format!("scenario {other} is not one of S1 and S2").into()),
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            match url.first() {
                Some(url) => Client::connect(url).await,
                None => Ok(Client::embedded()),
            }
        })?;
        let locks = (0..tasks)
            .map(|task| client.lock(format!("pairs:{task}")))
            .collect();
        let pairs = Pairs {
            runtime,
            locks,
            each: pairs.parse::<usize>()? / tasks,
        };
        pairs.run_each(WARM_UP / tasks)?;
        Ok(pairs)
    }

    pub(crate) fn number(&self) -> usize {
        self.locks.len() * self.each
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.run_each(self.each)
    }

    fn run_each(&self, each: usize) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for lock in &self.locks {
                tasks.spawn(take_turns(lock.clone(), each));
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            Ok(())
        })
    }
}

async fn take_turns(lock: Lock, rounds: usize) -> Result<(), Error> {
    for _ in 0..rounds {
        lock.lock().await?.unlock().await?;
    }
    Ok(())
}
