//! One behaviour, two tests: on the embedded engine and on real servers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use futures::FutureExt as _;
use tokio::runtime::Builder;

use crate::{Bed, Histories, NOISE};

/// By how many milliseconds the clocks of a server and of its clients may differ within a lease.
const NOISE_OF_SERVERS: u32 = 5;

/// Makes two tests of each behaviour in a list, `on_redis::FILE::NAME` and `embedded::FILE::NAME`.
/// The list begins with the form of the behaviours, [`task`] or [`thread`], and the function that
/// makes the [`Bed`] with servers.
#[macro_export]
macro_rules! behaviours {
    ($run:ident on $server:path; $($module:ident { $($behaviour:ident,)* })*) => {
        mod on_redis {
            $(mod $module {
                $(#[test]
                fn $behaviour() {
                    if !$crate::is_missing() {
                        $crate::$run(
                            $crate::On::Servers($server),
                            super::super::$module::$behaviour,
                        );
                    }
                })*
            })*
        }

        mod embedded {
            $(mod $module {
                $(#[test]
                fn $behaviour() {
                    let name = concat!(stringify!($module), "::", stringify!($behaviour));
                    $crate::on_profile(name, || {
                        $crate::$run($crate::On::Engine, super::super::$module::$behaviour);
                    });
                })*
            })*
        }
    };
}

/// Where a behaviour runs.
#[derive(Clone, Copy, Debug)]
pub enum On {
    Engine,
    /// The servers that this function makes.
    Servers(fn() -> Bed),
}

impl On {
    fn start(self) -> Bed {
        match self {
            On::Engine => Bed::embedded(),
            On::Servers(start) => start(),
        }
    }
}

/// Runs an `async fn(Bed)`, and lets the specification judge what its clients did; on the engine,
/// time is paused.
pub fn task<F: Future<Output = ()>>(on: On, behaviour: impl FnOnce(Bed) -> F) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(matches!(on, On::Engine))
        .build();
    let runtime = runtime.expect("a runtime");
    judged(on, || {
        runtime.block_on(async {
            let bed = on.start();
            let histories = bed.histories().clone();
            let outcome = AssertUnwindSafe(behaviour(bed)).catch_unwind().await;
            (outcome, histories)
        })
    });
}

/// The same for a `fn(&Bed)`, outside any runtime.
pub fn thread(on: On, behaviour: impl FnOnce(&Bed)) {
    judged(on, || {
        let bed = on.start();
        let outcome = catch_unwind(AssertUnwindSafe(|| behaviour(&bed)));
        (outcome, bed.histories().clone())
    });
}

/// Fails if the behaviour fails, or if the specification does not allow what its clients did. With
/// `LEASEHOLD_BY_SPECIFICATION` the specification judges alone.
fn judged(on: On, behaviour: impl FnOnce() -> (std::thread::Result<()>, Histories)) {
    let alone = std::env::var_os("LEASEHOLD_BY_SPECIFICATION").is_some();
    if alone {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (outcome, histories) = behaviour();
    match outcome {
        Err(failed) if !alone => resume_unwind(failed),
        _ => drop(alone.then(std::panic::take_hook)),
    }
    let noise = match on {
        On::Engine => NOISE,
        On::Servers(_) => NOISE_OF_SERVERS,
    };
    let disallowed = histories.verdict(noise).disallowed();
    assert!(disallowed.is_none(), "{}", disallowed.unwrap_or_default());
}
