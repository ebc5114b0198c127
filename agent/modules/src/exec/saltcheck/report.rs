//! The results of tests, as data and as a JUnit document.

use value::{Map, Value};

use super::test_case::rounded;

/// The numbers of tests by their results.
#[derive(Default)]
pub(super) struct Counts {
    passed: usize,
    /// The number of tests that failed.
    pub(super) failed: usize,
    skipped: usize,
    /// The number of SLS files without tests.
    missing: usize,
    /// The time of all tests in seconds.
    seconds: f64,
}

fn text<'a>(test: &'a Value, key: &str) -> &'a str {
    test.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn seconds(test: &Value) -> f64 {
    let duration = test.get("duration").and_then(Value::as_float);
    duration.unwrap_or_default()
}

/// Returns the tests of each SLS file.
fn by_state(results: &Map) -> impl Iterator<Item = (&Value, &Map)> {
    results
        .iter()
        .filter_map(|(state, tests)| Some((state, tests.as_map()?)))
}

/// Counts the results of the tests of all SLS files.
pub(super) fn counts(results: &Map) -> Counts {
    let mut counts = Counts::default();
    for (_, tests) in by_state(results) {
        counts.missing += usize::from(tests.is_empty());
        for test in tests.values() {
            let status = text(test, "status");
            counts.passed += usize::from(status.starts_with("Pass"));
            counts.failed += usize::from(status.starts_with("Fail"));
            counts.skipped += usize::from(status.starts_with("Skip"));
            counts.seconds += seconds(test);
        }
    }
    counts
}

/// Returns a list with the results of each SLS file, sorted by its name, and then their numbers.
pub(super) fn list(results: Map, only_fails: bool) -> Value {
    let counts = counts(&results);
    let mut list: Vec<Map> = Vec::new();
    for (state, tests) in results {
        let tests = match tests {
            Value::Map(mut tests) if only_fails => {
                tests.retain(|_, test| text(test, "status").starts_with("Fail"));
                tests
            }
            Value::Map(tests) => tests,
            _ => continue,
        };
        list.push(match only_fails && tests.is_empty() {
            true => Map::new(),
            false => Map::new().with(&state.to_text(), tests),
        });
    }
    value::sorted::sort_by_key(&mut list, |entry| {
        entry.first().map(|(state, _)| state.to_text())
    });
    let numbers = Map::new()
        .with("Execution Time", rounded(counts.seconds))
        .with("Passed", counts.passed)
        .with("Failed", counts.failed)
        .with("Skipped", counts.skipped)
        .with("Missing Tests", counts.missing);
    list.push(Map::new().with("TEST RESULTS", numbers));
    list.into()
}

/// Returns a text as the value of an attribute of XML. Characters that XML does not allow are left
/// out.
fn attribute(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// Returns the element of a test, and the seconds that it took.
fn element(name: &str, test: &Value) -> (String, f64) {
    let (name, status) = (attribute(name), text(test, "status"));
    let seconds = rounded(seconds(test));
    let time = match seconds > 0.0 {
        true => format!(" time=\"{seconds:.6}\""),
        false => String::new(),
    };
    let kind = ["Fail", "Skip"]
        .iter()
        .zip(["failure", "skipped"])
        .find_map(|(start, kind)| status.starts_with(start).then_some(kind));
    let open = format!("\t\t<testcase name=\"{name}\"{time}");
    let element = match kind {
        None => format!("{open}/>\n"),
        Some(kind) => {
            let message = attribute(status);
            format!(
                "{open}>\n\t\t\t<{kind} type=\"{kind}\" message=\"{message}\"/>\n\t\t</testcase>\n"
            )
        }
    };
    (element, seconds)
}

/// The element of an SLS file without tests.
const MISSING: &str = "\t\t<testcase name=\"missing_test\">\n\
    \t\t\t<system-out>Test(s) Missing</system-out>\n\t\t</testcase>\n";

/// Returns a JUnit document with the results.
pub(super) fn junit(results: &Map) -> String {
    let (mut elements, mut number, mut time) = (String::new(), 0, 0.0);
    for (_, tests) in by_state(results) {
        if tests.is_empty() {
            elements += MISSING;
            number += 1;
        }
        let mut sorted: Vec<(String, &Value)> = tests
            .iter()
            .map(|(name, test)| (name.to_text(), test))
            .collect();
        value::sorted::sort_by_key(&mut sorted, |(name, _)| name.clone());
        for (name, test) in sorted {
            let (element, seconds) = element(&name, test);
            elements += &element;
            number += 1;
            time += seconds;
        }
    }
    let Counts {
        failed, skipped, ..
    } = counts(results);
    let all = value::python::float(time);
    let own = if time > 0.0 { all.as_str() } else { "0" };
    format!(
        "<?xml version=\"1.0\" ?>\n\
        <testsuites disabled=\"0\" errors=\"0\" failures=\"{failed}\" tests=\"{number}\" time=\"{all}\">\n\
        \t<testsuite disabled=\"0\" errors=\"0\" failures=\"{failed}\" name=\"test_results\" skipped=\"{skipped}\" tests=\"{number}\" time=\"{own}\">\n\
        {elements}\t</testsuite>\n</testsuites>\n"
    )
}
