//! A waker that drops the future that it wakes, before it returns. An executor may do so with a
//! task that was cancelled.

use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

#[derive(Default)]
struct Cancelled(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Cancelled {
    fn wake(self: Arc<Self>) {
        let future = self.0.lock().take();
        drop(future);
    }
}

/// Polls a future that is not ready. Its wake-up drops it.
pub(crate) fn poll_and_drop_when_woken(future: impl Future<Output = ()> + Send + 'static) {
    let cancelled = Arc::<Cancelled>::default();
    let waker = Waker::from(cancelled.clone());
    let mut future = Box::pin(future);
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    *cancelled.0.lock() = Some(future);
}

/// Runs code that may deadlock, on a thread that is left behind if it does.
pub(crate) fn does_not_hang(what: &str, run: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        done.send(()).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_secs(10));
    assert_ne!(
        ended,
        Err(mpsc::RecvTimeoutError::Timeout),
        "it waits for itself: {what}"
    );
    thread.join().unwrap();
}
