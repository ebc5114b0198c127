//! [`Text`]: metrics in Prometheus' text format 0.0.4.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BOUNDS_MS, Histogram};
use value::PushFmt;

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        self.0.push_fmt(format_args!(
            "# HELP pinch_{name} {help}\n# TYPE pinch_{name} {kind}\n"
        ));
    }

    /// Appends a metric with one number.
    pub(super) fn one(&mut self, kind: &str, name: &str, help: &str, number: impl Display) {
        self.begin(name, help, kind);
        self.0.push_fmt(format_args!("pinch_{name} {number}\n"));
    }

    /// Appends a metric with a number for each value of a label.
    pub(super) fn by<W: AsRef<str>>(
        &mut self,
        kind: &str,
        (name, label): (&str, &str),
        help: &str,
        numbers: impl IntoIterator<Item = (W, u64)>,
    ) {
        self.begin(name, help, kind);
        for (word, number) in numbers {
            let word = quoted(word.as_ref());
            self.0.push_fmt(format_args!(
                "pinch_{name}{{{label}=\"{word}\"}} {number}\n"
            ));
        }
    }

    /// Appends a metric with a number for each pair of values of two labels.
    pub(super) fn by_two(
        &mut self,
        kind: &str,
        (name, labels): (&str, [&str; 2]),
        help: &str,
        numbers: impl IntoIterator<Item = ((String, &'static str), u64)>,
    ) {
        self.begin(name, help, kind);
        let [first, second] = labels;
        for ((one, two), number) in numbers {
            let (one, two) = (quoted(&one), quoted(two));
            self.0.push_fmt(format_args!(
                "pinch_{name}{{{first}=\"{one}\",{second}=\"{two}\"}} {number}\n"
            ));
        }
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.begin(name, help, "histogram");
        let mut count = 0;
        let bounds = BOUNDS_MS.iter().map(|bound| seconds(*bound));
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(&histogram.buckets) {
            count += number(bucket);
            self.0.push_fmt(format_args!(
                "pinch_{name}_bucket{{le=\"{bound}\"}} {count}\n"
            ));
        }
        let sum = seconds(number(&histogram.sum_ms));
        self.0.push_fmt(format_args!(
            "pinch_{name}_sum {sum}\npinch_{name}_count {count}\n"
        ));
    }
}

fn number(of: &AtomicU64) -> u64 {
    of.load(Ordering::Relaxed)
}

/// Returns milliseconds as seconds: a decimal number without trailing zeros.
pub(super) fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the value of a label, escaped.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        let mut text = Text::default();
        text.one("gauge", "a", "Help.", 7);
        text.by("counter", ("b_total", "rule"), "By.", [("x\"\\\n", 1)]);
        assert_eq!(
            text.0,
            "# HELP pinch_a Help.\n# TYPE pinch_a gauge\npinch_a 7\n# HELP pinch_b_total By.\n# TYPE pinch_b_total counter\npinch_b_total{rule=\"x\\\"\\\\\\n\"} 1\n"
        );
        for (ms, text) in [
            (0, "0"),
            (5, "0.005"),
            (1000, "1"),
            (600_000, "600"),
            (1250, "1.25"),
        ] {
            assert_eq!(seconds(ms), text);
        }
    }

    #[test]
    fn buckets_hold_all_that_are_smaller() {
        let histogram = Histogram::default();
        for ms in [0, 5, 6, 700, 700_000] {
            histogram.took(ms);
        }
        let mut text = Text::default();
        text.histogram("x_seconds", "How long.", &histogram);
        for line in [
            "pinch_x_seconds_bucket{le=\"0.005\"} 2",
            "pinch_x_seconds_bucket{le=\"0.01\"} 3",
            "pinch_x_seconds_bucket{le=\"0.5\"} 3",
            "pinch_x_seconds_bucket{le=\"1\"} 4",
            "pinch_x_seconds_bucket{le=\"600\"} 4",
            "pinch_x_seconds_bucket{le=\"+Inf\"} 5",
            "pinch_x_seconds_sum 700.711",
            "pinch_x_seconds_count 5",
        ] {
            assert!(text.0.lines().any(|one| one == line), "{line}\n{}", text.0);
        }
    }
}
