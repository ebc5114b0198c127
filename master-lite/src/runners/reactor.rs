//! The `reactor` runner: shows the rules and their reactions, explains them, and tries rules out.

use std::sync::Arc;

use reactor::{Actor, Place, Reaction, Rule, State, Tried};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{reactor_of, runs, unreadable};
use crate::cluster::Cluster;
use crate::reactor::{Reactor, cursor};
use crate::store::{self, Event, Store};

state::exec_module! {
    /// Rules that react to events.
    mod reactor;

    /// Return the rules.
    ///
    ///     salt-run reactor.list
    fn list(List {
        /// Accepted for compatibility with Salt.
        saltenv: String = "base".into(),
        /// Accepted for compatibility with Salt.
        test: Value = Value::Null,
    });

    /// Add a rule. It is lost when the master ends.
    ///
    ///     salt-run reactor.add 'myapp/*' /srv/reactor/app.sls
    fn add(Add {
        /// The glob that matches tags.
        event: String,
        /// The rule's SLS files.
        reactors: Value,
        /// Accepted for compatibility with Salt.
        saltenv: String = "base".into(),
        /// Accepted for compatibility with Salt.
        test: Value = Value::Null,
    });

    /// Remove a rule. It is back after a restart if the configuration has it.
    ///
    ///     salt-run reactor.delete 'myapp/*'
    fn delete(Delete {
        /// The glob that matches tags.
        event: String,
        /// Accepted for compatibility with Salt.
        saltenv: String = "base".into(),
        /// Accepted for compatibility with Salt.
        test: Value = Value::Null,
    });

    /// Return whether this master reacts to events.
    ///
    ///     salt-run reactor.is_leader
    fn is_leader(IsLeader {});

    /// Set whether this master reacts to events.
    ///
    ///     salt-run reactor.set_leader
    fn set_leader(SetLeader {
        /// True if it reacts.
        value: bool = true,
    });

    /// Set whether reactions are executed or only observed. Without an argument, return the
    /// setting.
    ///
    ///     salt-run reactor.enforce False
    fn enforce(Enforce {
        /// True to execute reactions.
        value: Option<bool> = None,
    });

    /// Return the last reactions, the newest first.
    ///
    ///     salt-run reactor.history count=5
    fn history(History {
        /// The maximum number of reactions.
        count: i64 = 50,
        /// Only reactions of the rule with this glob.
        rule: Option<String> = None,
    });

    /// Return the reactions that failed, with the rendered text of their files.
    ///
    ///     salt-run reactor.failed
    fn failed(Failed {
        /// The number of the event whose reactions are removed, or true to remove all.
        clear: Value = Value::Null,
    });

    /// Explain the reaction of each rule to an event, or why there is none.
    ///
    ///     salt-run reactor.explain myapp/deployed
    fn explain(Explain {
        /// The event's number, or a tag.
        event: Value,
    });

    /// Show the reaction of a rule to an event, without executing it.
    ///
    ///     salt-run reactor.test 'myapp/*' 17
    fn test(Test {
        /// The rule's glob, or an SLS file.
        rule: String,
        /// A file with the event's `tag` and `data` as JSON, or that JSON, or the number of an
        /// event.
        event: Value,
    });

    /// React to an event of the log again.
    ///
    ///     salt-run reactor.replay 17
    fn replay(Replay {
        /// The number of the event.
        sequence: i64,
        /// Only the rule with this glob.
        rule: Option<String> = None,
    });
}

/// Returns the reactor of this master. In a cluster this must be the leader, which reacts for all.
fn leading(cx: &Exec) -> Result<Arc<Reactor>, Error> {
    let cluster = runs(cx)?.cluster.as_ref();
    match cluster.and_then(Cluster::leader_elsewhere) {
        None => reactor_of(cx),
        Some(leader) => Err(Error::refused(format!(
            "{leader} leads the cluster and reacts to events: run this function there"
        ))),
    }
}

fn list(cx: &Exec, _args: List) -> Result<Value, Error> {
    let rules = leading(cx)?.rules();
    Ok(Value::list(rules.iter().map(Rule::to_value)))
}

fn reply(status: bool, comment: &str) -> Value {
    let said = Map::new().with("status", status);
    said.with("comment", comment).into()
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let rule = Rule::new(&args.event, &args.reactors);
    let added = smol::block_on(leading(cx)?.add_rule(rule));
    Ok(match added.map_err(unreadable)? {
        true => reply(true, "Reactor added."),
        false => reply(false, "Reactor already exists."),
    })
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let deleted = smol::block_on(leading(cx)?.delete_rule(&args.event));
    Ok(match deleted.map_err(unreadable)? {
        true => reply(true, "Reactor deleted."),
        false => reply(false, "Reactor does not exists."),
    })
}

fn is_leader(cx: &Exec, _args: IsLeader) -> Result<Value, Error> {
    Ok(reactor_of(cx)?.is_leader().into())
}

fn set_leader(cx: &Exec, args: SetLeader) -> Result<Value, Error> {
    let reactor = leading(cx)?;
    reactor.set_leader(args.value);
    Ok(reactor.is_leader().into())
}

fn enforce(cx: &Exec, args: Enforce) -> Result<Value, Error> {
    let reactor = leading(cx)?;
    if let Some(value) = args.value {
        smol::block_on(reactor.enforce(value)).map_err(unreadable)?;
    }
    Ok((!reactor.is_observing()).into())
}

/// Returns all stored reactions, the newest first.
fn kept(store: &Store) -> Result<Vec<Reaction>, Error> {
    let read = || -> Result<Vec<Reaction>, store::Error> {
        let mut kept = Vec::new();
        for reaction in store.reactions(None)? {
            let (place, row) = reaction?;
            kept.extend(Reaction::from_row(place, &row));
        }
        Ok(kept)
    };
    let mut kept = read().map_err(unreadable)?;
    value::sorted::sort_by_key(&mut kept, |one| {
        (u64::MAX - one.place.sequence, one.place.rule)
    });
    Ok(kept)
}

fn to_list<'a>(reactions: impl Iterator<Item = &'a Reaction>) -> Value {
    Value::list(reactions.map(|reaction| reaction.to_map().into()))
}

fn history(cx: &Exec, args: History) -> Result<Value, Error> {
    let kept = kept(&runs(cx)?.store)?;
    let of_rule = |one: &&Reaction| args.rule.as_ref().is_none_or(|rule| *rule == one.rule);
    let count = usize::try_from(args.count).unwrap_or_default();
    Ok(to_list(kept.iter().filter(of_rule).take(count)))
}

fn failed(cx: &Exec, args: Failed) -> Result<Value, Error> {
    let mut failed = kept(&runs(cx)?.store)?;
    let reactor = reactor_of(cx)?;
    failed.retain(|one| matches!(one.state, State::Failed | State::Unknown | State::Stopped));
    let is_meant = |one: &&Reaction| match &args.clear {
        Value::Int(sequence) => u64::try_from(*sequence) == Ok(one.place.sequence),
        other => other.is_true(),
    };
    for one in failed.iter().filter(is_meant) {
        smol::block_on(reactor.forget_reaction(one.place)).map_err(unreadable)?;
    }
    failed.retain(|one| !is_meant(&one));
    Ok(to_list(failed.iter()))
}

fn explain(cx: &Exec, args: Explain) -> Result<Value, Error> {
    let (store, reactor) = (&runs(cx)?.store, leading(cx)?);
    let found = match &args.event {
        Value::Int(sequence) => event(store, *sequence)?,
        tag => newest(store, &tag.to_text())?,
    };
    let Some(event) = found else {
        let rules = matching(&reactor, &args.event.to_text());
        let text = "the log has no such event; these rules match the tag";
        return Ok(Map::new().with("comment", text).with("rules", rules).into());
    };
    let rules = reactor.rules();
    let rules = rules.iter().map(|rule| {
        let answer = explained(store, rule, &event)?;
        Ok::<_, Error>((rule.glob.as_str(), answer))
    });
    let rules: Map = rules
        .collect::<Result<Vec<(&str, Value)>, Error>>()?
        .into_iter()
        .collect();
    Ok(Map::new()
        .with("sequence", event.sequence)
        .with("tag", event.tag.as_str())
        .with("data", event.stamped())
        .with("rules", rules)
        .into())
}

fn matching(reactor: &Reactor, tag: &str) -> Value {
    let rules = reactor.rules();
    let matching = rules.iter().filter(|rule| rule.matches(tag));
    Value::list(matching.map(Rule::to_value))
}

/// Returns the reaction of a rule to an event, or the reason why there is none.
fn explained(store: &Store, rule: &Rule, event: &Event) -> Result<Value, Error> {
    let place = Place {
        rule: rule.number(),
        sequence: event.sequence,
    };
    if !rule.matches(&event.tag) {
        return Ok("its pattern does not match the tag".into());
    }
    if let Some(row) = store.reaction(place).map_err(unreadable)? {
        let reaction = Reaction::from_row(place, &row);
        return Ok(reaction.map(|one| one.to_map()).unwrap_or_default().into());
    }
    if reactor::is_own(&event.data) {
        return Ok("the event was sent by the reactor itself".into());
    }
    let read = store.cursor(&cursor(rule)).map_err(unreadable)?;
    Ok(match read.unwrap_or_default() >= event.sequence {
        true => {
            "the rule did not exist yet, this master was not the leader, or the event is too old"
        }
        false => "the event is still waiting to be processed",
    }
    .into())
}

fn event(store: &Store, sequence: i64) -> Result<Option<Event>, Error> {
    let sequence = u64::try_from(sequence).unwrap_or_default();
    store.event(sequence).map_err(unreadable)
}

/// The maximum number of events that are searched for a tag.
const LOOKED_THROUGH: u64 = 10_000;

/// Returns the newest event with a tag, from the last [`LOOKED_THROUGH`] events.
fn newest(store: &Store, tag: &str) -> Result<Option<Event>, Error> {
    let find = || -> Result<Option<Event>, store::Error> {
        let (first, next) = store.log()?;
        let from = first.max(next.saturating_sub(LOOKED_THROUGH));
        let mut newest = None;
        for event in store.events(from)? {
            let event = event?;
            if event.tag == tag {
                newest = Some(event);
            }
        }
        Ok(newest)
    };
    find().map_err(unreadable)
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    let (store, reactor) = (&runs(cx)?.store, leading(cx)?);
    let (tag, data) = match args.event {
        Value::Int(sequence) => {
            let event = event(store, sequence)?;
            let text = || format!("the log has no event {sequence}");
            let event = event.ok_or_else(|| Error::argument("event", text()))?;
            (event.tag.clone(), event.stamped())
        }
        other => reactor::given(&other)?,
    };
    let tried = Tried {
        rules: &reactor.rules(),
        rule: &args.rule,
        tag: &tag,
        data: &data,
    };
    tried.reaction(&reactor.context())
}

fn replay(cx: &Exec, args: Replay) -> Result<Value, Error> {
    let (store, reactor) = (&runs(cx)?.store, leading(cx)?);
    let Some(event) = event(store, args.sequence)? else {
        let text = format!("the log has no event {}", args.sequence);
        return Err(Error::argument("sequence", text));
    };
    let mut rules = reactor.rules();
    rules.retain(|rule| {
        rule.matches(&event.tag) && args.rule.as_ref().is_none_or(|glob| *glob == rule.glob)
    });
    let mut done = Vec::new();
    for rule in &rules {
        let reaction = smol::block_on(reactor.replay(rule, &event)).map_err(unreadable)?;
        done.extend(reaction);
    }
    Ok(to_list(done.iter()))
}
