//! One test: its validation, the call of its function, and its result.

use std::time::Instant;

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::assertion::{self, Assertion};

/// The function whose tests need no assertion.
const STATE_APPLY: &str = "saltcheck.state_apply";

/// Runs a test of a file. A value that is no dictionary is an invalid test.
///
/// # Errors
/// When the pillar does not render.
pub(super) fn run_or_fail(cx: &Exec, test: &Value) -> Result<Value, Error> {
    match test {
        Value::Map(test) => run(cx, test),
        _ => run(cx, &Map::new()),
    }
}

/// Runs a test and returns its result.
///
/// # Errors
/// When the pillar does not render.
pub(super) fn run(cx: &Exec, test: &Map) -> Result<Value, Error> {
    let start = Instant::now();
    let mut result = match is_valid(cx, test) {
        false => Map::new().with("status", "Fail - invalid test"),
        true if test.get("skip").is_some_and(Value::is_true) => {
            return Ok(Map::new()
                .with("status", "Skip")
                .with("duration", 0.0)
                .into());
        }
        true => outcome(cx, test)?,
    };
    result.insert("duration", rounded(start.elapsed().as_secs_f64()));
    Ok(result.into())
}

/// Rounds seconds to four digits.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 10_000.0).round() / 10_000.0
}

fn function(test: &Map) -> String {
    let function = test.get("module_and_function");
    function.map(Value::to_text).unwrap_or_default()
}

/// Returns the groups of assertions of a test that has several.
fn groups(test: &Map) -> Option<&[Value]> {
    let groups = test.get("assertions")?.as_list()?;
    (!groups.is_empty()).then_some(groups)
}

fn is_valid(cx: &Exec, test: &Map) -> bool {
    let function = function(test);
    if function == STATE_APPLY {
        return true;
    }
    // As in Salt, the last group decides.
    let asserted = groups(test).map_or(Some(test), |groups| groups.last()?.as_map());
    if !asserted.is_some_and(is_valid_assertion) {
        return false;
    }
    let exists = cx.has_function(&function);
    if !exists {
        log::error(format_args!(
            "Saltcheck: {function} is not a valid function"
        ));
    }
    exists
}

fn is_valid_assertion(group: &Map) -> bool {
    let name = group.get("assertion").map(Value::to_text);
    let Some(assertion) = name.as_deref().and_then(Assertion::from_name) else {
        log::error(format_args!(
            "Saltcheck: {} is not in the assertions list",
            name.unwrap_or_else(|| "None".into())
        ));
        return false;
    };
    let has_expected = !expected(group).is_null();
    if assertion.compares() && !has_expected {
        log::error("Saltcheck: expected_return missing a value");
    }
    has_expected || !assertion.compares()
}

/// Returns the value that the return is compared with.
fn expected(group: &Map) -> Value {
    let names = ["expected_return", "expected-return"];
    let found = names.iter().find_map(|name| group.get(name));
    found.cloned().unwrap_or_default()
}

/// The settings of a test that its assertions share.
struct Shown<'a> {
    function: &'a str,
    args: &'a Value,
    details: bool,
    returned: bool,
}

/// Calls the function of a test and checks its assertions.
fn outcome(cx: &Exec, test: &Map) -> Result<Map, Error> {
    let option = vec!["saltcheck_output_details".into(), false.into()];
    let always = cx.call_internal("config.get", option, Map::new())?;
    let function = function(test);
    let shown = Shown {
        function: &function,
        args: test.get("args").unwrap_or(&Value::Null),
        details: test.get("output_details").unwrap_or(&always).is_true(),
        returned: test.get("print_result").is_none_or(Value::is_true),
    };
    let returned = match called(cx, test, &function) {
        Ok(returned) => returned,
        Err(error) => return Ok(Map::new().with("status", format!("Fail: {error}"))),
    };
    let Some(groups) = groups(test) else {
        return Ok(shown.checked(test, returned));
    };
    let mut result = Map::new();
    let mut status = "Pass";
    for (number, group) in (1..).zip(groups) {
        let group = group.as_map().cloned().unwrap_or_default();
        let checked = shown.checked(&group, returned.clone());
        if checked.get("status").and_then(Value::as_str) != Some("Pass") {
            status = "Fail";
        }
        result.insert(format!("assertion{number}"), checked);
    }
    Ok(result.with("status", status))
}

/// Calls the function of a test. Its exit code does not count, only its return.
fn called(cx: &Exec, test: &Map, function: &str) -> Result<Value, Error> {
    let args = match test.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(args) => match args.as_list() {
            Some(args) => args.to_vec(),
            None => vec![args.clone()],
        },
    };
    let kwargs = test.get("kwargs").and_then(Value::as_map);
    let mut kwargs = kwargs.cloned().unwrap_or_default();
    kwargs.remove("pillar");
    let mut pillars = ["pillar_data", "pillar-data"].iter();
    let pillar = pillars.find_map(|name| test.get(name));
    if let Some(pillar) = pillar.filter(|pillar| pillar.is_true()) {
        kwargs.insert("pillar", pillar.clone());
    }
    cx.apart().call(function, args, kwargs)
}

impl Shown<'_> {
    /// Checks one assertion and returns its status, with the details if they are wanted.
    fn checked(&self, group: &Map, mut returned: Value) -> Map {
        let section = group
            .get("assertion_section")
            .filter(|section| section.is_true());
        if let Some(section) = section {
            let delimiter = group.get("assertion_section_delimiter").map(Value::to_text);
            let delimiter = delimiter.unwrap_or_else(|| ":".into());
            let found = returned.traverse(&section.to_text(), &delimiter).cloned();
            returned = found.unwrap_or(Value::Bool(false));
        }
        let assertion = match self.function {
            STATE_APPLY => Some(Assertion::NotEmpty),
            _ => group
                .get("assertion")
                .and_then(Value::as_str)
                .and_then(Assertion::from_name),
        };
        let Some(assertion) = assertion else {
            return Map::new().with("status", "Fail - bad assertion");
        };
        let mut expected = expected(group);
        if assertion.casts() {
            expected = assertion::cast(&expected, &returned);
        }
        let status = match assertion.check(&expected, &returned, self.returned) {
            Ok(()) => "Pass".to_owned(),
            Err(reason) => format!("Fail: {reason}"),
        };
        let checked = Map::new().with("status", status);
        match self.details {
            true => self.with_details(checked, section, assertion, (&expected, &returned)),
            false => checked,
        }
    }

    fn with_details(
        &self,
        checked: Map,
        section: Option<&Value>,
        assertion: Assertion,
        (expected, returned): (&Value, &Value),
    ) -> Map {
        let layout = Layout {
            ascii: true,
            ..Layout::default()
        };
        let (title, section) = match section {
            Some(section) => (" assertion_section", format!(" {}", section.as_text())),
            None => ("", String::new()),
        };
        let args = json::write(self.args, layout);
        let call = format!("{} {args}{section}", self.function);
        let left = match expected {
            Value::Null => String::new(),
            expected => format!("{} ", expected.as_text()),
        };
        let right = match self.returned {
            true => returned.to_text(),
            false => "hidden".to_owned(),
        };
        let asserted = format!("{left}{} {right}", assertion.sign());
        checked
            .with(&format!("module.function [args]{title}"), call)
            .with("saltcheck assertion", asserted)
    }
}
