//! The runtime that blocked threads wait with, on its own thread.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;

use crate::error::{Cause, Error};

/// Drives timers, and the connections that were made through it. The calling thread itself polls its call.
///
/// No drop waits for the thread, because an async caller may be the one that drops.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    runtime: Handle,
    /// Carries nothing. The thread ends when the last clone is gone.
    users: mpsc::Sender<Infallible>,
}

impl Driver {
    pub(super) fn start() -> Result<Self, Error> {
        let no_thread = |error: io::Error| Error::Unavailable {
            name: Arc::from("connect"),
            cause: Cause::new(error.to_string()),
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let (users, mut gone) = mpsc::channel::<Infallible>(1);
        let driver = Driver {
            runtime: runtime.handle().clone(),
            users,
        };
        let drive = move || {
            runtime.block_on(gone.recv());
        };
        let name = "leasehold-wait".to_owned();
        thread::Builder::new()
            .name(name)
            .spawn(drive)
            .map_err(no_thread)?;
        Ok(driver)
    }

    /// Polls a call on this thread. Panics before the first poll if the thread already polls for a runtime.
    #[track_caller]
    pub(super) fn block_on<F: Future>(&self, call: F) -> F::Output {
        self.runtime.block_on(call)
    }

    /// Keeps running until `ended`, even if the last blocking value is gone: for a client whose tasks run
    /// here.
    pub(super) fn go_on_until(&self, ended: impl Future<Output = ()> + Send + 'static) {
        let user = self.users.clone();
        let task = async move {
            ended.await;
            drop(user);
        };
        drop(self.runtime.spawn(task));
    }
}
