//! The scripts of a kind, made of `.lua` files.

pub(crate) use leasehold_transport::Script;

/// The scripts of a kind: `CONSTANT = "name" from "file"…;`. The files are joined. The last one is
/// the script, and the ones before it define local functions for it. `, reads_undeclared_keys`
/// marks the script, also for Dragonfly, which refuses such keys otherwise. `, takes` marks a
/// script that takes what others may hold.
macro_rules! scripts {
    ($($constant:ident = $name:literal from $($file:literal)+ $(, $mark:ident)*;)*) => {
        $(pub(crate) static $constant: $crate::protocol::Script = $crate::protocol::Script::new(
            $name,
            concat!($($crate::protocol::script::first_line!($mark),)* $(include_str!($file)),+),
        )$(.$mark())*;)*

        /// All scripts, for tests that compare engines.
        #[cfg(feature = "test-util")]
        pub(super) static SCRIPTS: &[&$crate::protocol::Script] = &[$(&$constant),*];
    };
}

/// The line for Dragonfly that a mark needs. For other servers it is a comment.
macro_rules! first_line {
    (reads_undeclared_keys) => {
        "--!df flags=allow-undeclared-keys\n"
    };
    (takes) => {
        ""
    };
}

pub(super) use {first_line, scripts};
