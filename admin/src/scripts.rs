//! Scripts that are made of several texts, when they are needed first.

/// `CONSTANT = "name" from [text, …];`. The texts are joined. The last one is the script, and the
/// ones before it define local functions for it.
///
/// `, reads_undeclared_keys` marks a script that reads keys which it does not declare, also for
/// Dragonfly, which refuses such keys otherwise. For other servers its line is a comment.
macro_rules! scripts {
    ($($constant:ident = $name:literal from [$($text:expr),+ $(,)?] $(, $mark:ident)?;)*) => {
        $(static $constant: std::sync::LazyLock<leasehold_transport::Script> =
            std::sync::LazyLock::new(|| {
                let texts: &[&str] = &[$($crate::scripts::first_line!($mark),)? $($text),+];
                leasehold_transport::Script::new($name, String::leak(texts.concat()))$(.$mark())?
            });)*
    };
}

macro_rules! first_line {
    (reads_undeclared_keys) => {
        "--!df flags=allow-undeclared-keys\n"
    };
}

pub(crate) use {first_line, scripts};
