//! Reports a run that does not end in real time: a busy loop stops every clock, paused time
//! included.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// A seed takes a few hundred milliseconds; the rest is for busy machines.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the process unless it is dropped in time.
pub(crate) struct Watchdog {
    _leash: Sender<()>,
}

impl Watchdog {
    /// Ends the process, because nothing else ends a busy loop. `replay` says how to run it again.
    pub(crate) fn watch(replay: String) -> Watchdog {
        Watchdog::barking(PATIENCE, move || {
            // Not by `println!`, because the output of a test is kept until it ends.
            let text = format!("a run does not end within {PATIENCE:?} of real time: {replay}\n");
            drop(std::io::stderr().write_all(text.as_bytes()));
            std::process::abort();
        })
    }

    fn barking(patience: Duration, bark: impl FnOnce() + Send + 'static) -> Watchdog {
        let (leash, end) = channel::<()>();
        thread::spawn(move || {
            if matches!(end.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) {
                bark();
            }
        });
        Watchdog { _leash: leash }
    }
}

#[test]
fn a_busy_loop_is_noticed_and_a_run_that_ends_is_not() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Instant;

    let barked = Arc::new(AtomicBool::new(false));
    let bark = |barked: &Arc<AtomicBool>| {
        let barked = barked.clone();
        move || barked.store(true, SeqCst)
    };
    drop(Watchdog::barking(Duration::from_millis(20), bark(&barked)));
    thread::sleep(Duration::from_millis(60));
    assert!(!barked.load(SeqCst), "it had ended");

    let dog = Watchdog::barking(Duration::from_millis(20), bark(&barked));
    let start = Instant::now();
    while !barked.load(SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(30), "nobody noticed");
        std::hint::spin_loop();
    }
    drop(dog);
}
