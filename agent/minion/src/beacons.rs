//! Salt's beacons: they look at the machine regularly, or whenever the kernel reports a change, and
//! turn what they find into events.
//!
//! Nothing here waits. A daemon calls [`Beacons::poll`], sends the returned events, and sleeps for
//! [`Beacons::next`] or until one of [`Beacons::descriptors`] is readable. Beacons call functions
//! of modules through [`Ask`].

#[cfg(feature = "certificates")]
mod cert_info;
mod diskusage;
mod follow;
mod inotify;
mod journald;
mod load;
mod log;
pub(crate) mod manage;
mod memusage;
mod network_info;
mod pkg;
mod ps;
mod salt_monitor;
mod service;
mod sh;
mod status;
mod swapusage;
mod watchdog;

#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use value::{Map, Value};

/// A callback that calls an execution function. Its error is a sentence.
pub type Ask<'a> = dyn Fn(&str, Vec<Value>) -> Result<Value, String> + 'a;

/// One kind of beacon, with its settings.
trait Beacon: Send {
    /// Returns what there is to report, one map for each event. The value of `tag` becomes a part
    /// of the event's tag.
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String>;

    /// Returns a descriptor that is readable when there is something to report, or `None` if the
    /// beacon must be polled regularly.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Discards what happens until the next poll.
    fn pause(&mut self) {
        // A beacon that only looks at the current state has nothing to discard.
    }
}

/// A function that makes a beacon from its settings. Its error is Salt's sentence.
type Make = fn(settings: &Settings) -> Result<Box<dyn Beacon>, String>;

/// All kinds of beacons.
const KINDS: &[(&str, Make)] = &[
    #[cfg(feature = "certificates")]
    ("cert_info", cert_info::make),
    ("diskusage", diskusage::make),
    ("inotify", inotify::make),
    ("journald", journald::make),
    ("load", load::make),
    ("log", log::make),
    ("memusage", memusage::make),
    ("network_info", network_info::make),
    ("pkg", pkg::make),
    ("ps", ps::make),
    ("salt_monitor", salt_monitor::make),
    ("service", service::make),
    ("sh", sh::make),
    ("status", status::make),
    ("swapusage", swapusage::make),
    ("watchdog", watchdog::make),
];

/// The interval of a beacon that has no `interval`, as with Salt's `loop_interval`.
const EVERY: Duration = Duration::from_secs(1);

/// Returns the names of all kinds of beacons.
pub fn available() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name)
}

/// An event that a beacon fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// `salt/beacon/ID/NAME/…`
    pub tag: String,
    /// The event's data.
    pub data: Map,
}

/// An invalid beacon, and the reason. The other beacons run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The beacon's name; empty if the fault concerns all beacons.
    pub beacon: String,
    /// A sentence for the log.
    pub text: String,
}

/// The settings of a beacon: the list of dictionaries of the configuration, and their contents in
/// one.
struct Settings {
    list: Vec<Value>,
    all: Map,
}

/// The settings that every beacon may have.
const COMMON: [&str; 5] = [
    "beacon_module",
    "disable_during_state_run",
    "enabled",
    "interval",
    "run_once",
];

impl Settings {
    fn read(kind: &str, said: &Value) -> Result<Self, String> {
        let list = said.as_list();
        let list =
            list.ok_or_else(|| format!("Configuration for {kind} beacon must be a list."))?;
        let mut all = Map::new();
        for part in list {
            let part = part.as_map();
            all.update(
                part.ok_or_else(|| {
                    format!("Configuration for {kind} beacon must be a list of dictionaries.")
                })?
                .clone(),
            );
        }
        Ok(Self {
            list: list.to_vec(),
            all,
        })
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.all.get(name)
    }

    /// Returns a setting that must be a boolean.
    fn flag(&self, kind: &str, name: &str, default: bool) -> Result<bool, String> {
        let value = self.get(name).map_or(Some(default), Value::as_bool);
        value.ok_or_else(|| {
            format!("Configuration for {kind} beacon option {name} must be a boolean.")
        })
    }

    /// Returns the dictionaries that have no common settings and no keys with a leading underscore.
    fn own(&self) -> impl Iterator<Item = &Map> {
        let maps = self.list.iter().filter_map(Value::as_map);
        maps.filter(|map| {
            map.keys().all(|key| {
                let key = key.to_text();
                !key.starts_with('_') && !COMMON.contains(&key.as_str())
            })
        })
    }
}

/// Returns a number, which may be written as a percentage.
fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.replace('%', "").trim().parse().ok(),
        None => value.as_float(),
    }
}

struct Item {
    name: String,
    said: Value,
    beacon: Box<dyn Beacon>,
    interval: Option<Duration>,
    disable_during_state_run: bool,
    run_once: bool,
    ended: bool,
    /// The time of the next look, by a clock that does not jump.
    next: Duration,
}

/// The beacons of a minion.
pub struct Beacons {
    id: String,
    items: Vec<Item>,
    faults: Vec<Fault>,
}

impl std::fmt::Debug for Beacons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.items.iter().map(|item| &item.name))
            .finish()
    }
}

impl Beacons {
    /// Reads the beacons of the configuration and of pillar, for the minion with the id `id`.
    /// `running` is the time since any fixed moment, of a clock that does not jump.
    #[must_use]
    pub fn new(id: &str, config: &Value, pillar: &Map, running: Duration) -> Self {
        let mut new = Self {
            id: id.to_owned(),
            items: Vec::new(),
            faults: Vec::new(),
        };
        new.update(config, pillar, running);
        new
    }

    /// Returns the faults of beacons that do not run.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Reads the beacons again. Unchanged beacons continue where they were.
    pub fn update(&mut self, config: &Value, pillar: &Map, running: Duration) {
        self.faults.clear();
        let mut old = std::mem::take(&mut self.items);
        let all = self.merged(config, pillar);
        if all.get("enabled").is_some_and(|enabled| !enabled.is_true()) {
            return;
        }
        for (name, said) in all
            .iter()
            .filter(|(name, _)| name.as_str() != Some("enabled"))
        {
            let name = name.to_text();
            let was = old
                .iter()
                .position(|item| item.name == name && item.said == *said);
            if let Some(was) = was {
                self.items.push(old.swap_remove(was));
                continue;
            }
            match Item::read(&name, said, running) {
                Ok(item) => self.items.extend(item),
                Err(text) => self.faults.push(Fault {
                    text: format!("Beacon {name} configuration invalid, not running.\n{text}"),
                    beacon: name,
                }),
            }
        }
    }

    fn merged(&mut self, config: &Value, pillar: &Map) -> Map {
        let mut all = Map::new();
        for beacons in [pillar.get("beacons").unwrap_or(&Value::Null), config] {
            match beacons {
                Value::Null => {}
                Value::Map(map) => all.update(map.clone()),
                _ => self.faults.push(Fault {
                    beacon: String::new(),
                    text: "Beacons must be of type dict.".to_owned(),
                }),
            }
        }
        all
    }

    /// Polls the beacons that are due now. `state_run` is true while a state run is in progress.
    pub fn poll(&mut self, running: Duration, state_run: bool, ask: &Ask<'_>) -> Vec<Fired> {
        let mut fired = Vec::new();
        for item in self.items.iter_mut().filter(|item| item.is_due(running)) {
            item.next = running + item.interval.unwrap_or(EVERY);
            if state_run && item.disable_during_state_run {
                item.beacon.pause();
                continue;
            }
            let tag = format!("salt/beacon/{}/{}/", self.id, item.name);
            match item.beacon.poll(ask) {
                Ok(told) => {
                    fired.extend(told.into_iter().map(|data| event(&self.id, &tag, data)));
                    item.ended = item.run_once;
                }
                Err(error) => fired.push(event(&self.id, &tag, Map::new().with("error", error))),
            }
        }
        fired
    }

    /// Returns how long no beacon is due, or `None` if all beacons wait for descriptors.
    #[must_use]
    pub fn next(&self, running: Duration) -> Option<Duration> {
        let items = self
            .items
            .iter()
            .filter(|item| !item.waits_for_descriptor());
        items.map(|item| item.next.saturating_sub(running)).min()
    }

    /// Returns the descriptors of beacons that have no interval. They are readable when a beacon
    /// has something to report.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let items = self.items.iter().filter(|item| item.waits_for_descriptor());
        items.filter_map(|item| item.beacon.descriptor())
    }
}

/// Returns the constructor of a beacon's kind, and its settings.
fn kind_of(name: &str, said: &Value) -> Result<(Make, Settings), String> {
    let kind = Settings::read(name, said).ok();
    let kind = kind.and_then(|settings| settings.get("beacon_module").map(Value::to_text));
    let kind = kind.unwrap_or_else(|| name.to_owned());
    let settings = Settings::read(&kind, said)?;
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    let (_, make) = known.ok_or_else(|| {
        let known: Vec<&str> = available().collect();
        format!(
            "Unknown beacon {kind}; available beacons: {}.",
            known.join(", ")
        )
    })?;
    Ok((*make, settings))
}

/// Checks the settings of a beacon.
///
/// # Errors
/// Salt's sentence about the problem.
pub fn validated(name: &str, said: &Value) -> Result<(), String> {
    let (make, settings) = kind_of(name, said)?;
    make(&settings).map(drop)
}

impl Item {
    /// Reads a beacon. Returns `None` if it is disabled.
    fn read(name: &str, said: &Value, running: Duration) -> Result<Option<Self>, String> {
        let (make, settings) = kind_of(name, said)?;
        let is = |name: &str| settings.get(name).is_some_and(Value::is_true);
        if settings
            .get("enabled")
            .is_some_and(|enabled| !enabled.is_true())
        {
            return Ok(None);
        }
        let interval = match settings
            .get("interval")
            .filter(|interval| interval.is_true())
        {
            Some(value) => {
                let seconds = number(value).filter(|seconds| *seconds > 0.0);
                let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(span.ok_or("The interval must be a number of seconds.")?)
            }
            None => None,
        };
        Ok(Some(Self {
            name: name.to_owned(),
            said: said.clone(),
            beacon: make(&settings)?,
            // As in Salt, the first look comes after the interval.
            next: running + interval.unwrap_or_default(),
            interval,
            disable_during_state_run: is("disable_during_state_run"),
            run_once: is("run_once"),
            ended: false,
        }))
    }

    fn waits_for_descriptor(&self) -> bool {
        self.ended || self.interval.is_none() && self.beacon.descriptor().is_some()
    }

    fn is_due(&self, running: Duration) -> bool {
        !self.ended && (self.waits_for_descriptor() || running >= self.next)
    }
}

fn event(id: &str, tag: &str, mut data: Map) -> Fired {
    let rest = data
        .remove("tag")
        .map(|rest| rest.to_text())
        .unwrap_or_default();
    if !data.contains("id") {
        data.insert("id", id);
    }
    Fired {
        tag: format!("{tag}{rest}"),
        data,
    }
}
