//! Completions and manual pages, generated from the declaration of the arguments.

use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::exit::Failure;

const PROGRAM: &str = "leasehold";

pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    print(&script)
}

pub(crate) fn manual(folder: Option<&Path>) -> Result<u8, Failure> {
    let cannot = "the manual cannot be written";
    if let Some(folder) = folder {
        clap_mangen::generate_to(Arguments::command(), folder)
            .map_err(Failure::internal(cannot))?;
        return Ok(0);
    }
    let mut page = Vec::new();
    Man::new(Arguments::command())
        .render(&mut page)
        .map_err(Failure::internal(cannot))?;
    print(&page)
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("standard output")(error))
        }
        _ => Ok(0),
    }
}
