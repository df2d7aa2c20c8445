//! Waits for changes of a hold.

use std::sync::Arc;

use super::Hold;
use crate::lease::Ended;
use crate::sync::Notify;
use crate::timer;

impl Hold {
    /// Resolves when the hold has ended, however it ended.
    pub(crate) async fn ended(&self) -> Ended {
        loop {
            let changed = self.changed();
            let changed = changed.notified();
            tokio::pin!(changed);
            // Check, listen, check again: a change between the check and the await is not missed.
            changed.as_mut().enable();
            let end = {
                let state = self.state.lock();
                if let Some(ended) = state.phase.ended() {
                    return ended;
                }
                if let Some(reason) = state.loss(self.clock.now()) {
                    return Ended::Lost(reason);
                }
                self.clock.timer(state.deadline.end())
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = timer::sleep_until(end) => {}
            }
        }
    }

    /// The machine was suspended, so timers set before would fire late.
    pub(crate) fn set_timers_again(&self) {
        self.notify();
    }

    /// Notified when the hold has changed. Get it before looking at the state: a change that comes
    /// after the look then finds it, and notifies it.
    pub(super) fn changed(&self) -> Arc<Notify> {
        self.state.lock().changed.get_or_insert_default().clone()
    }

    /// Wakes all that wait for a change.
    pub(super) fn notify(&self) {
        let changed = self.state.lock().changed.clone();
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }
}
