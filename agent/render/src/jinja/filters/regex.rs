//! The filters `regex_search`, `regex_match`, `regex_replace` and `regex_escape`, and the test
//! `match`.

use ::value::pyre::{self, Anchor, Flags, Regex, Subject};
use minijinja::{Error, State, Value};

use super::super::args::Args;
use super::super::errors::value_error;
use super::super::strings;
use super::Table;
use super::builtin::tuple;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("regex_search", |_, a| groups(a, Anchor::Anywhere)),
    ("regex_match", |_, a| groups(a, Anchor::Start)),
    ("regex_replace", replace),
    ("regex_escape", |_, a| {
        Ok(Value::from(pyre::escape(&a.text(0, "value")?)))
    }),
];

fn wrong(error: pyre::Error) -> Error {
    value_error(error.to_string())
}

fn compile(args: &Args, index: usize, flags: usize, anchor: Anchor) -> Result<Regex, Error> {
    let mut wanted = Flags::NONE;
    if args.flag(flags, "ignorecase", false) {
        wanted = wanted.with(Flags::IGNORECASE);
    }
    if args.flag(flags + 1, "multiline", false) {
        wanted = wanted.with(Flags::MULTILINE);
    }
    let pattern = args.text(index, "rgx")?;
    Regex::compiled(&pattern, wanted, Subject::Text, anchor).map_err(wrong)
}

/// The test `match`.
pub(in super::super) fn is_match(_: &mut State<'_, '_>, args: &Args) -> Result<bool, Error> {
    let regex = pattern(args, Anchor::Start)?;
    regex.is_match(&args.text(0, "txt")?).map_err(wrong)
}

fn pattern(args: &Args, anchor: Anchor) -> Result<Regex, Error> {
    compile(
        args,
        1,
        2 + usize::from(args.at(99, "val").is_some()),
        anchor,
    )
}

fn groups(args: &Args, anchor: Anchor) -> Result<Value, Error> {
    let regex = pattern(args, anchor)?;
    let text = args.text(0, "txt")?;
    let Some(found) = regex.captures(&text, 0).map_err(wrong)? else {
        return Ok(Value::from(()));
    };
    let group = |index: usize| {
        found
            .get(index)
            .map_or_else(|| Value::from(()), |group| Value::from(group.as_str()))
    };
    if found.len() == 1 {
        return Ok(tuple(vec![group(0)]));
    }
    Ok(tuple((1..found.len()).map(group).collect()))
}

fn replace(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (text, by) = (args.text(0, "txt")?, args.text(2, "val")?);
    let regex = compile(args, 1, 3, Anchor::Anywhere)?;
    let template = regex.template(&by).map_err(wrong)?;
    let (text, _) = regex.subn(&template, &text, 0).map_err(wrong)?;
    strings::checked_len(text.len())?;
    Ok(Value::from(text))
}
