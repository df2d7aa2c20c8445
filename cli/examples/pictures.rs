//! Draws what `ls`, `show` and `watch` show on a real terminal, into docs/pictures. Run by
//! `cli/pictures`.
#![expect(clippy::print_stdout, reason = "it says what it has drawn")]

#[allow(dead_code, reason = "the tests use more of it")]
#[allow(clippy::allow_attributes, reason = "as above")]
#[path = "../tests/pty.rs"]
mod pty;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use leasehold_testbed::{Server, command, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty::Pty;
use vt100::{Cell, Color, Screen};

/// The size of a letter in the picture.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;
const BORDER: f32 = 12.0;
const LATE: Duration = Duration::from_secs(30);

fn main() {
    let words: Vec<_> = env::args().skip(1).collect();
    let (program, folder) = (&words[0], &words[1]);
    let server = Server::start();
    let runs = Runs::start(program, &server);
    let drawn = |name: &str, rows: u16, arguments: &[&str], part: &str| {
        let words = [&[program.as_str()], arguments].concat();
        let mut terminal = Pty::start(rows, 112, &words, &[("LEASEHOLD_URL", &server.url())]);
        terminal.await_text(part);
        if arguments[0] == "watch" {
            // Holders come and go.
            terminal.await_text("free");
            terminal.await_text("0.1");
            draw(&terminal.screen(), arguments, &Path::new(folder).join(name));
            terminal.send("q");
        }
        assert_eq!(terminal.end(), 0);
        if arguments[0] != "watch" {
            draw(&terminal.screen(), arguments, &Path::new(folder).join(name));
        }
    };
    drawn("ls.svg", 10, &["ls"], "worker-slots:7");
    drawn("show.svg", 9, &["show", "catalogue"], "held");
    drawn("watch.svg", 12, &["watch", "--interval", "250ms"], "held");
    drop(runs);
    println!("ls.svg, show.svg and watch.svg are in {folder}");
}

/// Commands under locks, for as long as this value lives.
struct Runs(Vec<Child>);

impl Runs {
    fn start(program: &str, server: &Server) -> Runs {
        let run = |name: &str, options: &[&str], script: &str| {
            command(program)
                .args(["run", name])
                .args(options)
                .args(["--", "sh", "-c", script])
                .env("LEASEHOLD_URL", server.url())
                .spawn()
                .expect("the program starts")
        };
        let rest = "sleep 600";
        let wanted = [
            (
                "reports:nightly",
                "--lease 5m",
                "cron@web-1",
                "nightly report",
            ),
            ("invoices", "--fenced", "billing@pod-7", "run 4711"),
            ("tickets", "--kind fair", "desk@pod-2", "seat plan"),
            ("catalogue", "--kind read", "search@pod-1", "index"),
            (
                "catalogue",
                "--kind read --lease 1m",
                "shop@pod-5",
                "prices",
            ),
            (
                "worker-slots:7",
                "--kind string --lease 20s",
                "worker@pod-3",
                "slot 7",
            ),
        ];
        let hold = |(name, options, holder, purpose): (&str, &str, &str, &str)| {
            let options: Vec<_> = options.split(' ').collect();
            run(
                name,
                &[&options[..], &["--as", holder, "--purpose", purpose]].concat(),
                rest,
            )
        };
        let mut runs = wanted.map(hold).into_iter().collect::<Vec<_>>();
        let count = |words: &[&str]| server.command(words).int();
        wait_until("all hold", LATE, || {
            // Six locks and what belongs to them.
            count(&[
                "EXISTS",
                "reports:nightly",
                "invoices",
                "tickets",
                "catalogue",
                "worker-slots:7",
            ]) == 5
                && count(&["HLEN", "catalogue"]) == 3
        });
        runs.extend(
            (0..2).map(|_| run("tickets", &["--kind", "fair", "--as", "desk@pod-6"], rest)),
        );
        wait_until("both queued", LATE, || {
            count(&["LLEN", "redisson_lock_queue:{tickets}"]) == 2
        });
        // A lock that changes hands.
        let mut often = command("sh");
        let script = format!(
            "while :; do {program} run mail:outbox --as mail@pod-4 --purpose send -- sleep 1; \
             sleep 1; done"
        );
        often
            .args(["-c", &script])
            .env("LEASEHOLD_URL", server.url());
        runs.push(often.spawn().expect("a shell"));
        wait_until("held", LATE, || count(&["EXISTS", "mail:outbox"]) == 1);
        Runs(runs)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        for run in &mut self.0 {
            let pid = Pid::from_raw(i32::try_from(run.id()).expect("a pid"));
            kill(pid, Signal::SIGTERM).expect("running");
            drop(run.wait());
        }
    }
}

fn draw(screen: &Screen, arguments: &[&str], file: &Path) {
    let (rows, cols) = screen.size();
    let (width, height) = (
        f32::from(cols) * WIDTH + 2.0 * BORDER,
        f32::from(rows + 1) * HEIGHT + 2.0 * BORDER,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, \
         monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" \
         fill=\"#1d2129\"/>\n"
    );
    let mut line = |row: u16, col: u16, text: &str, style: &str| {
        let (x, y) = (
            BORDER + f32::from(col) * WIDTH,
            BORDER + (f32::from(row) + 0.75) * HEIGHT,
        );
        let length = f32::from(u16::try_from(text.chars().count()).expect("a line")) * WIDTH;
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let drawn = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\" \
             {style}>{text}</text>"
        );
        drawn.expect("a text takes it");
    };
    line(
        0,
        0,
        &format!("$ leasehold {}", arguments.join(" ")),
        "fill=\"#7f8794\"",
    );
    for row in 0..rows {
        // Letters of one look are one text.
        let mut col = 0;
        while col < cols {
            let style = screen.cell(row, col).map(style_of).unwrap_or_default();
            let (first, mut text) = (col, String::new());
            while col < cols && screen.cell(row, col).map(style_of) == Some(style.clone()) {
                let letter = screen
                    .cell(row, col)
                    .map(Cell::contents)
                    .unwrap_or_default();
                text.push_str(if letter.is_empty() { " " } else { letter });
                col += 1;
            }
            if !text.trim().is_empty() {
                line(row + 1, first, text.trim_end(), &style);
            }
        }
    }
    svg.push_str("</svg>\n");
    fs::write(file, svg).expect("the folder is there");
}

/// How a letter looks.
fn style_of(cell: &Cell) -> String {
    let fill = match cell.fgcolor() {
        Color::Idx(2 | 10) => "#8ccf7e",
        Color::Idx(3 | 11) => "#e5c76b",
        Color::Default | Color::Idx(_) | Color::Rgb(..) => "#dadde3",
    };
    let weight = if cell.bold() {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let faint = if cell.dim() { " opacity=\"0.55\"" } else { "" };
    format!("fill=\"{fill}\"{weight}{faint}")
}
