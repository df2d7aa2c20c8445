//! The scripts of a kind, made of `.lua` files.

pub(crate) use leasehold_transport::Script;

/// The scripts of a kind: `CONSTANT = "name" from "file"…;`. The files are joined. The last one is
/// the script, and the ones before it define local functions for it.
/// `, reads_undeclared_keys` marks the script.
macro_rules! scripts {
    ($($constant:ident = $name:literal from $($file:literal)+ $(, $mark:ident)?;)*) => {
        $(pub(crate) static $constant: $crate::protocol::Script =
            $crate::protocol::Script::new($name, concat!($(include_str!($file)),+))$(.$mark())?;)*

        /// All scripts, for tests that compare engines.
        #[cfg(feature = "test-util")]
        pub(super) static SCRIPTS: &[&$crate::protocol::Script] = &[$(&$constant),*];
    };
}

pub(super) use scripts;
