//! Formats the report as text, JSON, SARIF or GitHub annotations.

use value::json::{Layout, write};
use value::{Map, PushFmt, Value};

use crate::codes::{Code, Severity};
use crate::{Finding, Report};

const LAYOUT: Layout = Layout {
    indent: Some(2),
    sort_keys: false,
    ascii: false,
};

/// Returns the report in the format `json`, `sarif` or `github`, or for any other word as text.
#[must_use]
pub fn formatted(report: &Report, format: &str) -> String {
    match format {
        "json" => write(&json(report), LAYOUT) + "\n",
        "sarif" => write(&sarif(report), LAYOUT) + "\n",
        "github" => github(report),
        _ => text(report),
    }
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        finding.text(&mut out);
    }
    for branch in &report.unreached {
        let (file, first, last) = (&branch.file, branch.first, branch.last);
        out.push_fmt(format_args!("not reached: {file}:{first}-{last}\n"));
    }
    out += &summary(report);
    out
}

fn summary(report: &Report) -> String {
    let many = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    };
    let (errors, warnings) = (
        report.count(Severity::Error),
        report.count(Severity::Warning),
    );
    format!(
        "{} and {} in {} with {} of grains\n",
        many(errors, "error"),
        many(warnings, "warning"),
        many(report.files, "SLS file"),
        many(report.samples, "sample"),
    )
}

fn json(report: &Report) -> Value {
    let finding = |found: &Finding| -> Value {
        Map::new()
            .with("code", found.code.code)
            .with("name", found.code.name)
            .with("severity", found.severity().word())
            .with("file", found.file.as_str())
            .with("line", i64::from(found.line))
            .with("column", i64::from(found.column))
            .with("message", found.message.as_str())
            .with("source", found.source.as_str())
            .with("help", found.help())
            .with("when", found.when.as_deref())
            .into()
    };
    let branches = report.unreached.iter().map(|branch| {
        Map::new()
            .with("file", branch.file.as_str())
            .with("first_line", i64::from(branch.first))
            .with("last_line", i64::from(branch.last))
            .into()
    });
    Map::new()
        .with("version", 1)
        .with("files", report.files)
        .with("samples", report.samples)
        .with("findings", Value::list(report.findings.iter().map(finding)))
        .with("not_reached", Value::list(branches))
        .into()
}

/// Returns the report in SARIF 2.1.0, which code hosts read.
fn sarif(report: &Report) -> Value {
    let mut rules: Vec<&Code> = report.findings.iter().map(|found| found.code).collect();
    rules.sort_by_key(|code| code.code);
    rules.dedup();
    let rule = |code: &Code| -> Value {
        Map::new()
            .with("id", code.code)
            .with("name", code.name)
            .with("shortDescription", message_object(code.help))
            .with("fullDescription", message_object(code.text))
            .into()
    };
    let driver = Map::new()
        .with("name", "pinch lint")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("rules", Value::list(rules.into_iter().map(rule)));
    let run = Map::new()
        .with("tool", Map::new().with("driver", driver))
        .with("columnKind", "unicodeCodePoints")
        .with("results", Value::list(report.findings.iter().map(result)));
    Map::new()
        .with("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
        .with("version", "2.1.0")
        .with("runs", Value::list([run.into()]))
        .into()
}

fn message_object(text: &str) -> Map {
    Map::new().with("text", text)
}

fn result(found: &Finding) -> Value {
    let level = match found.severity() {
        Severity::Info => "note",
        other => other.word(),
    };
    let region = Map::new()
        .with("startLine", i64::from(found.line))
        .with("startColumn", i64::from(found.column));
    let file = Map::new().with("uri", found.file.as_str());
    let place = Map::new()
        .with("artifactLocation", file)
        .with("region", region);
    let place = Map::new().with("physicalLocation", place);
    let message = format!("{}\nHelp: {}", found.message, found.help());
    Map::new()
        .with("ruleId", found.code.code)
        .with("level", level)
        .with("message", message_object(&message))
        .with("locations", Value::list([place.into()]))
        .into()
}

/// Returns the report as workflow commands, which a GitHub runner shows next to the lines.
fn github(report: &Report) -> String {
    let mut out = String::new();
    for found in &report.findings {
        let word = match found.severity() {
            Severity::Info => "notice",
            other => other.word(),
        };
        let (file, title) = (property(&found.file), found.code.code);
        let (line, column) = (found.line, found.column);
        let message = data(&format!("{}\n{}", found.message, found.help()));
        out.push_fmt(format_args!(
            "::{word} file={file},line={line},col={column},title={title}::{message}\n"
        ));
    }
    out
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
