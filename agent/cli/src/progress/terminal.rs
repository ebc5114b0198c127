//! [`Terminal`]: shows finished states, and below them the running ones, which are redrawn in
//! place.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use value::watch::{Event, Worker};

use super::board::Board;
use super::lock;
use super::shown::Line;

/// The interval between two drawings.
const EVERY: Duration = Duration::from_millis(100);

/// The minimum duration of a run that is shown. A shorter run's result appears at once.
const QUIET: Duration = Duration::from_millis(400);

/// The maximum number of parallel steps that are shown.
const MOST_STEPS: usize = 8;

/// The columns and rows if the terminal does not report its size.
const USUAL: (usize, usize) = (80, 24);

/// The minimum number of columns. On a narrower terminal, no running steps are shown.
const NARROWEST: usize = 20;

/// The escape sequence for the terminal's default colour.
const END: &str = "\x1b[0m";

/// The contents of the terminal, and the lines to draw.
pub(super) struct Terminal {
    board: Board,
    color: bool,
    /// The time of the first event; `None` before it.
    since: Option<Instant>,
    /// Lines about finished states that are not yet written.
    above: Vec<Line>,
    /// The drawn lines that will be redrawn.
    drawn: Vec<String>,
    /// True after anything was drawn.
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

    /// Processes an event. Returns true for the first one.
    pub(super) fn take(&mut self, worker: Worker, event: Event<'_>) -> bool {
        let now = Instant::now();
        let lines = self.board.take(event, worker, now);
        self.above.extend(lines);
        let is_first = self.since.is_none();
        self.since.get_or_insert(now);
        is_first
    }

    /// Returns true if anything was drawn.
    pub(super) fn has_shown(&self) -> bool {
        self.shown
    }

    /// Draws the changes since the last drawing.
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

    /// Returns the sequence that removes the lines that are redrawn. If the terminal was made
    /// narrower, it has wrapped these lines, so they take more rows.
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

    /// Writes another module's line above the lines that are redrawn. The next drawing restores
    /// those.
    pub(super) fn above(&mut self, line: &str) {
        let mut text = self.erased(size().0);
        self.drawn.clear();
        text.push_str(line);
        text.push('\n');
        put(&text);
    }

    /// Removes the lines that are redrawn, and writes the summary if anything was shown.
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

/// Draws until the call has ended.
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
    crate::failure::complain(text);
}

/// Returns the columns and rows. They are read each time, because the window's size can change.
fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}

/// Returns the number of columns that a character takes.
fn columns_of(sign: char) -> usize {
    match u32::from(sign) {
        // Combining marks on the previous character.
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        // East Asian characters and pictographs are wide.
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

/// Returns the text cut to at most `most` columns.
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
