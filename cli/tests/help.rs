//! What the help, the manual and messages about bad usage tell about `run`.

use crate::testbed::{bare, exit_code, stderr, stdout};

#[test]
fn a_command_without_the_dashes_gets_a_tip() {
    for arguments in [
        &["run", "job", "echo", "hi"][..],
        &["run", "job", "--wait", "3", "ls", "-l"],
    ] {
        let output = bare(arguments).output().expect("started");
        assert_eq!(exit_code(&output), 64);
        let told = stderr(&output);
        assert!(
            told.contains("tip: put `--` before the command"),
            "{arguments:?}: {told}"
        );
    }
    for arguments in [
        &["ls", "one", "two"][..],
        &["run", "job", "--odd", "--", "true"],
    ] {
        let output = bare(arguments).output().expect("started");
        assert_eq!(exit_code(&output), 64);
        assert!(!stderr(&output).contains("put `--`"), "{}", stderr(&output));
    }
}

/// The text of the page, as `man` shows it.
fn plain(page: &str) -> String {
    page.replace("\\-", "-").replace("\\e", "\\")
}

#[test]
fn the_help_and_the_page_of_run_have_codes_variables_and_examples() {
    let help = stdout(&bare(&["run", "--help"]).output().expect("started"));
    let folder = std::env::temp_dir().join(format!("leasehold-run-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let manual = bare(&["man", "--dir", &folder.to_string_lossy()]).output();
    assert_eq!(exit_code(&manual.expect("started")), 0);
    let page = plain(&std::fs::read_to_string(folder.join("leasehold-run.1")).expect("a page"));
    std::fs::remove_dir_all(&folder).expect("made above");
    for (text, titles) in [
        (&help, ["Exit codes:", "Environment:", "Examples:"]),
        (
            &page,
            [
                ".SH \"EXIT CODES\"",
                ".SH \"ENVIRONMENT\"",
                ".SH \"EXAMPLES\"",
            ],
        ),
    ] {
        let known = [
            "120",
            "126, 127",
            "LEASEHOLD_PASSWORD",
            "LEASEHOLD_HELD",
            "--at-least 5m -- ./",
        ];
        for part in titles.into_iter().chain(known) {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
    let synopsis = page
        .lines()
        .skip_while(|line| *line != ".SH SYNOPSIS")
        .nth(1);
    assert_eq!(
        synopsis,
        Some("leasehold run [OPTIONS] <NAME> -- <COMMAND>...")
    );
}
