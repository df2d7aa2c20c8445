//! One behaviour, two tests: on the embedded engine and on real servers.

use tokio::runtime::Builder;

use crate::Bed;

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
                        $crate::$run($crate::On::Servers($server), super::super::$module::$behaviour);
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

/// Runs an `async fn(Bed)`; on the engine, time is paused.
pub fn task<F: Future<Output = ()>>(on: On, behaviour: impl FnOnce(Bed) -> F) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(matches!(on, On::Engine))
        .build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { behaviour(on.start()).await });
}

/// Runs a `fn(&Bed)` outside any runtime.
pub fn thread(on: On, behaviour: impl FnOnce(&Bed)) {
    behaviour(&on.start());
}
