//! Libraries that are put in front of the system's, so that a process sees another world.

use std::path::Path;
use std::process::Command;

/// The variable that names such libraries.
pub const VARIABLE: &str = "LD_PRELOAD";

/// Compiles a library from one file.
pub fn compile(source: &str, library: &Path) {
    let options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o"];
    let compiled = Command::new("cc")
        .args(options)
        .arg(library)
        .arg("-ldl")
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "a C compiler is needed"
    );
}
