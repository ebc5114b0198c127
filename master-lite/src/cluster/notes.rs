//! [`Note`]: a report of each master to the others, several times a second if it changes and once a
//! second if not: the minions that have connected to it and left it, and whether it is in contact
//! with a majority. Nothing of it is stored or agreed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use link::wait::{pause, within};
use link::{PublicKey, masters_thread};
use value::{Map, Value, log};
use wire::Id;

use super::agreement::Agreement;
use super::relay::Through;
use super::requests::{Ask, key};
use super::{Cluster, lock};
use crate::jobs::minions::Relay;
use crate::store::clock;

/// The interval between two notes if nothing has changed, and if something has.
const EVERY: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(100);
/// The time after which a master that sent no note is not up.
const SILENT_MAX: Duration = Duration::from_secs(3);
/// The maximum time for a note.
const NOTE_MAX: Duration = Duration::from_secs(2);

/// A report of a master to another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// The start of the master, and the number of the note since then. A note that is not the next
    /// one is refused, unless it has all minions.
    pub(super) boot: u64,
    pub(super) number: u64,
    /// True if `came` has all minions.
    pub(super) is_whole: bool,
    /// The minions that have connected, with their keys, and those that have left.
    pub(super) came: Vec<(Id, PublicKey)>,
    pub(super) went: Vec<Id>,
    /// True if the master has no contact to a majority.
    pub(super) is_cut_off: bool,
    /// The time of the clock of its machine.
    pub(super) clock_ms: u64,
    /// The options that must be the same on all masters, if `is_whole`.
    pub(super) options: Option<Agreement>,
}

impl Note {
    pub(super) fn value(&self) -> Value {
        let came = self.came.iter().map(|(id, key)| {
            Value::list([
                id.as_str().into(),
                Value::Bytes(key.bytes().as_slice().into()),
            ])
        });
        let went = self.went.iter().map(|id| id.as_str().into());
        let mut map = Map::new()
            .with("boot", self.boot)
            .with("number", self.number)
            .with("is_whole", self.is_whole)
            .with("came", Value::list(came))
            .with("went", Value::list(went))
            .with("is_cut_off", self.is_cut_off)
            .with("clock_ms", self.clock_ms);
        if let Some(options) = &self.options {
            map.insert("options", options.value());
        }
        map.into()
    }

    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let number = |name: &str| u64::try_from(map.get(name)?.as_int()?).ok();
        let came = map.get("came")?.as_list()?.iter();
        let came = came.map(|pair| match pair.as_list()? {
            [id, of] => Some((id.as_str()?.parse().ok()?, key(of)?)),
            _ => None,
        });
        let went = map.get("went")?.as_list()?.iter();
        let went = went.map(|id| id.as_str()?.parse().ok());
        Some(Self {
            boot: number("boot")?,
            number: number("number")?,
            is_whole: map.get("is_whole")?.is_true(),
            came: came.collect::<Option<_>>()?,
            went: went.collect::<Option<_>>()?,
            is_cut_off: map.get("is_cut_off")?.is_true(),
            clock_ms: number("clock_ms")?,
            options: match map.get("options") {
                Some(options) => Some(Agreement::from_value(options)?),
                None => None,
            },
        })
    }
}

/// The last reports of another master.
struct Other {
    boot: u64,
    number: u64,
    at: Instant,
    is_cut_off: bool,
    /// The time of its machine's clock when it sent the last note.
    clock_ms: u64,
    options: Agreement,
    minions: BTreeMap<Id, PublicKey>,
}

/// The last reports of the other masters.
#[derive(Default)]
pub(super) struct Others(Mutex<BTreeMap<u64, Other>>);

impl Others {
    /// Returns the masters that are up.
    pub(super) fn alive(&self) -> BTreeSet<u64> {
        self.boots().into_keys().collect()
    }

    /// Returns the masters that are up, each with the number of its start.
    pub(super) fn boots(&self) -> BTreeMap<u64, u64> {
        self.of_alive(|other| other.boot)
    }

    /// Returns the masters that are up, each with the present time of its machine's clock.
    pub(super) fn clocks(&self) -> BTreeMap<u64, u64> {
        self.of_alive(|other| clock::after(other.clock_ms, other.at.elapsed()))
    }

    fn of_alive(&self, value: impl Fn(&Other) -> u64) -> BTreeMap<u64, u64> {
        let others = lock(&self.0);
        let alive = others
            .iter()
            .filter(|(_, other)| other.at.elapsed() <= SILENT_MAX);
        alive
            .map(|(number, other)| (*number, value(other)))
            .collect()
    }

    /// Returns whether a master has reported that it has no contact to a majority.
    pub(super) fn is_cut_off(&self, number: u64) -> bool {
        lock(&self.0)
            .get(&number)
            .is_some_and(|other| other.is_cut_off)
    }

    /// Returns the number of a master's start, if it has sent a note.
    fn boot(&self, number: u64) -> Option<u64> {
        lock(&self.0).get(&number).map(|other| other.boot)
    }

    /// Takes a note of a master. Returns whether its minions are known now.
    fn take(&self, of: u64, note: Note) -> bool {
        let mut others = lock(&self.0);
        let known = others.remove(&of);
        let known =
            known.filter(|known| (known.boot, known.number + 1) == (note.boot, note.number));
        let (mut minions, options) = match (note.is_whole, known) {
            (true, _) => (BTreeMap::new(), note.options.unwrap_or_default()),
            (false, Some(known)) => (known.minions, known.options),
            (false, None) => return false,
        };
        minions.extend(note.came);
        for id in &note.went {
            minions.remove(id);
        }
        let other = Other {
            boot: note.boot,
            number: note.number,
            at: Instant::now(),
            is_cut_off: note.is_cut_off,
            clock_ms: note.clock_ms,
            options,
            minions,
        };
        others.insert(of, other);
        true
    }

    /// Forgets the masters that are not up any more. Returns whether there were any.
    pub(super) fn forget_silent(&self) -> bool {
        let mut others = lock(&self.0);
        let before = others.len();
        others.retain(|_, other| other.at.elapsed() <= SILENT_MAX);
        others.len() != before
    }
}

/// The minions of a master with their keys. The same object is sent until there is a change, so that
/// thousands of minions are neither copied nor compared each time.
type Here = Arc<BTreeMap<Id, PublicKey>>;

/// The state of the notes to one master.
#[derive(Default)]
struct Sent {
    number: u64,
    /// The minions that it knows; `None` if it has to get all of them.
    known: Option<Here>,
}

impl Sent {
    /// Returns the next note, with what does not depend on the earlier ones in `common`. The master
    /// has to get all minions after it, until its answer is known.
    fn next(&mut self, here: &Here, common: Note) -> Note {
        self.number += 1;
        let known = self.known.take();
        let (came, went) = match &known {
            Some(known) if Arc::ptr_eq(known, here) => Default::default(),
            known => difference(known.as_deref(), here),
        };
        let is_whole = known.is_none();
        Note {
            number: self.number,
            is_whole,
            came,
            went,
            options: common.options.filter(|_| is_whole),
            ..common
        }
    }
}

impl Cluster {
    /// Sends notes to the other masters, for as long as this one runs.
    pub(super) async fn tell_others(self) {
        let mut sent: BTreeMap<u64, Arc<smol::lock::Mutex<Sent>>> = BTreeMap::new();
        let changes = self.0.minions.changes();
        let mut here = Arc::new(self.0.minions.here());
        loop {
            let mut others = self.status().members;
            others.remove(&self.0.node.number);
            sent.retain(|number, _| others.contains_key(number));
            for number in others.into_keys() {
                let state = sent.entry(number).or_default().clone();
                let (cluster, here) = (self.clone(), here.clone());
                let tell = async move { cluster.tell(number, &state, here).await };
                masters_thread::spawn(tell).detach();
            }
            pause(SOON).await;
            if within(EVERY - SOON, changes.recv()).await.is_some() {
                here = Arc::new(self.0.minions.here());
            }
        }
    }

    /// Returns what all notes of this moment have.
    fn note(&self) -> Note {
        Note {
            boot: self.0.node.boot,
            is_cut_off: self.minority().is_some(),
            clock_ms: value::clock::now_ms(),
            options: Some(self.0.options.clone()),
            ..Note::default()
        }
    }

    /// Sends a note to a master, and a second one with all minions if it needs them. Does nothing if
    /// a note is under way.
    async fn tell(&self, number: u64, state: &smol::lock::Mutex<Sent>, here: Here) {
        let Some(mut sent) = state.try_lock() else {
            return;
        };
        for _ in 0..2 {
            let note = sent.next(&here, self.note());
            match self.ask(number, &Ask::Note(note), NOTE_MAX).await {
                Ok(is_known) if is_known.is_true() => {
                    sent.known = Some(here);
                    return;
                }
                Ok(_) => {}
                Err(error) => {
                    return log::debug(format_args!(
                        "cannot tell the master {} of the connected minions: {error}",
                        self.name(number)
                    ));
                }
            }
        }
    }

    /// Takes a note of another master. Returns whether its minions are known now.
    pub(super) fn take_note(&self, of: u64, note: Note) -> bool {
        if let Some(options) = &note.options {
            self.compare(of, note.boot, options);
        }
        let has_changed = note.is_whole || !note.came.is_empty() || !note.went.is_empty();
        let is_known = self.0.others.take(of, note);
        if has_changed || !is_known {
            self.show_elsewhere();
        }
        is_known
    }

    /// Warns about options that another master has otherwise, once in each of its processes.
    fn compare(&self, of: u64, boot: u64, options: &Agreement) {
        let differences = self.0.options.differences(options);
        if differences.is_empty() || self.0.others.boot(of) == Some(boot) {
            return;
        }
        log::warning(format_args!(
            "The master {} has other values of {}: any master of a cluster may need them, so make them equal",
            self.name(of),
            differences.join(", ")
        ));
    }

    /// Returns the options that other masters have otherwise, by their names.
    pub(super) fn differences(&self) -> Map {
        let others = lock(&self.0.others.0);
        let differing = others.iter().filter_map(|(number, other)| {
            let differences = self.0.options.differences(&other.options);
            let names = differences.into_iter().map(Value::from);
            let names = Value::list(names);
            names
                .is_true()
                .then(|| (Value::from(self.name(*number)), names))
        });
        differing.collect()
    }

    /// Makes the minions of the other masters reachable.
    pub(super) fn show_elsewhere(&self) {
        let others = lock(&self.0.others.0);
        let elsewhere = others.iter().flat_map(|(number, other)| {
            let relay: Arc<dyn Relay> = Arc::new(Through::new(self, *number));
            let minions = other.minions.iter();
            minions.map(move |(id, key)| (id.clone(), *key, relay.clone()))
        });
        self.0.minions.are_elsewhere(elsewhere);
    }
}

/// Returns the minions that came and went between two sets.
fn difference(
    before: Option<&BTreeMap<Id, PublicKey>>,
    after: &BTreeMap<Id, PublicKey>,
) -> (Vec<(Id, PublicKey)>, Vec<Id>) {
    let Some(before) = before else {
        let all = after.iter().map(|(id, key)| (id.clone(), *key));
        return (all.collect(), Vec::new());
    };
    let new = after
        .iter()
        .filter(|(id, key)| before.get(*id) != Some(*key));
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    (
        new.map(|(id, key)| (id.clone(), *key)).collect(),
        gone.cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u64, is_whole: bool, came: &[&str], went: &[&str]) -> Note {
        let key = PublicKey::from_bytes([1; 32]);
        Note {
            boot: 1,
            number,
            is_whole,
            came: came.iter().map(|id| (id.parse().unwrap(), key)).collect(),
            went: went.iter().map(|id| id.parse().unwrap()).collect(),
            is_cut_off: false,
            clock_ms: 0,
            options: is_whole.then(Agreement::default),
        }
    }

    #[test]
    fn a_note_that_is_missing_makes_the_sender_send_all() {
        let others = Others::default();
        assert!(!others.take(2, note(1, false, &["m1"], &[])));
        assert!(others.take(2, note(2, true, &["m1", "m2"], &[])));
        assert!(others.take(2, note(3, false, &["m3"], &["m1"])));
        assert!(!others.take(2, note(5, false, &[], &[])));
        assert!(
            others.alive().is_empty(),
            "its minions are not known any more"
        );
    }

    #[test]
    fn a_note_has_only_what_has_changed_since_one_that_was_taken() {
        let here = |ids: &[&str]| {
            let came = note(0, false, ids, &[]).came;
            Arc::new(came.into_iter().collect::<BTreeMap<_, _>>())
        };
        let common = || note(0, true, &[], &[]);
        let before = here(&["m1", "m2"]);
        let mut sent = Sent::default();
        let whole = note(1, true, &["m1", "m2"], &[]);
        assert_eq!(sent.next(&before, common()), whole);
        sent.known = Some(before.clone());
        assert_eq!(sent.next(&before, common()), note(2, false, &[], &[]));
        sent.known = Some(before);
        let after = here(&["m2", "m3"]);
        assert_eq!(
            sent.next(&after, common()),
            note(3, false, &["m3"], &["m1"])
        );
        // The answer to that one did not come.
        let whole = note(4, true, &["m2", "m3"], &[]);
        assert_eq!(sent.next(&after, common()), whole);
    }

    #[test]
    fn notes_are_read_back() {
        let sent = note(7, false, &["m1", "m2"], &["m3"]);
        assert_eq!(Note::from_value(&sent.value()), Some(sent));
        assert_eq!(Note::from_value(&Value::Null), None);
    }
}
