//! Translates the engine's errors to the messages of Jinja2 and Salt.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};

use super::print;
use crate::advice;
use crate::{Kind, Place};

/// The mark that Salt prints after the line at fault.
const MARKER: &str = "    <======================";

/// The number of lines that are shown before and after the one at fault.
const LINES_AROUND: usize = 5;

/// The engine's name for a key that is not a constant.
const COMPUTED: &str = "...";

/// The maximum number of failed look-ups that are remembered.
const MISSES_MAX: usize = 4096;

thread_local! {
    /// For each missing key, the kind of container that lacked it last. An undefined value knows
    /// its name, but not the container in which it was looked up.
    static MISSES: RefCell<HashMap<String, &'static str>> = RefCell::default();
    /// The last missing key and its container, for a key that the engine does not name.
    static LAST_MISS: RefCell<Option<(String, &'static str)>> = const { RefCell::new(None) };
}

/// An error whose message is Salt's already.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Returns an error of a kind, with a message of this program.
pub(super) fn fault(kind: Kind, message: impl Into<String>) -> Error {
    let message = message.into();
    Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Fault { kind, message })
}

/// Returns Python's `TypeError`.
pub(super) fn type_error(message: impl Into<String>) -> Error {
    fault(Kind::Jinja, message)
}

/// Returns Python's `ValueError`.
pub(super) fn value_error(message: impl Into<String>) -> Error {
    fault(Kind::Jinja, message)
}

/// Returns Python's `KeyError`.
pub(super) fn key_error(message: impl Into<String>) -> Error {
    fault(Kind::Jinja, message)
}

/// Returns Jinja2's `TemplateRuntimeError`, which Salt calls a syntax error.
pub(super) fn runtime_error(message: impl Into<String>) -> Error {
    fault(Kind::JinjaSyntax, message)
}

/// Returns Jinja2's `UndefinedError` for a value that lacks an attribute.
pub(super) fn no_attribute(value: &Value, name: &str) -> Error {
    fault(
        Kind::JinjaVariable,
        format!("'{}' has no attribute '{name}'", print::object_name(value)),
    )
}

/// Remembers that a container lacked a key.
pub(super) fn note_miss(container: &'static str, key: &Value) {
    let key = print::repr(key);
    LAST_MISS.set(Some((key.clone(), container)));
    MISSES.with_borrow_mut(|misses| {
        if misses.len() >= MISSES_MAX {
            misses.clear();
        }
        misses.insert(key, container);
    });
}

/// Forgets the look-ups of earlier templates.
pub(super) fn forget_misses() {
    MISSES.with_borrow_mut(HashMap::clear);
    LAST_MISS.set(None);
}

/// The data to report the error of a template.
pub(super) struct Report<'a> {
    /// The name of the template that the caller rendered.
    pub(super) root: &'a str,
    pub(super) syntax: &'a SyntaxConfig,
    /// Returns the text of a template by its name.
    pub(super) sources: &'a dyn Fn(&str) -> Option<Arc<str>>,
    /// Returns the type of the variable at a path, as messages name it.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
}

/// Returns the type of the variable at a path such as `pillar.a["b"]`, as messages name it.
pub(super) fn follow(variables: &value::Map, path: &str) -> Option<String> {
    let mut keys = path
        .split(['.', '['])
        .map(|key| key.trim_matches([']', '"', '\'']));
    let mut here = variables.get(keys.next()?)?;
    for key in keys {
        here = here.get(key)?;
    }
    Some(print::object_name(&super::containers::from_value(here)))
}

impl Report<'_> {
    /// Returns the error with Salt's message.
    pub(super) fn salt_error(&self, error: &Error) -> crate::Error {
        let chain = chain(error);
        let innermost = chain.last().copied().unwrap_or(error);
        let mut place = chain.iter().rev().find_map(|error| self.place(error));
        let (kind, sentence) = self.classify(innermost, &mut place);
        let prefix = match kind {
            Kind::JinjaVariable => "Jinja variable ",
            Kind::JinjaSyntax => "Jinja syntax error: ",
            Kind::Call => "Problem running salt function in Jinja template: ",
            Kind::Limit => "",
            _ => "Jinja error: ",
        };
        let around = place
            .as_ref()
            .map(|place| self.around(place))
            .unwrap_or_default();
        let advice = place.as_ref().filter(|_| kind == Kind::JinjaVariable);
        crate::Error {
            advice: advice
                .and_then(|place| advice::for_variable(&sentence, place))
                .map(Box::new),
            place,
            ..crate::Error::new(kind, format!("{prefix}{sentence}{around}"))
        }
    }

    fn classify(&self, error: &Error, place: &mut Option<Place>) -> (Kind, String) {
        if let Some(fault) = error
            .source()
            .and_then(|source| source.downcast_ref::<Fault>())
        {
            return (fault.kind, fault.message.clone());
        }
        let detail = error.detail().unwrap_or_default();
        if let Some(name) = quoted_expression(detail) {
            return self.undefined(error, name);
        }
        match error.kind() {
            ErrorKind::UndefinedError => match empty(error) {
                Some(sentence) => (Kind::JinjaVariable, sentence),
                None => {
                    let name = tested_at(error).or_else(|| name_at(error));
                    let name = name.unwrap_or_else(|| "value".into());
                    self.undefined(error, &name)
                }
            },
            ErrorKind::SyntaxError | ErrorKind::BadEscape => {
                (Kind::JinjaSyntax, self.syntax_error(detail, place))
            }
            ErrorKind::UnknownFilter => (Kind::JinjaSyntax, unknown("filter", detail)),
            ErrorKind::UnknownTest => (Kind::JinjaSyntax, unknown("test", detail)),
            ErrorKind::UnknownFunction => {
                let name = detail.strip_suffix(" is unknown").unwrap_or(detail);
                (Kind::JinjaVariable, format!("'{name}' is undefined"))
            }
            ErrorKind::TemplateNotFound => (Kind::Jinja, not_found(detail)),
            ErrorKind::OutOfFuel => (
                Kind::Limit,
                "The template executes too many steps: is there a loop that never ends?".into(),
            ),
            ErrorKind::WriteFailure => (
                Kind::Limit,
                format!(
                    "The template outputs more than {} bytes.",
                    super::OUTPUT_MAX
                ),
            ),
            ErrorKind::CannotUnpack => (Kind::Jinja, unpacked(detail)),
            _ if detail.is_empty() => (Kind::Jinja, error.kind().to_string()),
            _ => (
                Kind::Jinja,
                calculated(detail).unwrap_or_else(|| detail.into()),
            ),
        }
    }

    fn syntax_error(&self, detail: &str, place: &mut Option<Place>) -> String {
        let Some(at) = place else {
            return detail.to_owned();
        };
        let Some(text) = (self.sources)(&at.file) else {
            return detail.to_owned();
        };
        let (sentence, line) = super::syntax::explain(&text, self.syntax, detail, at.line as usize);
        if line != at.line as usize {
            *place = self.line(&at.file.clone(), line);
        }
        sentence
    }

    /// Returns Jinja2's message about an expression without a value.
    fn undefined(&self, error: &Error, expression: &str) -> (Kind, String) {
        let Some((base, key, is_text)) = last_key(expression) else {
            return (Kind::JinjaVariable, format!("'{expression}' is undefined"));
        };
        let last = LAST_MISS.with_borrow(Clone::clone);
        if let Some((key, holder)) = last.filter(|_| key == COMPUTED) {
            let is_text = key.starts_with(['\'', '"']);
            return (Kind::JinjaVariable, lacks(holder, &key, is_text));
        }
        let found = (self.lookup)(base)
            .or_else(|| (base == "(...)").then(|| constant(error)).flatten())
            .or_else(|| local(error, base));
        let holder = match found {
            Some(holder) => holder,
            None => MISSES
                .with_borrow(|misses| misses.get(&key).copied())
                .unwrap_or_else(|| match key.starts_with("'__") {
                    true => "str object",
                    false => "None",
                })
                .to_owned(),
        };
        if key.starts_with("'__") {
            let class = holder.trim_end_matches(" object");
            let sentence = format!("access to attribute {key} of '{class}' object is unsafe.");
            return (Kind::JinjaSyntax, sentence);
        }
        (Kind::JinjaVariable, lacks(&holder, &key, is_text))
    }

    fn place(&self, error: &Error) -> Option<Place> {
        let file = error.name()?.trim_start_matches(super::PLAIN);
        let place = self.line(file, super::lines::of_error(error)?)?;
        let column = column(error, &place.source).unwrap_or(place.column);
        Some(Place { column, ..place })
    }

    fn line(&self, file: &str, line: usize) -> Option<Place> {
        let text = (self.sources)(file)?;
        let source = text
            .lines()
            .nth(line.checked_sub(1)?)
            .unwrap_or_default()
            .to_owned();
        Some(Place {
            file: file.into(),
            line: u32::try_from(line).ok()?,
            column: 1,
            source,
        })
    }

    /// Returns the text that Salt adds to the message: the line with its surroundings, or the
    /// imported file with both.
    fn around(&self, place: &Place) -> String {
        let Some(text) = (self.sources)(&place.file) else {
            return String::new();
        };
        let line = super::syntax::statement_line(&text, self.syntax, place.line as usize);
        let context = context(&text, line);
        if *place.file == *self.root {
            format!("; line {line}\n\n{context}")
        } else {
            format!("\n{}({line}):\n{context}", place.file)
        }
    }
}

/// Returns the text that the engine points at.
fn pointed_at(error: &Error) -> Option<&str> {
    error.template_source()?.get(error.range()?)
}

/// Returns the column in the template's line that the engine points at. The engine reads a
/// rewritten line, so the column is known only if the text before it is unchanged.
fn column(error: &Error, line: &str) -> Option<u32> {
    let (before, from) = error
        .template_source()?
        .split_at_checked(error.range()?.start)?;
    let before = before.rsplit('\n').next().unwrap_or_default();
    let opening = from.len() - from.trim_start_matches(['{', '%', '-', '+', ' ']).len();
    let skipped = if from.starts_with('{') { opening } else { 0 };
    let column = before.chars().count() + skipped + 1;
    line.starts_with(before)
        .then(|| u32::try_from(column).ok())?
}

/// Returns the message for `[]|first`, and for a filter after it.
fn empty(error: &Error) -> Option<String> {
    let which = ["first", "last"];
    let at = pointed_at(error)?.trim_start_matches(|c: char| !c.is_alphabetic());
    let before = error.template_source()?.get(..error.range()?.start)?;
    let before = before.trim_end().strip_suffix('|')?.trim_end();
    let is_behind = |name: &&str| {
        let subject = before.strip_suffix(name).map(str::trim_end);
        subject.is_some_and(|subject| subject.ends_with('|'))
    };
    let here = which.into_iter().find(|name| at.starts_with(name));
    let which = here.or_else(|| which.into_iter().find(is_behind))?;
    Some(format!("No {which} item, sequence was empty."))
}

/// Returns Jinja2's message about a missing key.
fn lacks(holder: &str, key: &str, is_text: bool) -> String {
    match is_text {
        true => format!("'{holder}' has no attribute {key}"),
        false => format!("{holder} has no element {key}"),
    }
}

/// Returns the type of the constant with which a look-up begins.
fn constant(error: &Error) -> Option<String> {
    let text = pointed_at(error)?.trim_start_matches('(');
    let name = if text.to_lowercase().starts_with("none") {
        "None"
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        "int object"
    } else if text.starts_with(['\'', '"']) {
        "str object"
    } else {
        return None;
    };
    Some(name.into())
}

/// Returns the type of a variable that the template itself set, from the engine's debug output
/// about the variables at the fault.
fn local(error: &Error, name: &str) -> Option<String> {
    let told = error.display_debug_info().to_string();
    let (_, variables) = told.rsplit_once("\nReferenced variables: {\n")?;
    let start = format!("    {name}: ");
    let value = variables.lines().find_map(|line| line.strip_prefix(&start));
    Some(match value?.trim_end_matches(',') {
        "none" => "None".into(),
        "true" | "false" => "bool object".into(),
        text if text.starts_with(['"', '\'']) => "str object".into(),
        number if number.parse::<i64>().is_ok() => "int object".into(),
        number if number.parse::<f64>().is_ok() => "float object".into(),
        _ => return None,
    })
}

/// Returns the name of the variable at fault, from the text that the engine points at.
fn name_at(error: &Error) -> Option<String> {
    let text = pointed_at(error)?;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let text = text.trim_start_matches(|c: char| !word(c));
    let name: String = text.chars().take_while(|c| word(*c)).collect();
    (!name.is_empty()).then_some(name)
}

/// Returns the expression before `is`, if the engine points at the name of a test.
fn tested_at(error: &Error) -> Option<String> {
    let before = error.template_source()?.get(..error.range()?.start)?;
    let before = before.trim_end();
    let before = before.strip_suffix(" not").unwrap_or(before).trim_end();
    let before = before.strip_suffix(" is")?.trim_end();
    let part = |c: char| c.is_alphanumeric() || "_.[]'\"".contains(c);
    let start = before.rfind(|c| !part(c)).map_or(0, |at| at + 1);
    let name = before.get(start..)?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns Python's message about a tuple that does not fit its names.
fn unpacked(detail: &str) -> String {
    let numbers: Vec<usize> = detail
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    match *numbers.as_slice() {
        [expected, got] if got < expected => {
            format!("not enough values to unpack (expected {expected}, got {got})")
        }
        [expected, _] => format!("too many values to unpack (expected {expected})"),
        _ => "cannot unpack non-iterable object".into(),
    }
}

/// Returns Python's message about an impossible calculation.
fn calculated(detail: &str) -> Option<String> {
    if let Some(rest) = detail.strip_prefix("unable to calculate ") {
        let zero = rest.ends_with(" 0") || rest.ends_with(" 0.0");
        return zero.then(|| "division by zero".into());
    }
    let rest = detail.strip_prefix("tried to use ")?;
    let (operator, kinds) = rest.split_once(" operator on unsupported types ")?;
    let (left, right) = kinds.split_once(" and ")?;
    let (left, right) = (python_name(left), python_name(right));
    if operator == "+" && (left == "str" || left == "list") {
        return Some(format!(
            "can only concatenate {left} (not \"{right}\") to {left}"
        ));
    }
    Some(format!(
        "unsupported operand type(s) for {operator}: '{left}' and '{right}'"
    ))
}

fn python_name(kind: &str) -> &str {
    match kind {
        "number" => "int",
        "string" => "str",
        "sequence" | "iterator" => "list",
        "map" => "dict",
        "none" => "NoneType",
        other => other,
    }
}

/// Returns the error and its causes.
fn chain(error: &Error) -> Vec<&Error> {
    let mut chain = vec![error];
    let mut next = error.source();
    while let Some(error) = next.and_then(|source| source.downcast_ref::<Error>()) {
        chain.push(error);
        next = error.source();
    }
    chain
}

/// Translates `filter x is unknown` to Jinja2's message.
fn unknown(what: &str, detail: &str) -> String {
    let name = detail.split(' ').nth(1).unwrap_or_default();
    format!("No {what} named '{name}'.")
}

fn not_found(detail: &str) -> String {
    if let Some((_, many)) = detail.split_once("none of which existed ") {
        let names = many
            .trim_matches(['[', ']'])
            .replace(['"', '\''], "")
            .replace(super::PLAIN, "");
        return format!("none of the templates given were found: {names}");
    }
    detail
        .split(['"', '\''])
        .nth(1)
        .unwrap_or(detail)
        .trim_start_matches(super::PLAIN)
        .to_owned()
}

/// Returns the expression in "`pillar.x` is undefined".
fn quoted_expression(detail: &str) -> Option<&str> {
    let (before, rest) = detail.split_once('`')?;
    let (name, after) = rest.split_once('`')?;
    let known = before.is_empty() || before.ends_with('(');
    (known && after.starts_with(" is undefined")).then_some(name)
}

/// Splits an expression into the base of its last look-up and the key in Python's notation; the
/// flag is true if the key is text.
fn last_key(expression: &str) -> Option<(&str, String, bool)> {
    if let Some(inner) = expression.strip_suffix(']') {
        let (base, key) = inner.rsplit_once('[')?;
        let quoted = |quote: char| key.strip_prefix(quote)?.strip_suffix(quote);
        let text = quoted('"').or_else(|| quoted('\''));
        return Some(match text {
            Some(text) => (base, print::repr(&Value::from(text)), true),
            None => (base, key.to_owned(), false),
        });
    }
    let (base, name) = expression.rsplit_once('.')?;
    Some((base, format!("'{name}'"), true))
}

/// Returns the lines around a line, as Salt shows them.
pub(crate) fn context(text: &str, line: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if line == 0 || line > lines.len() {
        return text.to_owned();
    }
    let start = line.saturating_sub(LINES_AROUND + 1);
    let end = lines.len().min(line + LINES_AROUND);
    let mut shown = String::from("---\n");
    if start > 0 {
        shown.push_str("[...]\n");
    }
    for (index, text) in lines.iter().enumerate().take(end).skip(start) {
        shown.push_str(text);
        if index + 1 == line {
            shown.push_str(MARKER);
        }
        shown.push('\n');
    }
    if end < lines.len() {
        shown.push_str("[...]\n");
    }
    shown.push_str("---");
    shown
}
