//! The `loop` state module: calls a function until its result is the expected one.

use std::time::{Duration, Instant};

use state::exec::Exec;
use state::module::{Error, Problem, Ret};
use value::{Map, Value, python, target, watch};

use crate::fileserver::template;

state::state_module! {
    /// Call functions until their result is the expected one.
    mod r#loop;

    /// Call a function until a condition holds.
    ///
    ///     service.status:
    ///       loop.until:
    ///         - m_args: [nginx]
    ///         - condition: m_ret is True
    ///         - period: 1
    ///         - timeout: 30
    fn until(Until {
        /// The function.
        name: String,
        /// The positional arguments of the function.
        m_args: Value = Value::Null,
        /// The named arguments of the function.
        m_kwargs: Option<Map> = None,
        /// The condition: a Jinja expression in which `m_ret` is the result.
        condition: Option<String> = None,
        /// The number of seconds between two calls.
        period: Value = 1.into(),
        /// The number of seconds after which the state fails.
        timeout: Value = 60.into(),
    });

    /// Call a function until the comparison of its result with a value succeeds.
    ///
    ///     service.status:
    ///       loop.until_no_eval:
    ///         - args: [nginx]
    ///         - expected: True
    ///         - period: 1
    ///         - timeout: 30
    fn until_no_eval(UntilNoEval {
        /// The function.
        name: String,
        /// The expected value.
        expected: Value,
        /// The comparison: `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `contains`, `data.subdict_match`, or
        /// a function that takes the result and the expected value.
        compare_operator: String = "eq".into(),
        /// The number of seconds after which the state fails.
        timeout: Value = 60.into(),
        /// The number of seconds between two calls.
        period: Value = 1.into(),
        /// The number of seconds before the first call.
        init_wait: Value = 0.into(),
        /// The positional arguments of the function.
        args: Value = Value::Null,
        /// The named arguments of the function.
        kwargs: Option<Map> = None,
    });
}

/// The maximum number of seconds to wait: about 30 years, longer than any state waits.
const SECONDS_MAX: f64 = 1e9;

fn seconds(value: &Value) -> Duration {
    let seconds = value.as_float().unwrap_or_default();
    Duration::try_from_secs_f64(seconds.clamp(0.0, SECONDS_MAX)).unwrap_or_default()
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_))
}

fn period_and_timeout(period: &Value, timeout: &Value) -> Option<Ret> {
    let wrong = |what| Ret::failed(format!("{what} must be specified as a float in seconds"));
    match (is_number(period), is_number(timeout)) {
        (false, _) => Some(wrong("Period")),
        (_, false) => Some(wrong("Timeout")),
        _ => None,
    }
}

/// Calls `ask` repeatedly, with a pause after each call, until it returns a value or the timeout
/// expires.
fn repeated<T>(
    name: &str,
    period: &Value,
    timeout: &Value,
    mut ask: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let (begun, timeout) = (Instant::now(), seconds(timeout));
    while begun.elapsed() < timeout {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        pause(name, seconds(period));
    }
    Ok(None)
}

fn pause(name: &str, time: Duration) {
    let waiting = watch::waits(|| format!("{name} to return the expected value"));
    std::thread::sleep(time);
    drop(waiting);
}

/// Rewrites Python's `is None`, `is True` and `is False` to the lower case that Jinja expects.
fn as_jinja(condition: &str) -> String {
    let mut text = condition.to_owned();
    for word in ["None", "True", "False"] {
        for is in ["is ", "is not "] {
            let (theirs, ours) = (
                format!(" {is}{word}"),
                format!(" {is}{}", word.to_lowercase()),
            );
            text = text.replace(&theirs, &ours);
        }
    }
    text
}

fn holds(cx: &Exec, condition: &str, answer: Value) -> Result<bool, Error> {
    let text = format!("{{{{ 'yes' if ({}) else '' }}}}", as_jinja(condition));
    let variables = Map::new().with("m_ret", answer);
    let said = template::render(cx, "condition", &text, &cx.saltenv, variables)?;
    Ok(said == "yes")
}

fn until(cx: &Exec, args: Until) -> Result<Ret, Error> {
    let name = args.name.as_str();
    if !cx.has_function(name) {
        return Ok(Ret::failed(format!("Cannot find module {name}")));
    }
    let Some(condition) = args.condition.as_deref() else {
        return Ok(Ret::failed("An exit condition must be specified"));
    };
    if let Some(wrong) = period_and_timeout(&args.period, &args.timeout) {
        return Ok(wrong);
    }
    let would = Ret::would(format!("The execution module {name} will be run"));
    cx.apply(would, || {
        let given = args.m_args.as_list().unwrap_or_default();
        let met = repeated(name, &args.period, &args.timeout, || {
            let answer = cx.call(
                name,
                given.to_vec(),
                args.m_kwargs.clone().unwrap_or_default(),
            )?;
            Ok(holds(cx, condition, answer)?.then_some(()))
        })?;
        Ok(match met {
            Some(()) => Ret::ok(format!("Condition {condition} was met")),
            None => Ret::failed(format!("Timed out while waiting for condition {condition}")),
        })
    })
}

/// Compares a result with the expected value. An operator that is not built in is called as a
/// function.
fn compared(cx: &Exec, operator: &str, answer: &Value, expected: &Value) -> Result<bool, Error> {
    Ok(match operator {
        "eq" => answer == expected,
        "ne" => answer != expected,
        "lt" => answer < expected,
        "le" => answer <= expected,
        "gt" => answer > expected,
        "ge" => answer >= expected,
        "contains" => match answer {
            Value::Map(map) => map.contains_value(expected),
            Value::Str(text) => text.contains(&*expected.to_text()),
            other => other.as_list().is_some_and(|all| all.contains(expected)),
        },
        "data.subdict_match" => target::subdict_match(answer, &expected.to_text()),
        function => cx
            .call(function, vec![answer.clone(), expected.clone()], Map::new())?
            .is_true(),
    })
}

/// Returns the class of an error as Python prints it.
fn python_class(error: &Error) -> &'static str {
    match error.problem() {
        Problem::Refused(_) | Problem::Raised { .. } => {
            "<class 'salt.exceptions.CommandExecutionError'>"
        }
        Problem::Io { .. } | Problem::Read { .. } => "<class 'OSError'>",
        Problem::Argument { .. } => "<class 'salt.exceptions.SaltInvocationError'>",
        Problem::Missing(_) | Problem::Unexpected(_) => "<class 'TypeError'>",
        Problem::NotAvailable(_) => "<class 'KeyError'>",
    }
}

const OPERATORS: [&str; 8] = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "contains",
    "data.subdict_match",
];

fn until_no_eval(cx: &Exec, args: UntilNoEval) -> Result<Ret, Error> {
    let (name, operator) = (args.name.as_str(), args.compare_operator.as_str());
    let wrong = if !cx.has_function(name) {
        Some(Ret::failed(format!(
            "Module.function \"{name}\" is unavailable."
        )))
    } else if let Some(wrong) = period_and_timeout(&args.period, &args.timeout) {
        Some(wrong)
    } else if !OPERATORS.contains(&operator) && !cx.has_function(operator) {
        Some(Ret::failed(format!(
            "Invalid operator \"{operator}\" supplied."
        )))
    } else {
        None
    };
    if cx.test {
        // Salt returns this in test mode even if the arguments are not valid.
        let expected = python::str(&args.expected);
        return Ok(Ret::would(format!(
            "Would have waited for \"{name}\" to produce \"{expected}\"."
        )));
    }
    if let Some(wrong) = wrong {
        return Ok(wrong);
    }
    if args.init_wait.is_true() {
        pause(name, seconds(&args.init_wait));
    }
    let given = args.args.as_list().unwrap_or_default();
    let mut attempts = 0;
    let met = repeated(name, &args.period, &args.timeout, || {
        attempts += 1;
        let answer = match cx.call(
            name,
            given.to_vec(),
            args.kwargs.clone().unwrap_or_default(),
        ) {
            Ok(answer) => answer,
            Err(error) => return Ok(Some(Err(error))),
        };
        let is_good = compared(cx, operator, &answer, &args.expected)?;
        Ok(is_good.then_some(Ok(())))
    })?;
    Ok(match met {
        Some(Ok(())) => Ret::ok(format!(
            "Call provided the expected results in {attempts} attempts"
        )),
        Some(Err(error)) => Ret::failed(format!(
            "Exception occurred while executing {name}: {}:{error}",
            python_class(&error)
        )),
        None => Ret::failed(format!(
            "Call did not produce the expected result after {attempts} attempts"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_python_hold() {
        let cx = crate::testing::exec();
        let answer =
            value::json::read(r#"[{"state": "InService", "n": 3, "none": null}]"#).unwrap();
        for (condition, is) in [
            ("m_ret[0]['state'] == 'InService'", true),
            ("m_ret[0]['n'] > 3", false),
            ("m_ret[0]['none'] is None and 'state' in m_ret[0]", true),
            ("m_ret[0].get('none') is not None", false),
            ("not m_ret", false),
        ] {
            assert_eq!(
                holds(&cx, condition, answer.clone()).unwrap(),
                is,
                "{condition}"
            );
        }
        assert!(holds(&cx, "lambda x: x", answer).is_err());
    }
}
