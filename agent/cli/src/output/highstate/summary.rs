//! Writes the counts at the end of a minion's block.

use value::{Map, Value};

use super::super::Mismatch;
use super::super::color::Color;
use super::Host;
use super::chunk::{milliseconds, rounded};

/// The length of the longest label.
const LABEL: usize = "Succeeded".len();

/// The counts of the states that were written.
#[derive(Default)]
pub(super) struct Counts {
    /// The number of states by result.
    results: Map,
    pub(super) warnings: usize,
    pub(super) changed: usize,
    /// The sum of the durations of states that ran one after the other, in milliseconds.
    serial_ms: f64,
    /// The longest duration of the states that ran in parallel, in milliseconds.
    parallel_ms: f64,
}

impl Counts {
    pub(super) fn add(&mut self, result: &Value, names: usize, ret: &Map) -> Result<(), Mismatch> {
        let count = self.count(result) + names;
        self.results.insert(result.clone(), count);
        let duration = milliseconds(ret)?;
        if ret.contains("__parallel__") {
            self.parallel_ms = self.parallel_ms.max(duration);
        } else {
            self.serial_ms += duration;
        }
        Ok(())
    }

    fn count(&self, result: &Value) -> usize {
        self.results
            .get_value(result)
            .and_then(Value::as_int)
            .and_then(|count| count.try_into().ok())
            .unwrap_or(0)
    }

    fn total(&self) -> usize {
        self.results.keys().map(|result| self.count(result)).sum()
    }

    /// Returns the width of the table of counts.
    fn width(&self) -> usize {
        let counts = self.results.keys().map(|result| self.count(result));
        let warnings = Some(self.warnings).filter(|count| *count > 0);
        counts
            .chain(warnings)
            .map(|count| count.to_string().len())
            .max()
            .unwrap_or(0)
            + LABEL
            + 2
    }
}

pub(super) fn put(host: &mut Host<'_>, name: &str) -> Result<(), Mismatch> {
    let how = host.how;
    let counts = &host.counts;
    let width = counts.width();
    let rule = "-".repeat(width);
    let row = |label: &str, count: &str| {
        format!(
            "{label}: {count:>room$}",
            room = width.saturating_sub(label.len() + 2)
        )
    };
    let (succeeded, failed) = (
        counts.count(&Value::Bool(true)) + counts.count(&Value::Null),
        counts.count(&Value::Bool(false)),
    );
    let failed_color = if failed > 0 { Color::Red } else { Color::Cyan };
    let mut lines = vec![how.paint(Color::Cyan, &format!("\nSummary for {name}\n{rule}"))];
    lines.push(how.paint(Color::Green, &row("Succeeded", &succeeded.to_string())) + &changes(host));
    lines.push(how.paint(failed_color, &row("Failed", &failed.to_string())));
    let total = counts.total();
    if how.state.output_pct && total > 0 {
        let percent = |count: usize| rounded(count as f64 / total as f64 * 100.0, 2);
        lines.push(how.paint(Color::Green, &row("Success %", &percent(succeeded))));
        lines.push(how.paint(failed_color, &row("Failure %", &percent(failed))));
    }
    if counts.warnings > 0 {
        lines.push(how.paint(
            Color::LightRed,
            &row("Warnings", &counts.warnings.to_string()),
        ));
    }
    lines.push(how.paint(
        Color::Cyan,
        &format!(
            "{rule}\nTotal states run: {total:>room$}",
            room = width.saturating_sub(7)
        ),
    ));
    if how.state.profile {
        let (time, unit) = run_time(counts);
        lines.push(how.paint(
            Color::Cyan,
            &format!(
                "Total run time: {time:>room$} {unit}",
                room = width.saturating_sub(5)
            ),
        ));
    }
    host.lines.extend(lines);
    Ok(())
}

/// Returns the text ` (unchanged=1, changed=2)`, or an empty text.
fn changes(host: &Host<'_>) -> String {
    let mut parts = Vec::new();
    let unchanged = host.counts.count(&Value::Null);
    if unchanged > 0 {
        parts.push(
            host.how
                .paint(Color::LightYellow, &format!("unchanged={unchanged}")),
        );
    }
    if host.counts.changed > 0 {
        parts.push(
            host.how
                .paint(Color::Green, &format!("changed={}", host.counts.changed)),
        );
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(", "))
    }
}

fn run_time(counts: &Counts) -> (String, &'static str) {
    let sum = counts.serial_ms + counts.parallel_ms;
    if sum > 999.0 {
        (format!("{:.3}", sum / 1000.0), "s")
    } else {
        (format!("{sum:.3}"), "ms")
    }
}
