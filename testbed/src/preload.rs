//! Libraries that are loaded before the system's, so that a process sees another world.

use std::path::Path;

use crate::command;

/// The variable that names such libraries.
pub const VARIABLE: &str = "LD_PRELOAD";

/// The source of a wall clock that is ahead by the microseconds in the file that `CLOCK_OFFSET`
/// names.
pub const CLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");

/// Compiles a library from one file.
pub fn compile(source: &str, library: &Path) {
    let options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o"];
    let compiled = command("cc")
        .args(options)
        .arg(library)
        .arg("-ldl")
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "a C compiler is needed"
    );
}
