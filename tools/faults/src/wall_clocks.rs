//! Wall clocks that can be stepped. A preloaded library adds an offset to the system's clock.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use leasehold_testbed::preload;

/// The clocks. Each one is a file that contains its offset in microseconds.
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

    /// The environment variables with which a process uses this clock.
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
        // Write in place, because processes have mapped the file.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.file(whose))
            .expect("the file exists");
        file.write_all(&(seconds * 1_000_000).to_ne_bytes())
            .expect("the file is writable");
    }
}
