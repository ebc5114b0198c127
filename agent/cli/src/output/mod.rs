//! Outputters: convert return data to the text that Salt prints for it.

mod color;
#[cfg(test)]
mod corpus;
mod format;
mod highstate;
mod nested;
mod plain;
mod pprint;
mod print;
mod screen;
mod seen;
mod table;
mod text;

use std::borrow::Cow;

use value::{Map, Value, secret};

use color::Color;
pub use print::{OutputFile, Return, print_return, return_text};
pub use screen::Screen;
use seen::text as on_screen;
use value::yaml::Yaml;

/// The error for data that an outputter cannot format. As in Salt, the data is then printed by
/// `nested`.
pub(crate) struct Mismatch;

/// The outputter that prints each event of a run as it happens.
pub const NDJSON: &str = "ndjson";

/// The names of the outputters.
pub const OUTPUTTERS: &[&str] = &[
    "grains",
    "highstate",
    "json",
    "key",
    "ndjson",
    "nested",
    "no_return",
    "pprint",
    "quiet",
    "raw",
    "table",
    "text",
    "txt",
    "yaml",
];

/// The values of `state_output`. With `_id`, states are shown by their ids.
pub const STATE_OUTPUTS: &[&str] = &[
    "full",
    "terse",
    "mixed",
    "changes",
    "filter",
    "full_id",
    "terse_id",
    "mixed_id",
    "changes_id",
    "filter_id",
];

/// The value of `output_indent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indent {
    /// Not set: each outputter has its default.
    #[default]
    Default,
    /// `null`: everything on one line.
    OneLine,
    /// `pretty`: four spaces, keys sorted.
    Pretty,
    /// The number of spaces for each level. A negative number puts everything on one line.
    Spaces(i64),
}

/// The value of `state_output` without its suffix `_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Many lines for each state.
    #[default]
    Full,
    /// One line for each state.
    Terse,
    /// One line for each state that did not fail, many for the others.
    Mixed,
    /// One line for each state that neither failed nor changed something, many for the others.
    Changes,
    /// The amount that `state_output_exclude` and `state_output_terse` set for each result.
    Filter,
}

/// The layout of terse lines: the value of `state_tabular`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tabular {
    /// One sentence for each state.
    #[default]
    No,
    /// Columns.
    Yes,
    /// The user's own layout.
    Own(String),
}

/// The settings of the `highstate` outputter.
#[derive(Clone, Debug)]
pub struct StateOutput {
    /// The amount of output for each state.
    pub mode: Mode,
    /// True to show the id instead of the name.
    pub by_id: bool,
    /// True to show states that succeeded and changed nothing.
    pub verbose: bool,
    /// The layout of terse lines.
    pub tabular: Tabular,
    /// True to show only states that failed or changed something.
    pub output_diff: bool,
    /// True to show percentages in the summary.
    pub output_pct: bool,
    /// True to combine the names of one id into one state.
    pub compress_ids: bool,
    /// True to show the start time and the duration of states.
    pub profile: bool,
    /// Results that are not shown in `filter` mode: `True`, `False`, `None`.
    pub exclude: Vec<String>,
    /// Results that are shown tersely in `filter` mode.
    pub terse: Vec<String>,
}

impl Default for StateOutput {
    fn default() -> Self {
        Self::from_opts(&Map::new())
    }
}

impl StateOutput {
    fn from_opts(opts: &Map) -> Self {
        let truth = |key: &str, default: bool| opts.get(key).map_or(default, Value::is_true);
        let named = opts
            .get("state_output")
            .and_then(Value::as_str)
            .unwrap_or("full")
            .to_lowercase();
        Self {
            mode: mode(&named),
            by_id: named.ends_with("_id"),
            verbose: truth("state_verbose", true),
            tabular: match opts.get("state_tabular") {
                Some(Value::Bool(true)) => Tabular::Yes,
                Some(Value::Str(layout)) => Tabular::Own(layout.to_string()),
                _ => Tabular::No,
            },
            output_diff: truth("state_output_diff", false),
            output_pct: truth("state_output_pct", false),
            compress_ids: truth("state_compress_ids", false),
            profile: truth("state_output_profile", true),
            exclude: results(opts.get("state_output_exclude")),
            terse: results(opts.get("state_output_terse")),
        }
    }
}

fn mode(named: &str) -> Mode {
    let modes = [
        ("terse", Mode::Terse),
        ("mixed", Mode::Mixed),
        ("changes", Mode::Changes),
        ("filter", Mode::Filter),
    ];
    modes
        .into_iter()
        .find(|(name, _)| named.starts_with(name))
        .map_or(Mode::Full, |(_, mode)| mode)
}

/// Returns a list of results from `True,None` or from a YAML list of strings.
fn results(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Str(words)) => words.split(',').map(str::to_owned).collect(),
        Some(Value::List(items)) => items
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// The settings for printing return data.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The outputter of `--out`, or of `output` in the configuration.
    pub outputter: Option<String>,
    /// True to print in colour.
    pub color: bool,
    /// True to remove escape sequences from the data.
    pub strip_colors: bool,
    /// The indentation of a level.
    pub indent: Indent,
    /// The initial indentation of nested data.
    pub nested_indent: usize,
    /// The settings of the `highstate` outputter.
    pub state: StateOutput,
    /// True to print secrets unmasked (`--show-secrets`). This applies to stdout only.
    pub show_secrets: bool,
    /// True if the output goes to a terminal.
    terminal: bool,
    /// The options of the `table` outputter: `out.table.*`.
    table: Map,
}

/// Turns colours off, like `--no-color`, if the variable `NO_COLOR` is set and not empty.
pub fn heed_no_color(opts: &mut Map, env: impl Fn(&str) -> Option<String>) {
    if env("NO_COLOR").is_some_and(|set| !set.is_empty()) {
        opts.insert("no_color", true);
    }
}

impl Output {
    /// Reads the settings from the options of a run. Colours are on for a terminal unless the
    /// options say otherwise.
    #[must_use]
    pub fn from_opts(opts: &Map, terminal: bool) -> Self {
        let truth = |key: &str| opts.get(key).is_some_and(Value::is_true);
        let color = opts.get("color").map_or(terminal, Value::is_true);
        let table = opts.iter().filter(|(key, _)| {
            key.as_str()
                .is_some_and(|key| key.starts_with("out.table."))
        });
        Self {
            outputter: opts
                .get("output")
                .and_then(Value::as_str)
                .map(str::to_owned),
            terminal,
            color: truth("force_color") || (color && !truth("no_color")),
            strip_colors: opts.get("strip_colors").is_none_or(Value::is_true),
            indent: match opts.get("output_indent") {
                None => Indent::Default,
                Some(Value::Str(word)) if **word == *"pretty" => Indent::Pretty,
                Some(Value::Int(spaces)) => Indent::Spaces(*spaces),
                Some(_) => Indent::OneLine,
            },
            nested_indent: opts
                .get("nested_indent")
                .and_then(Value::as_int)
                .and_then(|n| n.try_into().ok())
                .unwrap_or(0),
            state: StateOutput::from_opts(opts),
            show_secrets: truth("show_secrets"),
            table: table
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }

    /// Returns the settings for output to a file: secrets are masked, and nothing is escaped for a
    /// terminal.
    #[must_use]
    pub fn in_file(&self) -> Self {
        Self {
            show_secrets: false,
            terminal: false,
            ..self.clone()
        }
    }

    fn paint(&self, color: Color, text: &str) -> String {
        format!(
            "{}{text}{}",
            color.code(self.color),
            Color::End.code(self.color)
        )
    }

    /// Returns the outputter for data whose function asks for `wanted`.
    fn choose<'a>(&'a self, wanted: Option<&'a str>) -> &'a str {
        let chosen = match self.outputter.as_deref() {
            Some(name) if name != "highstate" => Some(name),
            _ => wanted,
        };
        match chosen {
            Some("text") => "txt",
            None | Some("") => "nested",
            Some(name) => name,
        }
    }
}

/// Returns text that is printed next to the returns, with terminal control sequences escaped. If
/// the output does not go to a terminal, the text is unchanged.
#[must_use]
pub fn aside<'a>(text: &'a str, how: &Output) -> Cow<'a, str> {
    on_screen(text, how)
}

/// Returns data as JSON without line breaks.
pub(crate) fn one_line(data: &Value) -> String {
    let how = Output {
        indent: Indent::OneLine,
        ..Output::default()
    };
    plain::json(data, &how)
}

/// Formats data with the outputter `wanted`, unless the user named another one.
#[must_use]
pub fn display(
    data: &Value,
    wanted: Option<&str>,
    how: &Output,
    retcode: i64,
    yaml: &dyn Yaml,
) -> String {
    let masked = (secret::is_any() && !how.show_secrets).then(|| secret::value(data));
    let data = masked.as_ref().unwrap_or(data);
    let nested = || nested::output(data, how, how.nested_indent, retcode);
    let text = match how.choose(wanted) {
        "highstate" => highstate::output(data, how, 1),
        "json" => Ok(plain::json(data, how)),
        "key" => plain::key(data, how),
        "nested" => Ok(nested()),
        NDJSON => Ok(one_line(data)),
        "no_return" => Ok(plain::no_return(data, how)),
        "pprint" => Ok(plain::pretty(data, how)),
        "raw" => Ok(data.to_text()),
        "table" => table::output(data, how, &how.table),
        "txt" => Ok(plain::txt(data)),
        "yaml" => Ok(plain::yaml(data, how, yaml)),
        // Old minions still ask for this outputter.
        "grains" => Ok(nested()),
        other => {
            value::log::error(format_args!(
                "Invalid outputter {other} specified, fall back to nested"
            ));
            Ok(nested())
        }
    };
    let mut text = text.unwrap_or_else(|Mismatch| nested());
    text.truncate(text::rstrip(&text).len());
    on_screen(&text, how).into_owned()
}
