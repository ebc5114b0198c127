//! The runners and wheel functions that users of `external_auth` may call: the rules that begin with
//! `@`.

use value::Value;

use super::Access;
use super::caller::Caller;
use super::rules::{allows, only, several};
use crate::refusals::NotServed;

/// The kinds of functions of the master that a user may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Runner,
    Wheel,
}

impl Form {
    fn word(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Wheel => "wheel",
        }
    }

    /// Returns whether a rule's name, without the `@`, is the one of this whole kind.
    fn is_named(self, name: &str) -> bool {
        name.strip_suffix('s').unwrap_or(name) == self.word()
    }
}

/// The refusal of a name that is not `MODULE.FUNCTION`. It is Salt's sentence.
const SYNTAX: &str = "A command invocation error occurred: Check syntax.";
/// The refusal of a user of this machine without a password of `external_auth`.
const ROOTS: &str = "only root and the user that the master runs as may do that";
/// The maximum number of characters of a function's name that the log repeats.
const NAME_MAX: usize = 64;

impl Access {
    /// Checks that a caller may call a runner or a wheel function with these arguments.
    pub(crate) fn may_call(
        &self,
        caller: &Caller,
        form: Form,
        fun: &str,
        arg: &[Value],
    ) -> Result<(), NotServed> {
        let refused = |why: String| {
            let name: String = fun.chars().take(NAME_MAX).collect();
            let line = format!("refused the {} {name:?}: {why}", form.word());
            self.refusals.log(caller.name().unwrap_or_default(), line);
            ("refused", why)
        };
        match caller {
            Caller::Root => Ok(()),
            Caller::Local(_) => Err(refused(ROOTS.to_owned())),
            Caller::User(user) => {
                let allowed = is_allowed(&user.rules, form, fun, arg);
                allowed.map_err(|wrong| {
                    refused(match wrong {
                        Wrong::Syntax => SYNTAX.to_owned(),
                        Wrong::Forbidden => format!(
                            "Authentication failure of type \"{}\" occurred for user {}.",
                            user.shown, user.name
                        ),
                    })
                })
            }
        }
    }
}

/// The reason why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Syntax,
    Forbidden,
}

/// Checks a call against a user's rules.
fn is_allowed(rules: &[Value], form: Form, fun: &str, arg: &[Value]) -> Result<(), Wrong> {
    if rules.is_empty() {
        return Err(Wrong::Forbidden);
    }
    let (module, name) = parts(fun).ok_or(Wrong::Syntax)?;
    let is_allowed = |rule: &Value| match only(rule) {
        None => {
            let text = rule.as_str().and_then(|text| text.strip_prefix('@'));
            text.is_some_and(|text| text == module || form.is_named(text))
        }
        Some((key, conditions)) => {
            let Some(key) = key.strip_prefix('@') else {
                return false;
            };
            let called = match key == module {
                true => name,
                false if form.is_named(key) => fun,
                false => return false,
            };
            several(conditions)
                .iter()
                .any(|one| allows(one, called, arg))
        }
    };
    match rules.iter().any(is_allowed) {
        true => Ok(()),
        false => Err(Wrong::Forbidden),
    }
}

/// Splits `MODULE.FUNCTION`.
fn parts(fun: &str) -> Option<(&str, &str)> {
    let (module, name) = fun.split_once('.')?;
    let is_plain = !module.is_empty() && !name.is_empty() && !name.contains('.');
    is_plain.then_some((module, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Map;

    fn rules(json: &str) -> Vec<Value> {
        value::json::read(json).unwrap().as_list().unwrap().to_vec()
    }

    fn may(json: &str, form: Form, fun: &str) -> bool {
        is_allowed(&rules(json), form, fun, &[]).is_ok()
    }

    #[test]
    fn a_rule_names_a_module_or_a_whole_kind() {
        for (rule, runner, wheel) in [
            (r#"["@runner"]"#, true, false),
            (r#"["@runners"]"#, true, false),
            (r#"["@wheel"]"#, false, true),
            (r#"["@wheels"]"#, false, true),
            (r#"["@jobs"]"#, true, true),
            (r#"["@job"]"#, false, false),
            (r#"["@"]"#, false, false),
            (
                r#"["runner", ".*", "jobs.*", "@jobs.*", "@.*"]"#,
                false,
                false,
            ),
            ("[]", false, false),
        ] {
            assert_eq!(may(rule, Form::Runner, "jobs.active"), runner, "{rule}");
            assert_eq!(may(rule, Form::Wheel, "jobs.active"), wheel, "{rule}");
        }
    }

    #[test]
    fn a_rule_may_list_functions() {
        let below = r#"[{"@jobs": ["active", "list_.*"]}]"#;
        assert!(may(below, Form::Runner, "jobs.active"));
        assert!(may(below, Form::Runner, "jobs.list_jobs"));
        assert!(!may(below, Form::Runner, "jobs.last_run"));
        assert!(!may(below, Form::Runner, "manage.active"));
        let of_all = r#"[{"@runner": ["manage.*"]}, {"@wheels": "key.list_all"}]"#;
        assert!(may(of_all, Form::Runner, "manage.up"));
        assert!(!may(of_all, Form::Runner, "jobs.active"));
        assert!(may(of_all, Form::Wheel, "key.list_all"));
        assert!(!may(of_all, Form::Wheel, "key.accept"));
        assert!(!may(
            r#"[{"@jobs": "active", "@key": "accept"}]"#,
            Form::Runner,
            "jobs.active"
        ));
    }

    #[test]
    fn a_rule_may_be_about_the_arguments() {
        let list = rules(r#"[{"@jobs": [{"lookup_jid": [{"args": ["2026.*"]}]}]}]"#);
        let call = |arg: &[Value]| is_allowed(&list, Form::Runner, "jobs.lookup_jid", arg).is_ok();
        assert!(call(&["20261120".into()]));
        assert!(!call(&["20251120".into()]));
        assert!(!call(&[]));
        let named = Map::new().with("__kwarg__", true).with("outputter", "x");
        assert!(!call(&["20261120".into(), named.into()]));
    }

    #[test]
    fn a_name_has_exactly_one_dot() {
        let all = rules(r#"["@runner", "@wheel"]"#);
        for fun in ["jobs", "jobs.active.x", "jobs.", ".active", ""] {
            let refused = is_allowed(&all, Form::Runner, fun, &[]);
            assert_eq!(refused, Err(Wrong::Syntax), "{fun:?}");
        }
    }
}
