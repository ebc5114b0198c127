//! Outputters: return data as the text that Salt prints for it.

mod color;
#[cfg(test)]
mod corpus;
mod format;
mod highstate;
mod nested;
mod plain;
mod pprint;
mod print;
mod seen;
mod table;
mod text;

use std::borrow::Cow;

use value::{Map, Value, secret};

use color::Color;
pub use print::{OutputFile, Return, print_return, return_text};
use seen::text as on_screen;
use value::yaml::Yaml;

/// Data that an outputter has no form for: Salt then prints it `nested`.
pub(crate) struct Unfit;

/// `output_indent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indent {
    /// Not set: each outputter has its own.
    #[default]
    Default,
    /// `null`: everything on one line.
    OneLine,
    /// `pretty`: four spaces, keys sorted.
    Pretty,
    /// So many spaces a level; a negative number is one line.
    Spaces(i64),
}

/// `state_output` without its `_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Many lines a state.
    #[default]
    Full,
    /// One line a state.
    Terse,
    /// One line a state unless it failed.
    Mixed,
    /// One line a state unless it failed or changed something.
    Changes,
    /// What `state_output_exclude` and `state_output_terse` say.
    Filter,
}

/// `state_tabular`: how terse lines are laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tabular {
    /// As a sentence.
    #[default]
    No,
    /// In columns.
    Yes,
    /// By a layout of the user's own.
    Own(String),
}

/// What the `highstate` outputter goes by.
#[derive(Clone, Debug)]
pub struct StateOutput {
    /// How much of a state is shown.
    pub mode: Mode,
    /// Show the id where the name would stand.
    pub by_id: bool,
    /// Show states that succeeded and changed nothing.
    pub verbose: bool,
    /// How terse lines are laid out.
    pub tabular: Tabular,
    /// Show only states that failed or changed something.
    pub output_diff: bool,
    /// Show percentages in the summary.
    pub output_pct: bool,
    /// Roll the names of one id into one state.
    pub compress_ids: bool,
    /// Show when states started and how long they took.
    pub profile: bool,
    /// Results not to show in `filter` mode: `True`, `False`, `None`.
    pub exclude: Vec<String>,
    /// Results to show tersely in `filter` mode.
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

/// A list of results: `True,None` or a YAML list of strings.
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

/// How return data is to be printed.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// `--out`, or `output` of the configuration.
    pub outputter: Option<String>,
    /// Print in colour.
    pub color: bool,
    /// Take escape sequences out of the data.
    pub strip_colors: bool,
    /// How deep a level is indented.
    pub indent: Indent,
    /// How far nested data stands from the left.
    pub nested_indent: usize,
    /// What the `highstate` outputter goes by.
    pub state: StateOutput,
    /// Print secrets as they are (`--show-secrets`): on stdout, and nowhere else.
    pub show_secrets: bool,
    /// Whether a terminal shows the text.
    terminal: bool,
    /// Options of the `table` outputter: `out.table.*`.
    table: Map,
}

/// The variable `NO_COLOR`, set to anything, is as good as `--no-color`.
pub fn heed_no_color(opts: &mut Map, env: impl Fn(&str) -> Option<String>) {
    if env("NO_COLOR").is_some_and(|set| !set.is_empty()) {
        opts.insert("no_color", true);
    }
}

impl Output {
    /// What the options of a run say; colours are on for a terminal unless the options differ.
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

    /// Returns the same for a file: without secrets, and as no terminal needs it.
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

    /// The outputter to use for data whose function asks for `wanted`.
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

/// Returns text that is printed beside the returns, without what a terminal would obey; where no terminal shows it, it stays as it is.
#[must_use]
pub fn aside<'a>(text: &'a str, how: &Output) -> Cow<'a, str> {
    on_screen(text, how)
}

/// Data as JSON without a line's end in it.
pub(crate) fn one_line(data: &Value) -> String {
    let how = Output {
        indent: Indent::OneLine,
        ..Output::default()
    };
    plain::json(data, &how)
}

/// Lays data out with the outputter `wanted`, unless the user named another one.
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
        crate::progress::NDJSON => Ok(one_line(data)),
        "no_return" => Ok(plain::no_return(data, how)),
        "pprint" => Ok(plain::pretty(data, how)),
        "raw" => Ok(data.to_text()),
        "table" => table::output(data, how, &how.table),
        "txt" => Ok(plain::txt(data)),
        "yaml" => Ok(plain::yaml(data, how, yaml)),
        // Old minions still ask for it.
        "grains" => Ok(nested()),
        other => {
            value::log::error(format_args!(
                "Invalid outputter {other} specified, fall back to nested"
            ));
            Ok(nested())
        }
    };
    let mut text = text.unwrap_or_else(|Unfit| nested());
    text.truncate(text::rstrip(&text).len());
    on_screen(&text, how).into_owned()
}
