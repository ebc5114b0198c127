//! Formats a return as a line, and the details of a failed one.

use std::time::Duration;

use value::{Map, Value, visible};

/// The maximum number of lines shown of a failure. The result contains all of them.
const MOST_LINES: usize = 100;

/// The outcome of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    Changed,
    Would,
    Skipped,
    Failed,
}

impl Outcome {
    pub(super) fn from_return(ret: &Map) -> Self {
        let changed = ret.get("changes").is_some_and(Value::is_true);
        let ran = ret.get("__state_ran__").is_none_or(Value::is_true);
        match ret.get("result") {
            Some(Value::Bool(false)) => Self::Failed,
            Some(Value::Null) => Self::Would,
            _ if changed => Self::Changed,
            _ if !ran => Self::Skipped,
            _ => Self::Ok,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Changed => "changed",
            Self::Would => "would",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// Returns Salt's colour for the outcome.
    pub(super) const fn color(self) -> &'static str {
        match self {
            Self::Ok | Self::Skipped => "\x1b[0;32m",
            Self::Changed => "\x1b[0;36m",
            Self::Would => "\x1b[0;33m",
            Self::Failed => "\x1b[0;1;31m",
        }
    }
}

/// A line to show, and the outcome that sets its colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) outcome: Option<Outcome>,
}

/// Returns text with terminal control characters replaced.
pub(super) fn harmless(text: &str) -> String {
    let safe = |sign: char| match sign {
        '\t' => ' ',
        '\n' => '?',
        sign if visible::is_obeyed(sign) => '?',
        sign => sign,
    };
    text.chars().map(safe).collect()
}

/// Returns a duration in a readable form.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) if seconds < 10 => format!("{:.1} s", time.as_secs_f64()),
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

/// Returns a line of the output: outcome, time, function and id, in columns.
pub(super) fn columns(word: &str, time: &str, depth: usize, function: &str, id: &str) -> String {
    let indent = "  ".repeat(depth);
    let (function, id) = (harmless(function), harmless(id));
    format!("{word:<8}{time:>7}  {indent}{function}  {id}")
}

/// Returns the function and the id in the key of a return (`file_|-id_|-name_|-managed`).
pub(super) fn named(tag: &str) -> (String, String) {
    let parts: Vec<&str> = tag.split("_|-").collect();
    match parts.as_slice() {
        [state, id, .., fun] => (format!("{state}.{fun}"), (*id).to_owned()),
        _ => (String::new(), tag.to_owned()),
    }
}

/// Returns the duration in a return.
pub(super) fn duration(ret: &Map) -> Duration {
    let millis = ret.get("duration").and_then(Value::as_float);
    Duration::try_from_secs_f64(millis.unwrap_or_default() / 1000.0).unwrap_or_default()
}

/// Returns the details of a failed return: its comment, and the texts of its changes.
pub(super) fn failure_details(ret: &Map) -> Vec<String> {
    let mut lines = Vec::new();
    let comment = ret.get("comment").map(Value::to_text).unwrap_or_default();
    put(&mut lines, "", &comment);
    let changes = ret.get("changes").and_then(Value::as_map);
    for (key, value) in changes.into_iter().flatten() {
        let text = value.to_text();
        if !text.is_empty() {
            put(&mut lines, &format!("{}: ", key.to_text()), &text);
        }
    }
    if let Some(more) = lines.len().checked_sub(MOST_LINES + 1) {
        lines.truncate(MOST_LINES);
        lines.push(format!("    and {} more lines", more + 1));
    }
    lines
}

fn put(lines: &mut Vec<String>, label: &str, text: &str) {
    let label = harmless(label);
    match text.trim_end().split_once('\n') {
        None if text.trim().is_empty() => {}
        None => lines.push(format!("    {label}{}", harmless(text.trim_end()))),
        Some(_) => {
            let indent = if label.is_empty() { "    " } else { "        " };
            if !label.is_empty() {
                lines.push(format!("    {}", label.trim_end()));
            }
            let text = text.trim_end().lines();
            lines.extend(text.map(|line| format!("{indent}{}", harmless(line))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        assert_eq!(harmless("a\x1b[31m\u{202e}b\r\tc"), "a?[31m?b? c");
    }

    #[test]
    fn times_are_short() {
        let shown = |millis| time(Duration::from_millis(millis));
        assert_eq!(shown(340), "0.3 s");
        assert_eq!(shown(14_900), "14 s");
        assert_eq!(shown(125_000), "2:05");
        assert_eq!(shown(3_725_000), "1:02:05");
    }

    #[test]
    fn a_failure_is_told_in_full_up_to_a_limit() {
        let ret = Map::new().with("comment", "Command \"make\" run").with(
            "changes",
            Map::new().with("retcode", 2).with("stdout", "a\nb\n"),
        );
        assert_eq!(
            failure_details(&ret),
            [
                "    Command \"make\" run",
                "    retcode: 2",
                "    stdout:",
                "        a",
                "        b"
            ]
        );
        let long = Map::new().with("comment", "x\n".repeat(MOST_LINES + 5));
        let lines = failure_details(&long);
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(
            lines.last().map(String::as_str),
            Some("    and 5 more lines")
        );
    }
}
