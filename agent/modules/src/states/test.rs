//! The `test` state module.

use std::sync::PoisonError;

use state::exec::Exec;
use state::facts::Effects;
use state::low::{LowChunk, RequisiteKind};
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Provide states that only pretend to do something, to try out requisites and outputs.
    #[facts(effects = Effects::None, free_arguments = true)]
    mod test;

    /// Do nothing, successfully.
    ///
    ///     begin:
    ///       test.nop
    fn nop(Nop {
        /// Any name.
        name: Value,
        ..kwargs
    });

    /// Succeed, without changes.
    ///
    ///     nothing to do:
    ///       test.succeed_without_changes
    fn succeed_without_changes(SucceedWithoutChanges {
        /// Any name.
        name: Value,
        ..kwargs
    });

    /// Fail, without changes.
    ///
    ///     unsupported system:
    ///       test.fail_without_changes
    fn fail_without_changes(FailWithoutChanges {
        /// Any name.
        name: Value,
        ..kwargs
    });

    /// Succeed, with changes.
    ///
    ///     trigger the watchers:
    ///       test.succeed_with_changes
    fn succeed_with_changes(SucceedWithChanges {
        /// Any name.
        name: Value,
        ..kwargs
    });

    /// Fail, with changes.
    ///
    ///     trigger a failure:
    ///       test.fail_with_changes
    fn fail_with_changes(FailWithChanges {
        /// Any name.
        name: Value,
        ..kwargs
    });

    /// Return the given result, changes and comment.
    ///
    ///     try a result:
    ///       test.configurable_test_state:
    ///         - result: True
    ///         - changes: False
    ///         - comment: tried
    fn configurable_test_state(ConfigurableTestState {
        /// Any name.
        name: Value,
        /// Whether to report changes: True, False or Random.
        changes: Value = true.into(),
        /// The result: True, False or Random.
        result: Value = true.into(),
        /// The comment.
        comment: Value = "".into(),
        /// One warning, or a list of them.
        warnings: Value = Value::Null,
        /// True to allow a failure in test mode.
        allow_test_mode_failure: bool = false,
    });

    /// Return a text as the comment.
    ///
    ///     remark:
    ///       test.show_notification:
    ///         - text: The database moves on Sunday.
    fn show_notification(ShowNotification {
        /// Any name.
        name: Value,
        /// The text.
        text: Value = Value::Null,
        ..kwargs
    });

    /// Return that a watched state changed something.
    ///
    ///     observe:
    ///       test.succeed_without_changes:
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// Any name.
        name: Value,
        /// The name of the watching function.
        sfun: Value = Value::Null,
        ..kwargs
    });

    /// Check that keys of the pillar exist and have the right type.
    ///
    ///     needed pillar:
    ///       test.check_pillar:
    ///         - present: [shop]
    ///         - integer: [shop:port]
    fn check_pillar(CheckPillar {
        /// Any name.
        name: Value,
        /// The keys that must exist.
        present: Value = Value::Null,
        /// The keys that must be booleans.
        boolean: Value = Value::Null,
        /// The keys that must be integers.
        integer: Value = Value::Null,
        /// The keys that must be texts.
        string: Value = Value::Null,
        /// The keys that must be lists.
        listing: Value = Value::Null,
        /// The keys that must be dictionaries.
        dictionary: Value = Value::Null,
        /// True to list the keys with the right type too.
        verbose: bool = false,
    });
}

fn pretended() -> Value {
    let change = Map::new()
        .with("old", "Unchanged")
        .with("new", "Something pretended to change");
    Map::new().with("testing", change).into()
}

fn comment(kwargs: &Map, default: &str) -> String {
    kwargs
        .get("comment")
        .map_or_else(|| default.to_owned(), Value::to_text)
}

fn nop(_cx: &Exec, _args: Nop) -> Result<Ret, Error> {
    Ok(Ret::ok("Success!"))
}

fn succeed_without_changes(_cx: &Exec, args: SucceedWithoutChanges) -> Result<Ret, Error> {
    Ok(Ret::ok(comment(&args.kwargs, "Success!")))
}

fn fail_without_changes(cx: &Exec, args: FailWithoutChanges) -> Result<Ret, Error> {
    Ok(Ret::failed(if cx.test {
        "If we weren't testing, this would be a failure!".into()
    } else {
        comment(&args.kwargs, "Failure!")
    }))
}

fn succeed_with_changes(cx: &Exec, args: SucceedWithChanges) -> Result<Ret, Error> {
    let would = Ret::would("If we weren't testing, this would be successful with changes");
    cx.apply(would.changes(pretended()), || {
        Ok(Ret::ok(comment(&args.kwargs, "Success!")).changes(pretended()))
    })
}

fn fail_with_changes(cx: &Exec, args: FailWithChanges) -> Result<Ret, Error> {
    let would = Ret::would("If we weren't testing, this would be failed with changes");
    cx.apply(would.changes(pretended()), || {
        Ok(Ret::failed(comment(&args.kwargs, "Failure!")).changes(pretended()))
    })
}

fn configurable_test_state(cx: &Exec, args: ConfigurableTestState) -> Result<Ret, Error> {
    let changed = chosen("changes", &args.changes)?;
    let result = chosen("result", &args.result)?;
    let mut ret = Ret {
        result: Some(result),
        ..Ret::ok(args.comment.to_text())
    };
    if changed {
        ret.changes = pretended();
    }
    ret.warnings = match &args.warnings {
        Value::Null => Vec::new(),
        Value::Str(text) => vec![text.to_string()],
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        _ => return Err("You have specified the state option 'warnings' with invalid arguments. It must be a string or a list of strings".into()),
    };
    if cx.test {
        ret.result = if args.allow_test_mode_failure && args.result.as_bool() == Some(false) {
            Some(false)
        } else {
            (args.changes.as_bool() == Some(false)).then_some(true)
        };
        if ret.comment.is_empty() {
            ret.comment = "This is a test".into();
        }
    }
    Ok(ret)
}

/// Returns the boolean in an argument. Random gives either value by chance.
fn chosen(option: &str, given: &Value) -> Result<bool, Error> {
    match given {
        Value::Bool(truth) => Ok(*truth),
        other if other.to_text().eq_ignore_ascii_case("random") => {
            Ok(value::random::below(2)? == 1)
        }
        _ => Err(Error::refused(format!(
            "You have specified the state option '{option}' with invalid arguments. It must be either True, False, or 'Random'"
        ))),
    }
}

fn show_notification(_cx: &Exec, args: ShowNotification) -> Result<Ret, Error> {
    if args.text.is_true() {
        Ok(Ret::ok(args.text.to_text()))
    } else {
        Err("Missing required argument text.".into())
    }
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let changes = args.kwargs.get("changes").cloned().unwrap_or_else(|| {
        Map::new()
            .with("Requisites with changes", watched(cx))
            .into()
    });
    let result = args.kwargs.get("result").map_or(Some(true), Value::as_bool);
    let ret = Ret::ok(comment(&args.kwargs, "Watch statement fired.")).changes(changes);
    Ok(Ret { result, ..ret })
}

/// Returns the watched chunks that changed something.
fn watched(cx: &Exec) -> Value {
    let (Some(low), Some(run)) = (&cx.chunk, &cx.run) else {
        return Value::list([]);
    };
    let running = run.running.lock().unwrap_or_else(PoisonError::into_inner);
    let watches = low
        .requisites
        .iter()
        .filter(|r| r.kind == RequisiteKind::Watch);
    let chunks = watches
        .flat_map(|r| &r.chunks)
        .filter_map(|place| run.lowstate.get(*place));
    let lows = chunks.map(|data| LowChunk::from_map(data.clone()));
    let changed = |low: &LowChunk| {
        let ret = running.get(&low.tag());
        ret.and_then(|ret| ret.get("changes"))
            .is_some_and(Value::is_true)
    };
    let changed = lows.filter(changed);
    Value::list(changed.map(|low| format!("{}: {}", low.state, low.id).into()))
}

/// The kinds of `check_pillar`, by the names of their Python types.
const KINDS: [&str; 6] = [
    "None",
    "<class 'bool'>",
    "<class 'int'>",
    "(<class 'str'>,)",
    "<class 'list'>",
    "<class 'dict'>",
];

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "<class 'bool'>" => matches!(value, Value::Bool(_)),
        "<class 'int'>" => matches!(value, Value::Int(_) | Value::Big(_) | Value::Bool(_)),
        "(<class 'str'>,)" => matches!(value, Value::Str(_)),
        "<class 'list'>" => matches!(value, Value::List(_)),
        "<class 'dict'>" => matches!(value, Value::Map(_)),
        _ => true,
    }
}

fn check_pillar(cx: &Exec, args: CheckPillar) -> Result<Ret, Error> {
    let lists = [
        args.present,
        args.boolean,
        args.integer,
        args.string,
        args.listing,
        args.dictionary,
    ];
    if !lists.iter().any(Value::is_true) {
        return Err("Missing required argument text.".into());
    }
    let pillar = Value::from(cx.pillar()?);
    let (mut fine, mut failed) = (Map::new(), Map::new());
    for (kind, keys) in KINDS.iter().zip(&lists) {
        for key in keys.texts() {
            match pillar.traverse(&key, ":").filter(|value| !value.is_null()) {
                None => failed.insert(key, Value::Null),
                Some(value) if !is_of(value, kind) => failed.insert(key, *kind),
                Some(_) if args.verbose => fine.insert(key, *kind),
                Some(_) => None,
            };
        }
    }
    Ok(Ret {
        result: Some(failed.is_empty()),
        ..Ret::ok(pillar_comment(&fine, &failed))
    })
}

fn pillar_comment(fine: &Map, failed: &Map) -> String {
    let mut comment = String::new();
    for (key, kind) in failed {
        comment += &match kind.as_str() {
            None => format!("Pillar key \"{}\" is missing.\n", key.to_text()),
            Some(kind) => format!("Pillar key \"{}\" is not {kind}.\n", key.to_text()),
        };
    }
    if !fine.is_empty() {
        comment += "Those keys passed the check:\n";
    }
    for (key, kind) in fine {
        comment += &format!("- {} ({})\n", key.to_text(), kind.to_text());
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, exec, exec_with, json};

    fn ran(function: &str, kwargs: &str, test: bool) -> (Option<bool>, String, bool) {
        let mut cx = exec();
        cx.test = test;
        let ret = apply(&cx, function, json(kwargs).with("name", "x")).unwrap();
        (ret.result, ret.comment, ret.changes.is_true())
    }

    #[test]
    fn results_comments_and_changes_are_salts() {
        for (function, kwargs, live, dry) in [
            (
                "nop",
                "{}",
                (Some(true), "Success!", false),
                (Some(true), "Success!", false),
            ),
            (
                "succeed_without_changes",
                r#"{"comment": "c"}"#,
                (Some(true), "c", false),
                (Some(true), "c", false),
            ),
            (
                "fail_without_changes",
                "{}",
                (Some(false), "Failure!", false),
                (
                    Some(false),
                    "If we weren't testing, this would be a failure!",
                    false,
                ),
            ),
            (
                "fail_with_changes",
                "{}",
                (Some(false), "Failure!", true),
                (
                    None,
                    "If we weren't testing, this would be failed with changes",
                    true,
                ),
            ),
            (
                "configurable_test_state",
                r#"{"result": false}"#,
                (Some(false), "", true),
                (None, "This is a test", true),
            ),
            (
                "configurable_test_state",
                r#"{"changes": false, "result": false, "allow_test_mode_failure": true}"#,
                (Some(false), "", false),
                (Some(false), "This is a test", false),
            ),
            (
                "show_notification",
                r#"{"text": "t"}"#,
                (Some(true), "t", false),
                (Some(true), "t", false),
            ),
        ] {
            let function = format!("test.{function}");
            for (wanted, test) in [(live, false), (dry, true)] {
                let wanted = (wanted.0, wanted.1.to_owned(), wanted.2);
                assert_eq!(
                    ran(&function, kwargs, test),
                    wanted,
                    "{function} {kwargs} test={test}"
                );
            }
        }
    }

    #[test]
    fn the_pillar_is_checked_key_by_key() {
        let cx = exec_with(Map::new(), json(r#"{"a": {"b": 1}, "s": "x"}"#));
        let kwargs = json(
            r#"{"name": "x", "present": "a:b", "string": ["s", "a"], "listing": ["n"], "verbose": true}"#,
        );
        let ret = apply(&cx, "test.check_pillar", kwargs).unwrap();
        assert_eq!(ret.result, Some(false));
        assert_eq!(
            ret.comment,
            "Pillar key \"a\" is not (<class 'str'>,).\nPillar key \"n\" is missing.\nThose keys passed the check:\n\
             - a:b (None)\n- s ((<class 'str'>,))\n"
        );
    }
}
