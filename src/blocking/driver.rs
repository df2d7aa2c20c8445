//! What blocked threads wait with: a runtime on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;

use crate::error::{Cause, Error};

/// Drives timers, and the connections that are made by it. A call itself is polled by its own thread.
///
/// No drop waits for the thread, which may be that of an async caller.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    runtime: Handle,
    /// Carries nothing: the thread ends when the last clone is gone.
    users: mpsc::Sender<Infallible>,
}

impl Driver {
    pub(super) fn start() -> Result<Self, Error> {
        let no_thread = |error: io::Error| Error::Unavailable {
            name: Arc::from("connect"),
            source: Cause::new(error.to_string()),
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (users, mut gone) = mpsc::channel::<Infallible>(1);
        let driver = Driver { runtime: runtime.handle().clone(), users };
        let drive = move || {
            runtime.block_on(gone.recv());
        };
        let name = "leasehold-wait".to_owned();
        thread::Builder::new().name(name).spawn(drive).map_err(no_thread)?;
        Ok(driver)
    }

    /// Polls a call on this thread. Panics, before the first poll, if the thread polls for a runtime already.
    #[track_caller]
    pub(super) fn block_on<F: Future>(&self, call: F) -> F::Output {
        self.runtime.block_on(call)
    }

    /// Goes on until then, also if the last blocking value is gone: for a client whose tasks are here.
    pub(super) fn go_on_until(&self, ended: impl Future<Output = ()> + Send + 'static) {
        let user = self.users.clone();
        let task = async move {
            ended.await;
            drop(user);
        };
        drop(self.runtime.spawn(task));
    }
}
