//! The result of one input.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use arbitrary::Unstructured;

use crate::targets::Target;
use crate::world::HANG;

/// The most that may be allocated at once, far more than an input of a few kilobytes needs.
const BYTES_MAX: u64 = 64 << 20;

/// How one input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All promises were kept. The most bytes that were allocated at once.
    Fine(u64),
    /// A panic, in the library or because a promise was broken.
    Panicked(String),
    /// A call did not end within its time.
    Hung(String),
}

/// The panics of all threads since the present input began. Kept here because tokio swallows the
/// panics of tasks.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one input; one at a time in this process.
pub fn judge(target: &Target, input: &[u8]) -> Verdict {
    static HOOK: Once = Once::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|panic| panics().push(panic.to_string())));
    });
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    panics().clear();
    // Makes the library's jitter repeatable.
    fastrand::seed(input.len() as u64);
    let mut ended: Result<(), Box<dyn Any + Send>> = Ok(());
    let allocated = allocation_counter::measure(|| {
        ended = panic::catch_unwind(AssertUnwindSafe(|| {
            // An input that ends too early for its choices is valid, too.
            (target.run)(&mut Unstructured::new(input)).unwrap_or_default();
        }));
    });
    let seen = std::mem::take(&mut *panics());
    let peak = allocated.bytes_max;
    match seen.into_iter().next() {
        Some(text) if text.contains(HANG) => Verdict::Hung(text),
        Some(text) => Verdict::Panicked(text),
        None if ended.is_err() => Verdict::Panicked("a panic without a text".to_owned()),
        None if peak > BYTES_MAX => Verdict::Panicked(format!("{peak} bytes were allocated")),
        None => Verdict::Fine(peak),
    }
}
