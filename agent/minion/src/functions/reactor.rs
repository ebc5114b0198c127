//! The `reactor` execution module, named as a master's runner: the rules of this minion, what they have done, and trying them.

use ::reactor::{Reaction, Rule, State, Tried, given};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::reactor::kept::{Kept, Row};
use crate::watch;

state::exec_module! {
    /// Rules that answer the events of this machine.
    mod reactor;

    /// Return the rules.
    fn list(List {
        /// Accepted for Salt's sake.
        saltenv: String = "base".into(),
        /// Accepted for Salt's sake.
        test: Value = Value::Null,
    });

    /// Return the newest reactions, the newest first.
    fn history(History {
        /// How many.
        count: i64 = 50,
        /// Only those of this rule's pattern.
        rule: Option<String> = None,
    });

    /// Return the newest reactions that failed, with what their files rendered to.
    fn failed(Failed {
        /// How many.
        count: i64 = 50,
    });

    /// Show what a rule would do about an event; nothing is done.
    fn test(Test {
        /// A rule's pattern, or an SLS file.
        rule: String,
        /// A file with the event's `tag` and `data` as JSON, or that JSON.
        event: Value,
    });
}

fn rules(cx: &Exec) -> Result<Vec<Rule>, Error> {
    let (rules, faults) = ::reactor::rules(cx.opts());
    match faults.first() {
        Some(fault) if rules.is_empty() => Err(Error::refused(fault.clone())),
        _ => Ok(rules),
    }
}

fn list(cx: &Exec, _args: List) -> Result<Value, Error> {
    Ok(Value::list(rules(cx)?.iter().map(Rule::shown)))
}

/// Reactions that are kept, the newest first.
fn kept(cx: &Exec, count: i64, is_meant: impl Fn(&Reaction) -> bool) -> Value {
    let all = Kept::of(cx.opts()).all().into_iter().rev();
    let reactions = all.filter_map(|(_, row)| match row {
        Row::Reaction(reaction) => Some(reaction),
        Row::Event(_) => None,
    });
    let count = usize::try_from(count).unwrap_or_default();
    let meant = reactions.filter(is_meant).take(count);
    Value::list(meant.map(|one| one.shown().into()))
}

fn history(cx: &Exec, args: History) -> Result<Value, Error> {
    let is_meant = |one: &Reaction| args.rule.as_ref().is_none_or(|rule| *rule == one.rule);
    Ok(kept(cx, args.count, is_meant))
}

fn failed(cx: &Exec, args: Failed) -> Result<Value, Error> {
    let is_meant =
        |one: &Reaction| matches!(one.state, State::Failed | State::Unknown | State::Stopped);
    Ok(kept(cx, args.count, is_meant))
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    let (tag, data) = given(&args.event)?;
    let tried = Tried {
        rules: &rules(cx)?,
        rule: &args.rule,
        tag: &tag,
        data: &data,
    };
    tried.shown(&watch::context(cx.opts()))
}
