//! Stops the session and the users of one client, for simulations. Nothing behind a closed gate is
//! polled, but the client's connections go on.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures::future::BoxFuture;
use leasehold::harness::Harness;

/// A process that can be frozen and thawed, as by a debugger or a paused virtual machine.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    /// Polls nothing behind the gate until [`thaw`](Gate::thaw).
    pub fn freeze(&self) {
        self.state().frozen = true;
    }

    /// Continues as if no time had passed.
    pub fn thaw(&self) {
        let waiting = {
            let mut state = self.state();
            state.frozen = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// True while the gate is frozen.
    pub fn is_frozen(&self) -> bool {
        self.state().frozen
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a future behind the gate.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(move |context| {
            {
                let mut state = self.state();
                if state.frozen {
                    state.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
            }
            future.as_mut().poll(context)
        })
        .await
    }
}

/// The harness of a client that nobody records.
impl Harness for Gate {
    fn wrap(&self, background: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().run(background))
    }
}
