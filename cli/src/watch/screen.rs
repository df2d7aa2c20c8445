//! The live table.

use std::io;
use std::time::Duration;

use leasehold::Client;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::changes::{History, Seen};
use super::look;
use crate::arguments::WatchArguments;
use crate::exit::Failure;
use crate::name::Name;
use crate::output::{Tone, harmless, has_colours, short};

/// How often the keyboard is read.
const KEYS: Duration = Duration::from_millis(50);

const TITLES: [&str; 8] = [
    "NAME",
    "KIND",
    "HOLDER",
    "HOLDS",
    "LEASE",
    "WAITERS",
    "FOR",
    "CHANGES/s",
];

/// The cells of a row.
type Texts = [(String, Tone); TITLES.len()];

/// Where the columns are that may be cut.
const NAME: usize = 0;
const HOLDER: usize = 2;

/// The widths of the columns. The name has what is left when the others have what they need. If the
/// holder needs too much, both share what is left, the name with half of it at least.
fn widths(rows: &[Texts], width: u16) -> [u16; TITLES.len()] {
    let mut widths = TITLES.map(str::len);
    for row in rows {
        for (width, (text, _)) in widths.iter_mut().zip(row) {
            *width = (*width).max(Line::raw(text).width());
        }
    }
    let others: usize = widths.iter().sum::<usize>() - widths[NAME] - widths[HOLDER];
    let gaps = widths.len() - 1;
    let rest = usize::from(width).saturating_sub(others + gaps);
    let beside_name = rest.saturating_sub(widths[NAME]);
    widths[HOLDER] = widths[HOLDER].min(beside_name.max(rest / 2));
    widths[NAME] = rest - widths[HOLDER];
    widths.map(|width| u16::try_from(width).unwrap_or(u16::MAX))
}

pub(super) async fn watch(client: &Client, asked: &WatchArguments) -> Result<(), Failure> {
    let mut terminal = ratatui::init();
    let done = Screen::new(asked).run(client, &mut terminal).await;
    ratatui::restore();
    done
}

#[derive(Debug)]
struct Screen<'a> {
    asked: &'a WatchArguments,
    seen: Seen,
    /// Why the last poll failed.
    error: Option<String>,
    place: TableState,
    has_colours: bool,
}

/// What the user asks for with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Leave,
    Draw,
}

impl<'a> Screen<'a> {
    fn new(asked: &'a WatchArguments) -> Self {
        let (seen, place) = (Seen::default(), TableState::default());
        Screen {
            asked,
            seen,
            error: None,
            place,
            has_colours: has_colours(),
        }
    }

    async fn run(mut self, client: &Client, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
        let cannot = "the terminal";
        // Handle the signals that end a program, so that the terminal is restored before the
        // program ends.
        let listen = |kind| signal(kind).map_err(Failure::internal(cannot));
        let mut ended = listen(SignalKind::terminate())?;
        let mut hung_up = listen(SignalKind::hangup())?;
        let mut interrupted = listen(SignalKind::interrupt())?;
        let mut quit = listen(SignalKind::quit())?;
        let mut looks = 0;
        loop {
            match look(client, &self.asked.pattern).await {
                Ok(found) => {
                    self.seen.update(found, Instant::now());
                    self.error = None;
                }
                Err(error) if error.is_retryable() => {
                    self.error = Some(Failure::from(error).text);
                }
                Err(error) => return Err(error.into()),
            }
            looks += 1;
            let next = Instant::now() + self.asked.interval;
            let mut is_new = true;
            while Instant::now() < next {
                if std::mem::take(&mut is_new) {
                    let drawn = terminal.draw(|frame| self.draw(frame));
                    drawn.map_err(Failure::internal(cannot))?;
                }
                tokio::select! {
                    _ = ended.recv() => return Ok(()),
                    _ = hung_up.recv() => return Ok(()),
                    _ = interrupted.recv() => return Ok(()),
                    _ = quit.recv() => return Ok(()),
                    () = tokio::time::sleep_until(next.min(Instant::now() + KEYS)) => {}
                }
                match self.wish().map_err(Failure::internal(cannot))? {
                    Some(Wish::Leave) => return Ok(()),
                    Some(Wish::Draw) => is_new = true,
                    None => {}
                }
            }
            if self.asked.count.is_some_and(|count| looks >= count) {
                return Ok(());
            }
        }
    }

    fn wish(&mut self) -> io::Result<Option<Wish>> {
        let mut wish = None;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(Some(Wish::Leave)),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(Some(Wish::Leave));
                    }
                    KeyCode::Down | KeyCode::Char('j') => self.place.scroll_down_by(1),
                    KeyCode::Up | KeyCode::Char('k') => self.place.scroll_up_by(1),
                    _ => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            wish = Some(Wish::Draw);
        }
        Ok(wish)
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [table, status] =
            Layout::vertical([Constraint::Min(2), Constraint::Length(1)]).areas(frame.area());
        let now = Instant::now();
        let rows: Vec<_> = self
            .seen
            .locks()
            .map(|(name, history)| self.row(name, history, now))
            .collect();
        let held = self
            .seen
            .locks()
            .filter(|(_, history)| history.now.is_some())
            .count();
        let widths = widths(&rows, table.width);
        let cell = |(text, tone): (String, Tone)| Cell::from(text).style(self.style(tone));
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| Row::new(row.map(cell)))
            .collect();
        let header = Row::new(TITLES).style(Style::new().bold());
        let marked = Style::new().reversed();
        let shown = Table::new(rows, widths)
            .header(header)
            .row_highlight_style(marked);
        frame.render_stateful_widget(shown, table, &mut self.place);
        let line = match &self.error {
            Some(error) => Line::styled(error.clone(), self.style(Tone::Warning)),
            None => Line::styled(
                format!(
                    "{held} held, `{}`, every {}; q leaves",
                    self.asked.pattern,
                    humantime::format_duration(self.asked.interval)
                ),
                self.style(Tone::Faint),
            ),
        };
        frame.render_widget(line, status);
    }

    fn row(&self, name: &Name, history: &History, now: Instant) -> Texts {
        let plain = |text: String| (text, Tone::Plain);
        let since = short(now.duration_since(history.since));
        let rate = format!("{:.2}", self.seen.rate(history, now));
        let cells = if let Some(found) = &history.now {
            [
                plain(name.to_string()),
                (found.kind.clone(), Tone::Faint),
                plain(found.holder()),
                plain(found.holds_text()),
                found.lease(),
                plain(found.waiters()),
                plain(since),
                plain(rate),
            ]
        } else {
            let faint = |text: &str| (text.to_owned(), Tone::Faint);
            let none = || faint("");
            let (name, since, rate) = (faint(&name.to_string()), faint(&since), faint(&rate));
            [
                name,
                none(),
                faint("free"),
                none(),
                none(),
                none(),
                since,
                rate,
            ]
        };
        cells.map(|(text, tone)| (harmless(&text), tone))
    }

    fn style(&self, tone: Tone) -> Style {
        match tone {
            Tone::Faint => Style::new().dim(),
            Tone::Good if self.has_colours => Style::new().fg(Color::Green),
            Tone::Warning if self.has_colours => Style::new().fg(Color::Yellow),
            Tone::Plain | Tone::Good | Tone::Warning => Style::new(),
        }
    }
}
