//! [`Terminal`]: finished states above, and below them what runs, drawn anew in its place.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use value::watch::{Event, Worker};

use super::board::Board;
use super::lock;
use super::shown::Line;

/// How often it is drawn at most.
const EVERY: Duration = Duration::from_millis(100);

/// A run that is over before this shows nothing: its result is there at once.
const QUIET: Duration = Duration::from_millis(400);

/// How many steps are shown that run side by side.
const MOST_STEPS: usize = 8;

/// The size where the terminal does not tell.
const USUAL: (usize, usize) = (80, 24);

/// Below so many columns nothing that changes is shown.
const NARROWEST: usize = 20;

/// Back to the terminal's own colour.
const END: &str = "\x1b[0m";

/// What is on the terminal, and what shall be.
pub(super) struct Terminal {
    board: Board,
    color: bool,
    /// Since when there is something to show; none where nothing was told yet.
    since: Option<Instant>,
    /// What has finished and is not written yet.
    above: Vec<Line>,
    /// What stands there and will change.
    drawn: Vec<String>,
    /// Whether anything was shown.
    shown: bool,
    over: bool,
}

impl Terminal {
    pub(super) fn new(color: bool) -> Self {
        Self {
            board: Board::default(),
            color,
            since: None,
            above: Vec::new(),
            drawn: Vec::new(),
            shown: false,
            over: false,
        }
    }

    /// Takes in an event; true for the first one.
    pub(super) fn take(&mut self, worker: Worker, event: Event<'_>) -> bool {
        let now = Instant::now();
        let lines = self.board.take(event, worker, now);
        self.above.extend(lines);
        let is_first = self.since.is_none();
        self.since.get_or_insert(now);
        is_first
    }

    /// Draws what has changed since it was drawn last.
    fn draw(&mut self, now: Instant) {
        let is_early = |since: Instant| now.duration_since(since) < QUIET;
        if !self.shown && self.since.is_none_or(is_early) {
            return;
        }
        let (columns, rows) = size();
        let live = match columns < NARROWEST {
            true => Vec::new(),
            false => self.board.live(now, MOST_STEPS.min(rows.saturating_sub(2))),
        };
        let live: Vec<String> = live.iter().map(|line| cut(line, columns - 1)).collect();
        if live == self.drawn && self.above.is_empty() {
            return;
        }
        let mut text = self.erased(columns);
        for line in std::mem::take(&mut self.above) {
            text.push_str(&self.painted(&line));
        }
        live.iter().for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        self.drawn = live;
        self.shown = true;
        put(&text);
    }

    /// What takes away all that changes. A terminal that was made narrower has broken the lines on its own.
    fn erased(&self, columns: usize) -> String {
        let rows = |line: &String| width(line).div_ceil(columns.max(1)).max(1);
        match self.drawn.iter().map(rows).sum() {
            0 => String::new(),
            1 => "\x1b[A\r\x1b[J".to_owned(),
            rows => format!("\x1b[{rows}A\r\x1b[J"),
        }
    }

    fn painted(&self, line: &Line) -> String {
        match line.outcome.filter(|_| self.color) {
            Some(outcome) => format!("{}{}{END}\n", outcome.color(), line.text),
            None => format!("{}\n", line.text),
        }
    }

    /// Writes a line of somebody else above what changes, which is drawn again.
    pub(super) fn above(&mut self, line: &str) {
        let mut text = self.erased(size().0);
        self.drawn.clear();
        text.push_str(line);
        text.push('\n');
        put(&text);
    }

    /// Takes away what changes, and writes the summary where anything was shown.
    pub(super) fn end(&mut self) {
        self.over = true;
        if !self.shown {
            return;
        }
        let mut text = self.erased(size().0);
        self.drawn.clear();
        let rest = std::mem::take(&mut self.above);
        for line in rest.into_iter().chain(self.board.summary()) {
            text.push_str(&self.painted(&line));
        }
        put(&text);
    }
}

/// Draws until the call is over.
pub(super) fn draw_until_over(terminal: &Mutex<Terminal>) {
    loop {
        std::thread::sleep(EVERY);
        let mut terminal = lock(terminal);
        if terminal.over {
            return;
        }
        terminal.draw(Instant::now());
    }
}

fn put(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Columns and rows; they are asked for each time, since a window changes.
fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}

/// How many columns a sign takes.
fn columns_of(sign: char) -> usize {
    match u32::from(sign) {
        // Marks on the sign before.
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        // East Asian signs and pictures are wide.
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The text in at most so many columns.
fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let fits = |sign: &char| {
        let columns = columns_of(*sign);
        let fits = columns <= left;
        left = left.saturating_sub(columns);
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('~');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_to_the_columns() {
        assert_eq!(cut("running", 7), "running");
        assert_eq!(cut("running on", 7), "runnin~");
        assert_eq!(cut("日本語日本語", 6), "日本~");
        assert!(width(&cut("日本語日本語", 6)) <= 6);
    }

    #[test]
    fn lines_that_a_narrower_window_broke_are_taken_away_too() {
        let mut terminal = Terminal::new(false);
        terminal.drawn = vec!["x".repeat(30), "short".to_owned()];
        assert_eq!(terminal.erased(80), "\x1b[2A\r\x1b[J");
        assert_eq!(terminal.erased(20), "\x1b[3A\r\x1b[J");
    }
}
