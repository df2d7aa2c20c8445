//! Builds a test of the copy and runs it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::copy::Copy;
use crate::patch::{Place, Test};
use crate::{Result, output};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal,
    TooLate,
}

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The test failed with this message.
    Failed(String),
    /// The test did not end in time.
    Hung,
    /// The test does not exist.
    NotRun,
}

/// A command of cargo.
fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([command, "--color", "never"]);
    cargo
}

impl Copy {
    /// Builds the program that contains the tests of this place.
    pub(crate) fn build(&self, place: &Place) -> Result<PathBuf> {
        let mut cargo = cargo("test");
        cargo.arg("--no-run");
        // With the features that `tests/run` uses, so that dependencies are not built again.
        let (target, built) = match place {
            Place::Model => (self.place.join("model"), "shuttle/debug"),
            Place::Lib | Place::Transport | Place::Tests(_) => (self.place.join("build"), "debug"),
        };
        self.seed(&target, built)?;
        cargo.arg("--target-dir").arg(target);
        match place {
            Place::Lib => cargo.args(["--workspace", "--all-features", "--lib"]),
            // The package alone, so that a fault does not rebuild what depends on it.
            Place::Transport => cargo.args([
                "--package",
                "leasehold-transport",
                "--all-features",
                "--lib",
            ]),
            Place::Tests(name) => cargo.args(["--workspace", "--all-features", "--test", name]),
            Place::Model => {
                let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
                cargo.env("RUSTFLAGS", format!("{flags} --cfg shuttle"));
                cargo.args(["--package", "leasehold-transport", "--lib"])
            }
        };
        let said = self.cargo(&mut cargo)?;
        let name = match place {
            Place::Lib => "leasehold",
            Place::Transport | Place::Model => "leasehold_transport",
            Place::Tests(name) => name,
        };
        program(&said, name)
            .map(|path| self.tree.join(path))
            .ok_or(format!("no program: {said}"))
    }

    /// Checks that the packages with faults compile, without building them.
    pub(crate) fn check(&self) -> Result<()> {
        let mut cargo = cargo("check");
        cargo.args(["--package", "leasehold", "--package", "leasehold-admin"]);
        cargo.args(["--lib", "--all-features"]);
        let target = self.place.join("check");
        self.seed(&target, "debug")?;
        self.cargo(cargo.arg("--target-dir").arg(&target)).map(drop)
    }

    /// Builds the program of the published fault run.
    pub(crate) fn build_fault_run(&self) -> Result<PathBuf> {
        let mut cargo = cargo("build");
        // In a separate folder, because tests are built with other features.
        let target = self.place.join("fault-run");
        self.seed(&target, "debug")?;
        cargo.args(["--package", "leasehold-faults", "--bin", "leasehold-faults"]);
        self.cargo(cargo.arg("--target-dir").arg(&target))?;
        Ok(target.join("debug/leasehold-faults"))
    }

    /// Runs cargo and returns its output. If a compilation fails, the error is the first one of the
    /// compiler.
    fn cargo(&self, cargo: &mut Command) -> Result<String> {
        let built = cargo
            .current_dir(&self.tree)
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&built.stderr);
        if !built.status.success() {
            let first = said
                .lines()
                .position(|line| line.starts_with("error"))
                .unwrap_or(0);
            return Err(said
                .lines()
                .skip(first)
                .take(12)
                .collect::<Vec<_>>()
                .join("\n"));
        }
        Ok(said.into_owned())
    }

    /// Runs one test. Its output goes to this file.
    pub(crate) fn run(
        &self,
        program: &Path,
        test: &Test,
        limit: Duration,
        log: &Path,
    ) -> Result<Outcome> {
        let mut command = Command::new(program);
        command.args(["--exact", &test.name, "--nocapture", "--include-ignored"]);
        command.env("CARGO_MANIFEST_DIR", &self.tree);
        let end = self.ended(&mut command, &test.env, limit, log)?;
        let said = std::fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
        Ok(outcome(&String::from_utf8_lossy(&said), end))
    }

    /// Runs a program. Its output goes to this file.
    pub(crate) fn ended(
        &self,
        command: &mut Command,
        env: &[(String, String)],
        limit: Duration,
        log: &Path,
    ) -> Result<End> {
        let program = command.get_program().to_owned();
        let with_path = |error: std::io::Error| format!("{}: {error}", program.display());
        let file = File::create(log).map_err(with_path)?;
        // In a new process group, so that the servers which it starts can be killed with it.
        command.process_group(0).current_dir(&self.tree);
        // Remove our settings from the environment, because they would change what is tested.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LEASEHOLD_") {
                command.env_remove(name);
            }
        }
        command.envs(env.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(with_path)?)
            .stderr(file);
        let mut child = command.spawn().map_err(with_path)?;
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait().map_err(with_path)? {
                return Ok(status.code().map_or(End::Signal, End::Code));
            }
            if Instant::now() > end {
                let group = format!("-{}", child.id());
                // Fails if the program has just ended.
                drop(output(Command::new("kill").args(["-KILL", "--", &group])));
                child.wait().map_err(with_path)?;
                return Ok(End::TooLate);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The path in `Executable unittests src/lib.rs (path)`. Selected by the name of the target,
/// because other packages have libraries, too.
fn program<'a>(said: &'a str, name: &str) -> Option<&'a Path> {
    let lines = said
        .lines()
        .filter(|line| line.trim_start().starts_with("Executable "));
    let mut paths = lines.filter_map(|line| line.split_once(" (")?.1.strip_suffix(')'));
    let is_it = |path: &&str| {
        let file = path
            .rsplit('/')
            .next()
            .and_then(|file| file.rsplit_once('-'));
        file.is_some_and(|(of, _)| of == name)
    };
    paths.find(is_it).map(Path::new)
}

fn outcome(said: &str, end: End) -> Outcome {
    let ran = said.lines().any(|line| line == "running 1 test");
    match (ran, end) {
        (_, End::TooLate) => Outcome::Hung,
        (false, _) => Outcome::NotRun,
        (true, End::Code(0)) => Outcome::Passed,
        (true, _) => Outcome::Failed(words(said)),
    }
}

/// The first panic message as one line, or else the last line of the output.
fn words(said: &str) -> String {
    let mut lines = said
        .lines()
        .skip_while(|line| !line.contains(" panicked at "))
        .skip(1);
    let first = lines
        .next()
        .or_else(|| said.lines().rfind(|line| !line.trim().is_empty()));
    let sides = lines
        .take(2)
        .filter(|line| line.starts_with("  left:") || line.starts_with(" right:"));
    let all: Vec<_> = first.into_iter().chain(sides).map(str::trim).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: &str = "\nrunning 1 test\n\nthread 'a::b' (7) panicked at src/x.rs:1:2:\n\
        assertion `left == right` failed: three\n  left: 1\n right: 2\nnote: run with it\n\
        test a::b ... FAILED\n";

    #[test]
    fn outcomes_of_tests_are_recognised() {
        let failed =
            Outcome::Failed("assertion `left == right` failed: three; left: 1; right: 2".into());
        assert_eq!(outcome(PANIC, End::Code(101)), failed);
        assert_eq!(
            outcome("running 1 test\ntest a::b ... ok\n", End::Code(0)),
            Outcome::Passed
        );
        assert_eq!(outcome("running 0 tests\n", End::Code(0)), Outcome::NotRun);
        assert_eq!(
            outcome("error: an option\n", End::Code(101)),
            Outcome::NotRun
        );
        let aborted = "running 1 test\nit took too long\n\n";
        assert_eq!(
            outcome(aborted, End::Signal),
            Outcome::Failed("it took too long".into())
        );
    }

    #[test]
    fn the_test_program_is_found() {
        let said = "   Compiling x\n  Executable unittests src/lib.rs (/a (b)/deps/x-1)\n  \
            Executable unittests src/lib.rs (/a (b)/deps/x_y-2)\n";
        assert_eq!(program(said, "x"), Some(Path::new("/a (b)/deps/x-1")));
        assert_eq!(program(said, "x_y"), Some(Path::new("/a (b)/deps/x_y-2")));
        assert_eq!(program(said, "y"), None);
        let said = "    Finished\n  Executable tests/x/main.rs (/a/deps/x-1)\n";
        assert_eq!(program(said, "x"), Some(Path::new("/a/deps/x-1")));
        assert_eq!(program("    Finished\n", "x"), None);
    }
}
