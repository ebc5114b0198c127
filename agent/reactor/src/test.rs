//! [`Tried`]: shows what a rule would make from an event, without doing it (`reactor.test`).

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

use crate::{Event, Place, Reaction, Rule, State, compile};

/// A rule that is tried.
#[derive(Debug)]
pub struct Tried<'a> {
    /// All rules.
    pub rules: &'a [Rule],
    /// The pattern of one of the rules, or an SLS file.
    pub rule: &'a str,
    /// The event's tag.
    pub tag: &'a str,
    /// The event's data.
    pub data: &'a Map,
}

impl Tried<'_> {
    /// Returns the reaction that would result in this context.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn reaction(&self, cx: &Exec) -> Result<Value, Error> {
        let rule = self.found()?;
        let compiled = compile(cx, &rule, self.tag, self.data);
        let event = Event {
            sequence: 0,
            tag: self.tag.to_owned(),
            data: Map::new(),
        };
        let place = Place {
            rule: rule.number(),
            sequence: 0,
        };
        let mut reaction = Reaction::new(place, &rule.glob, &event, 0, value::clock::now_ms());
        reaction.plan(&compiled.plan);
        (reaction.faults, reaction.rendered) = (compiled.faults, compiled.rendered);
        reaction.state = State::Observed;
        let shown = reaction.to_map();
        let shown = shown.with("matches", rule.matches(self.tag));
        Ok(shown.with("calls", reaction.calls()).into())
    }

    fn found(&self) -> Result<Rule, Error> {
        let mut rules = self.rules.iter();
        if let Some(rule) = rules.find(|rule| rule.glob == self.rule) {
            return Ok(rule.clone());
        }
        if self.rule.starts_with('/') || self.rule.starts_with("salt://") {
            return Ok(Rule::new("*", &self.rule.into()));
        }
        let text = format!(
            "no rule has the pattern {}, which is not the path of an SLS file either; `reactor.list` shows the rules",
            self.rule
        );
        Err(Error::argument("rule", text))
    }
}

/// Returns the tag and data of an event that was given as JSON, or as a file with JSON.
///
/// # Errors
/// When it is neither.
pub fn given(given: &Value) -> Result<(String, Map), Error> {
    let wrong = |problem: String| Error::argument("event", problem);
    let value = match given {
        Value::Str(text) => {
            let text = match text.trim_start().starts_with('{') {
                true => text.to_string(),
                false => state::host::read(text.as_ref().as_ref())?.to_string(),
            };
            json::read(&text).map_err(|error| wrong(error.to_string()))?
        }
        other => other.clone(),
    };
    let tag = value.get("tag").and_then(Value::as_str);
    let data = value.get("data").and_then(Value::as_map);
    match (tag, data) {
        (Some(tag), Some(data)) => Ok((tag.to_owned(), data.clone())),
        _ => Err(wrong("expected a `tag` and a dictionary `data`".to_owned())),
    }
}
