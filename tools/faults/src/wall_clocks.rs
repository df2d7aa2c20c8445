//! Wall clocks of processes that can be stepped, by a library in front of the system's.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use leasehold_testbed::preload;

/// Clocks that can be stepped: each one a file with a number of microseconds.
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
    folder: PathBuf,
}

impl Clocks {
    pub(crate) fn prepare(folder: &Path) -> Self {
        let library = folder.join("clock.so");
        preload::compile(preload::CLOCK, &library);
        let clocks = Clocks {
            library,
            folder: folder.to_owned(),
        };
        for whose in ["client", "server"] {
            fs::write(clocks.file(whose), [0; 8]).expect("a file");
        }
        clocks
    }

    /// What a process needs in its environment to see that clock.
    pub(crate) fn environment(&self, whose: &str) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![
            (preload::VARIABLE.to_owned(), text(&self.library)),
            ("CLOCK_OFFSET".to_owned(), text(&self.file(whose))),
        ]
    }

    fn file(&self, whose: &str) -> PathBuf {
        self.folder.join(whose)
    }

    pub(crate) fn set(&self, whose: &str, seconds: i64) {
        // In place: it is mapped.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.file(whose))
            .expect("a file");
        file.write_all(&(seconds * 1_000_000).to_ne_bytes())
            .expect("it is written");
    }
}
