//! Builds drivers in `target/peers/fault-run`. They are built again only if their sources have
//! changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A driver, by its language. The Go driver serves several libraries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Driver {
    Go {
        library: &'static str,
        module: &'static str,
        client: Option<&'static str>,
    },
    Java,
    Python,
    Rust,
}

/// The files that pin the versions of the libraries.
const GO_MODULES: &str = include_str!("../../peers/go/go.mod");
const MAVEN: &str = include_str!("../../peers/java/pom.xml");
const PIP: &str = include_str!("../../peers/python/requirements.txt");
const CARGO: &str = include_str!("../../peers/rust/Cargo.toml");

/// Concurrent builds of one driver would disturb each other.
static BUILDING: Mutex<()> = Mutex::new(());

impl Driver {
    pub(super) fn version(self) -> String {
        match self {
            Driver::Go { module, client, .. } => {
                let version = |module: &str| after(GO_MODULES, &format!("\t{module} v"));
                let short = |client: &str| client.split('/').nth(2).map(str::to_owned);
                match client.and_then(|client| Some((short(client)?, version(client)))) {
                    Some((client, its)) => format!("{}, {client} {its}", version(module)),
                    None => version(module),
                }
            }
            Driver::Java => after(MAVEN, "<redisson.version>"),
            Driver::Python => after(PIP, "redis=="),
            Driver::Rust => after(CARGO, "rslock = { version = \"="),
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Driver::Go { .. } => "go",
            Driver::Java => "java",
            Driver::Python => "python",
            Driver::Rust => "rust",
        }
    }

    fn sources(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("peers")
            .join(self.folder())
    }

    fn target(self) -> PathBuf {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/fault-run");
        target.join(self.folder())
    }

    pub(super) fn command(self) -> Command {
        let target = self.target();
        match self {
            Driver::Go { library, .. } => {
                let mut command = Command::new(target.join("driver"));
                command.args(["--library", library]);
                command
            }
            Driver::Java => {
                let (classes, deps) = (target.join("classes"), target.join("deps"));
                let mut command = Command::new("java");
                let path = format!("{}:{}/*", classes.display(), deps.display());
                command.args(["-cp", &path, "leasehold.faults.Client"]);
                command
            }
            Driver::Python => {
                let mut command = Command::new(target.join("bin/python"));
                command.arg(self.sources().join("driver.py"));
                command
            }
            Driver::Rust => Command::new(target.join("release/driver")),
        }
    }

    pub(super) fn prepare(self) -> Result<(), String> {
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let built = self.target().join("built");
        let text = |error: io::Error| format!("{}: {error}", self.folder());
        let changed = newest(&self.sources()).map_err(text)?;
        if fs::metadata(&built)
            .and_then(|built| built.modified())
            .is_ok_and(|at| at >= changed)
        {
            return Ok(());
        }
        fs::create_dir_all(self.target()).map_err(text)?;
        for step in self.steps() {
            run(step)?;
        }
        fs::write(&built, self.version()).map_err(text)
    }

    fn steps(self) -> Vec<Command> {
        let (sources, target) = (self.sources(), self.target());
        let mut build = match self {
            Driver::Go { .. } => {
                let mut go = Command::new("go");
                go.args(["build", "-trimpath", "-buildvcs=false", "-o"]);
                go.arg(target.join("driver")).arg(".");
                go.envs([("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")]);
                go
            }
            Driver::Java => {
                let mut maven = Command::new("mvn");
                maven.args(["--batch-mode", "--quiet", "-Dstyle.color=never", "compile"]);
                maven.arg(format!("-Dbuild.folder={}", target.display()));
                maven
            }
            Driver::Python => {
                let mut pip = Command::new(target.join("bin/python"));
                pip.args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ]);
                pip.args(["--requirement", "requirements.txt"]);
                pip
            }
            Driver::Rust => {
                let mut cargo = Command::new("cargo");
                cargo
                    .args(["build", "--release", "--target-dir"])
                    .arg(&target);
                cargo
            }
        };
        build.current_dir(sources);
        if !matches!(self, Driver::Python) {
            return vec![build];
        }
        let mut create = Command::new("python3");
        create.args(["-m", "venv", "--clear"]).arg(target);
        vec![create, build]
    }
}

/// The word that follows `before` in the text.
fn after(text: &str, before: &str) -> String {
    let (_, rest) = text.split_once(before).expect("the file has the version");
    let end = rest
        .find(|c: char| c.is_whitespace() || c == '<' || c == '"')
        .unwrap_or(rest.len());
    rest[..end].to_owned()
}

/// When a file of the folder was last changed. Files that tools write next to the sources do not
/// count.
fn newest(folder: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if ["Cargo.lock", "target", "__pycache__"]
            .iter()
            .any(|ignored| name == *ignored)
        {
            continue;
        }
        let is_folder = entry.file_type()?.is_dir();
        let at = if is_folder {
            self::newest(&entry.path())?
        } else {
            entry.metadata()?.modified()?
        };
        newest = newest.max(at);
    }
    Ok(newest)
}

fn run(mut step: Command) -> Result<(), String> {
    let ended = step.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("{}: {error}", step.get_program().display()))?;
    if ended.status.success() {
        return Ok(());
    }
    let output = [&ended.stdout[..], &ended.stderr].concat();
    Err(format!(
        "{step:?}: {}\n{}",
        ended.status,
        String::from_utf8_lossy(&output)
    ))
}
