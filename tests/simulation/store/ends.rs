//! The checks after a story.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

use crate::acts::{self, Act, Answer, Call, Known, MARK, Thing, USES};
use crate::check;
use crate::minions;
use crate::reactions::{self, EFFECT};
use crate::store::{KeyState, Store};
use crate::story::Seen;
use crate::world;

/// Returns what does not hold, or a hash of all that happened.
pub(crate) fn checked(stores: &[Store], seen: &Seen) -> Result<u64, String> {
    let all: Vec<Vec<u8>> = stores.iter().map(rows).collect();
    if all.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err("masters that have applied the same have different stores".to_owned());
    }
    let store = stores.first().ok_or("no master is left")?;
    let done = operations(store);
    check::each_once(&done, &seen.history, &seen.refused)?;
    have_an_order(store, &done, seen)?;
    tokens_are_counted(store, &done, seen)?;
    for (minion, acknowledged) in seen.acknowledged.iter().enumerate() {
        records_are_there(store, minion, *acknowledged)?;
    }
    effects_are_there(store)?;
    Ok(digest(&all, seen))
}

/// Returns all rows of a store.
fn rows(store: &Store) -> Vec<u8> {
    let mut rows = Vec::new();
    let mut take = |piece: Vec<u8>| {
        rows.extend(piece);
        true
    };
    store.export(&mut take).unwrap().unwrap();
    rows
}

/// Returns a hash of all rows of a store.
pub(crate) fn digest_of_rows(store: &Store) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&rows(store));
    hasher.finish()
}

/// Returns the tags of the events with a prefix, without it.
fn tags<'a>(store: &Store, prefix: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let events = store.events(0).unwrap();
    events.filter_map(move |event| Some(event.unwrap().tag.strip_prefix(prefix)?.to_owned()))
}

/// Returns the number of times that each operation was done.
fn operations(store: &Store) -> BTreeMap<u64, u64> {
    let mut done = BTreeMap::new();
    for number in tags(store, MARK) {
        *done.entry(number.parse().unwrap()).or_default() += 1;
    }
    done
}

/// Checks that what happened to each thing has an order, which ends with what the store has.
fn have_an_order(store: &Store, done: &BTreeMap<u64, u64>, seen: &Seen) -> Result<(), String> {
    let mut by_thing: BTreeMap<Thing, Vec<Known>> = BTreeMap::new();
    for operation in &seen.history {
        if let Some((_, Answer::Unexpected(what))) = &operation.returned {
            return Err(format!("operation {} got {what}", operation.number));
        }
        if done.contains_key(&operation.number) {
            let of = by_thing.entry(operation.call.thing.clone()).or_default();
            of.push(operation.clone());
        }
    }
    for (thing, mut operations) in by_thing {
        operations.push(look(store, &thing));
        if !check::linearizable(operations) {
            return Err(format!("what happened to {thing:?} has no order"));
        }
    }
    Ok(())
}

/// Returns the operation that reads a thing at the end. An operation without an answer was done
/// before it.
fn look(store: &Store, thing: &Thing) -> Known {
    Known {
        number: u64::MAX,
        called: world::now(),
        returned: Some((world::now(), Answer::Done)),
        call: Call {
            thing: thing.clone(),
            act: Act::Look(acts::content(store, thing)),
        },
    }
}

/// Checks that each use of a token has one accepted minion, and each minion whose acceptance was
/// acknowledged is accepted.
fn tokens_are_counted(store: &Store, done: &BTreeMap<u64, u64>, seen: &Seen) -> Result<(), String> {
    let mut accepted: BTreeMap<String, u64> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for key in store.keys(KeyState::Accepted).unwrap() {
        let key = key.unwrap();
        if let Some(token) = key.bound.get("token") {
            *accepted.entry(token.to_text().to_string()).or_default() += 1;
            ids.insert(key.id);
        }
    }
    for token in store.tokens().unwrap() {
        let (name, row) = token.unwrap();
        let Some(used) = acts::number(&row, "used") else {
            continue;
        };
        let count = accepted.remove(&name).unwrap_or(0);
        if used != count || used > USES {
            return Err(format!("{name} was used {used} times by {count} minions"));
        }
    }
    if let Some((name, _)) = accepted.first_key_value() {
        return Err(format!("{name} has minions and is not there"));
    }
    for operation in &seen.history {
        let is_done = done.contains_key(&operation.number);
        let is_enrolled = matches!(operation.returned, Some((_, Answer::Done)));
        let is_one = matches!(operation.call.act, Act::Enrol { .. });
        if is_one && is_done && is_enrolled && !ids.contains(&acts::enrolled(operation.number)) {
            return Err(format!(
                "the minion of operation {} is lost",
                operation.number
            ));
        }
    }
    Ok(())
}

/// Checks that the records of a minion are there, each once and in its order.
fn records_are_there(store: &Store, minion: usize, acknowledged: u64) -> Result<(), String> {
    let prefix = minions::tag(minion, 0);
    let prefix = prefix.trim_end_matches('0');
    let found: Vec<u64> = tags(store, prefix)
        .map(|tag| tag.parse().unwrap())
        .collect();
    let last = found.last().copied().unwrap_or(0).max(acknowledged);
    let sent = (1..=last).filter(|sequence| !minions::is_return(*sequence));
    if found != sent.collect::<Vec<_>>() {
        return Err(format!(
            "{acknowledged} records of minion {minion} were acknowledged, its events are {found:?}"
        ));
    }
    for sequence in (1..=acknowledged).filter(|sequence| minions::is_return(*sequence)) {
        let returned = store.returned(&minions::jid(sequence), &minions::id(minion));
        if returned.unwrap().is_none() {
            return Err(format!("return {sequence} of minion {minion} is lost"));
        }
    }
    Ok(())
}

/// Checks that each event of a minion has its effect, and once.
fn effects_are_there(store: &Store) -> Result<(), String> {
    let effects: Vec<u64> = tags(store, EFFECT)
        .map(|sequence| sequence.parse().unwrap())
        .collect();
    let events = store.events(0).unwrap().map(Result::unwrap);
    let wanted = events.filter(|event| event.tag.starts_with(minions::TAG));
    for event in wanted {
        let count = effects.iter().filter(|of| **of == event.sequence).count();
        let known = store.reaction(reactions::place(event.sequence)).unwrap();
        if count != 1 || known.is_none() {
            return Err(format!(
                "the reaction to event {} had its effect {count} times",
                event.sequence
            ));
        }
    }
    Ok(())
}

fn digest(all: &[Vec<u8>], seen: &Seen) -> u64 {
    let mut digest = world::below(u64::MAX);
    let mut add = |number: u64| {
        digest = (digest ^ number)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(7);
    };
    all.iter().flatten().for_each(|byte| add(u64::from(*byte)));
    for operation in &seen.history {
        add(operation.number);
        let returned = operation.returned.as_ref().map(|(time, _)| *time);
        for time in [operation.called, returned.unwrap_or_default()] {
            add(u64::try_from(time.as_nanos()).unwrap());
        }
    }
    digest
}
