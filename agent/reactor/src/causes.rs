//! [`Causes`]: records which events are effects of reactions, so that loops are detected.
//!
//! The jobs, runners and wheel functions of a reaction have ids, which are in the tags of their
//! events. For an event that `event.send` fires, its tag is recorded. Only the newest effects are
//! remembered: a loop passes through them quickly, or does no harm.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use value::Value;
use wire::tag::Tag;

use crate::call::{Call, Caller, Local};
use crate::{ERROR, Event};

/// The maximum number of effects that are remembered.
const EFFECTS_MAX: usize = 8192;

/// The causes of the newest effects.
#[derive(Debug, Default)]
pub struct Causes(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    generations: HashMap<String, u64>,
    order: VecDeque<String>,
}

impl Causes {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an effect before it happens.
    pub fn caused(&self, generation: u64, jid: &str, call: &Call) {
        let mut known = self.lock();
        known.put(jid.to_owned(), generation);
        if let Some(tag) = fired(call) {
            known.put(format!("tag {tag}"), generation);
        }
    }

    /// Returns how many reactions led to an event. A recorded tag accounts for one event only: the
    /// next event with that tag has another cause.
    pub fn generation(&self, event: &Event) -> u64 {
        let tag = event.tag.as_str();
        if tag == ERROR {
            let said = event.data.get("generation").and_then(Value::as_int);
            return said
                .and_then(|said| u64::try_from(said).ok())
                .unwrap_or_default();
        }
        let jid = Tag::parse(tag).jid();
        let mut known = self.lock();
        if let Some(generation) = jid.and_then(|jid| known.generations.get(jid)) {
            return *generation;
        }
        let own = format!("event {}", event.sequence);
        if let Some(generation) = known.generations.remove(&format!("tag {tag}")) {
            known.put(own, generation);
            return generation;
        }
        known.generations.get(&own).copied().unwrap_or_default()
    }
}

impl Generations {
    fn put(&mut self, key: String, generation: u64) {
        if self.generations.insert(key.clone(), generation).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > EFFECTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.generations.remove(&oldest);
        }
    }
}

/// Returns the tag of the event that a call fires, if it fires one.
fn fired(call: &Call) -> Option<String> {
    let (fun, arg, kwarg) = match call {
        Call::Local(Local { fun, arg, .. }) | Call::Caller(Caller { fun, arg }) => {
            let (arg, kwarg) = modules::loader::call::split(arg);
            (fun, arg, kwarg)
        }
        Call::Client(client) => (&client.fun, client.arg.clone(), client.kwarg.clone()),
    };
    let place = match fun.as_str() {
        "event.send" => 0,
        "event.fire" | "event.fire_master" => 1,
        _ => return None,
    };
    let tag = kwarg.get("tag").or_else(|| arg.get(place))?;
    Some(tag.to_text())
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;
    use crate::call::Client;

    fn call(tag: &str) -> Call {
        Call::Client(Client {
            is_wheel: false,
            fun: "event.send".to_owned(),
            arg: vec![tag.into()],
            kwarg: Map::new(),
        })
    }

    fn event(sequence: u64, tag: &str) -> Event {
        Event {
            sequence,
            tag: tag.to_owned(),
            data: Map::new(),
        }
    }

    #[test]
    fn events_of_an_effect_come_after_what_caused_it() {
        let causes = Causes::default();
        let jid = "20261120101647455855";
        causes.caused(3, jid, &call("my/tag"));
        let of = |sequence, tag: &str| causes.generation(&event(sequence, tag));
        // Several rules may ask about the same event.
        assert_eq!((of(1, "my/tag"), of(1, "my/tag")), (3, 3));
        assert_eq!(of(2, "my/tag"), 0);
        assert_eq!(of(3, &format!("salt/job/{jid}/ret/m1")), 3);
        assert_eq!(of(4, &format!("salt/run/{jid}/new")), 3);
        assert_eq!(of(5, "other/tag"), 0);
    }

    #[test]
    fn only_the_newest_effects_are_remembered() {
        let causes = Causes::default();
        for number in 0..EFFECTS_MAX as u64 {
            let jid = value::jid::from_micros(number);
            causes.caused(1, &jid, &call("x"));
        }
        let known = causes.lock();
        assert_eq!(known.order.len(), EFFECTS_MAX);
        assert!(!known.generations.contains_key(&value::jid::from_micros(0)));
    }
}
