//! The `reactor` execution module, named like a master's runner: it shows the rules of this minion
//! and their reactions, and tries rules.

use ::reactor::{Reaction, Rule, State, Tried, given};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::beacon_loop;
use crate::reactor::kept::{ReactorFolder, Row};

state::exec_module! {
    /// Rules that answer the events of this machine.
    mod reactor;

    /// Return the rules.
    ///
    ///     salt-call reactor.list
    fn list(List {
        /// Accepted for compatibility with Salt.
        saltenv: String = "base".into(),
        /// Accepted for compatibility with Salt.
        test: Value = Value::Null,
    });

    /// Return the newest reactions, the newest first.
    ///
    ///     salt-call reactor.history count=5
    fn history(History {
        /// The maximum number of reactions.
        count: i64 = 50,
        /// The pattern of the rule whose reactions are returned.
        rule: Option<String> = None,
    });

    /// Return the newest reactions that failed, with the rendered text of their files.
    ///
    ///     salt-call reactor.failed
    fn failed(Failed {
        /// The maximum number of reactions.
        count: i64 = 50,
        /// The number of the event whose reaction is removed, or true to remove all.
        clear: Value = Value::Null,
    });

    /// Let reactions act, or only observe them. Without an argument, return whether they act.
    ///
    ///     salt-call reactor.enforce False
    fn enforce(Enforce {
        /// True to let reactions act, false to only observe them.
        value: Option<bool> = None,
    });

    /// Return the reaction of each rule to an event, or why there is none.
    ///
    ///     salt-call reactor.explain myapp/deployed
    fn explain(Explain {
        /// The event's number, or a tag.
        event: Value,
    });

    /// Return what a rule would do about an event, without doing it.
    ///
    ///     salt-call reactor.test 'myapp/*' '{tag: myapp/deployed, data: {version: 2}}'
    fn test(Test {
        /// The pattern of a rule, or an SLS file.
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
    Ok(Value::list(rules(cx)?.iter().map(Rule::to_value)))
}

/// Returns the reactions that are kept, the newest first.
fn kept(cx: &Exec, count: i64, is_meant: impl Fn(&Reaction) -> bool) -> Value {
    let all = ReactorFolder::new(cx.opts()).all().into_iter().rev();
    let reactions = all.filter_map(|(_, row)| match row {
        Row::Reaction(reaction) => Some(reaction),
        Row::Event(_) => None,
    });
    let count = usize::try_from(count).unwrap_or_default();
    let meant = reactions.filter(is_meant).take(count);
    Value::list(meant.map(|one| one.to_map().into()))
}

fn history(cx: &Exec, args: History) -> Result<Value, Error> {
    let is_meant = |one: &Reaction| args.rule.as_ref().is_none_or(|rule| *rule == one.rule);
    Ok(kept(cx, args.count, is_meant))
}

fn failed(cx: &Exec, args: Failed) -> Result<Value, Error> {
    let is_bad =
        |one: &Reaction| matches!(one.state, State::Failed | State::Unknown | State::Stopped);
    let is_cleared = |one: &Reaction| match &args.clear {
        Value::Int(sequence) => u64::try_from(*sequence) == Ok(one.place.sequence),
        other => other.is_true(),
    };
    let files = ReactorFolder::new(cx.opts());
    for (place, row) in files.all() {
        if matches!(&row, Row::Reaction(one) if is_bad(one) && is_cleared(one)) {
            files.remove(place);
        }
    }
    Ok(kept(cx, args.count, is_bad))
}

fn enforce(cx: &Exec, args: Enforce) -> Result<Value, Error> {
    let files = ReactorFolder::new(cx.opts());
    if let Some(value) = args.value {
        let kept = files.enforce(value);
        kept.map_err(|error| Error::refused(format!("cannot store the setting: {error}")))?;
    }
    Ok((!files.is_observing()).into())
}

fn explain(cx: &Exec, args: Explain) -> Result<Value, Error> {
    let mut all = ReactorFolder::new(cx.opts()).all();
    let tag_of = |row: &Row| match row {
        Row::Event(event) => event.tag.clone(),
        Row::Reaction(reaction) => reaction.tag.clone(),
    };
    let newest = all.iter().rev().find(|(place, row)| match &args.event {
        Value::Int(sequence) => u64::try_from(*sequence) == Ok(place.sequence),
        tag => tag_of(row) == tag.to_text(),
    });
    let Some((sequence, tag)) = newest.map(|(place, row)| (place.sequence, tag_of(row))) else {
        let tag = args.event.to_text();
        let rules = rules(cx)?.into_iter().filter(|rule| rule.matches(&tag));
        let rules = rules.map(|rule| rule.to_value());
        let text = "no such event is stored: only events that match a rule are stored; `rules` lists the rules that match this tag";
        let explained = Map::new().with("comment", text);
        return Ok(explained.with("rules", Value::list(rules)).into());
    };
    all.retain(|(place, _)| place.sequence == sequence);
    let explained = rules(cx)?.into_iter().map(|rule| {
        let row = all.iter().find(|(place, _)| place.rule == rule.number());
        let said: Value = match row {
            Some((_, Row::Reaction(reaction))) => reaction.to_map().into(),
            Some((_, Row::Event(_))) => "the event is queued".into(),
            None if rule.matches(&tag) => {
                "the rule did not exist yet, or its reaction was deleted because of its age".into()
            }
            None => "its pattern does not match the tag".into(),
        };
        (Value::from(rule.glob), said)
    });
    let explained: Map = explained.collect();
    let shown = Map::new().with("sequence", sequence).with("tag", tag);
    Ok(shown.with("rules", explained).into())
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    let (tag, data) = given(&args.event)?;
    let tried = Tried {
        rules: &rules(cx)?,
        rule: &args.rule,
        tag: &tag,
        data: &data,
    };
    tried.reaction(&beacon_loop::context(cx.opts()))
}
