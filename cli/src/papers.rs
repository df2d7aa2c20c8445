//! Completions and manual pages, generated from the declaration of the arguments.

use std::io::{self, Write as _};
use std::path::Path;
use std::{fs, iter};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::exit::Failure;
use crate::help::{self, Section};

const PROGRAM: &str = "leasehold";

pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    print(&script)
}

pub(crate) fn manual(folder: Option<&Path>) -> Result<u8, Failure> {
    let cannot = "the manual cannot be written";
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let Some(folder) = folder else {
        return print(&page(&program).map_err(Failure::internal(cannot))?);
    };
    for command in iter::once(&program).chain(program.get_subcommands()) {
        let file = folder.join(Man::new(command.clone()).get_filename());
        let written = page(command).and_then(|page| fs::write(file, page));
        written.map_err(Failure::internal(cannot))?;
    }
    Ok(0)
}

/// The page of a command. Its synopsis is the usage of the help, and its last sections are those of
/// the help.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let manual = Man::new(command.clone());
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    writeln!(page, ".SH SYNOPSIS\n{}", roff(usage))?;
    manual.render_description_section(&mut page)?;
    manual.render_options_section(&mut page)?;
    if command.has_subcommands() {
        manual.render_subcommands_section(&mut page)?;
    }
    for Section { title, rows } in help::sections(command.get_name()) {
        writeln!(page, ".SH \"{}\"", title.to_uppercase())?;
        for (term, meaning) in *rows {
            writeln!(page, ".TP\n{}\n{}", roff(term), roff(meaning))?;
        }
    }
    if command.get_version().is_some() {
        manual.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Text of a manual page. No line of ours begins with a dot or a quotation mark, which would be a
/// command.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("standard output")(error))
        }
        _ => Ok(0),
    }
}
