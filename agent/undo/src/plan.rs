//! [`Plan`]: the steps of an undo, the changes that cannot be undone, and the ones that something
//! else has changed since.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use machine::fs;
use machine::fs::image::{self, Image};
use state::exec::{Exec, Registry, facts};
use state::facts::{Effects, Facts, StepKind};
use state::opts::Opts;
use state::record::{self, Recorded};
use state::resume::{SEPARATOR, function_of, id_of};
use value::{Map, Value};

use crate::changes::{ChangeIndex, Changes, PathChange, difference, now};
use crate::inverse::Resource;
use crate::order;

/// The selection of what to undo, by paths (which include everything below them) and ids of states.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// If not empty, only these are undone.
    pub only: Vec<String>,
    /// These are not undone.
    pub except: Vec<String>,
}

impl Wanted {
    fn takes(&self, name: &str, by: &[String]) -> bool {
        let means = |word: &String| {
            let ids = by.iter().any(|tag| tag == word || id_of(tag) == word);
            ids || Path::new(name).starts_with(word)
        };
        let only = self.only.is_empty() || self.only.iter().any(means);
        only && !self.except.iter().any(means)
    }
}

/// A path or thing to be restored.
#[derive(Clone, Debug)]
pub enum Item {
    /// A path, and its current state.
    PathChange(PathChange, Image),
    /// A thing that is no file, and its current state.
    Resource(Resource, Value),
}

/// The plan of an undo.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The job id of the run.
    pub jid: String,
    /// The items to restore, in this order.
    pub items: Vec<Item>,
    /// The states or paths that cannot be undone, each with the reason.
    pub cannot: Vec<(String, String)>,
    /// The changes made after the run. If there are any, nothing is undone.
    pub moved: Vec<String>,
    /// True if the run was interrupted.
    pub cut_short: bool,
}

impl Plan {
    /// Checks what a run has changed and the current state of each change, and makes the plan.
    #[must_use]
    pub fn make(cx: &Exec, jid: &str, recorded: &Recorded, wanted: &Wanted) -> Self {
        let noted = counted(cx, Changes::from_entries(&recorded.changes), wanted);
        let mut plan = Self {
            jid: jid.to_owned(),
            cut_short: recorded.end.is_none(),
            ..Self::default()
        };
        plan.states(cx, recorded, &noted, wanted);
        let places = noted.places.iter();
        let look = Look {
            cx,
            places: places.map(|place| (place.path.as_path(), place)).collect(),
            kept: record::kept(&record::folder(cx.opts()).join(jid)),
            undos: undos(cx.opts(), jid),
            later: OnceCell::new(),
        };
        for which in order::undo_order(&noted) {
            match which {
                ChangeIndex::PathChange(at) => {
                    if let Some(place) = noted.places.get(at) {
                        plan.place(&look, place);
                    }
                }
                ChangeIndex::Resource(at) => {
                    if let Some(thing) = noted.things.get(at) {
                        plan.thing(&look, thing);
                    }
                }
            }
        }
        plan
    }

    /// Adds the states whose changes were not noted to those that cannot be undone.
    fn states(&mut self, cx: &Exec, recorded: &Recorded, noted: &Changes, wanted: &Wanted) {
        let all = noted.places.iter().flat_map(|place| &place.by);
        let things = noted.things.iter().flat_map(|thing| &thing.by);
        let things: HashSet<&String> = things.collect();
        let known: HashSet<&String> = all.chain(things.iter().copied()).collect();
        let mut changed = Vec::new();
        let registry = cx.shared.registry;
        of_states(registry, &recorded.returns, &mut changed);
        let parts = recorded.parts.values();
        parts.for_each(|returns| of_states(registry, returns, &mut changed));
        for tag in changed {
            let module = tag.split(SEPARATOR).next().unwrap_or_default();
            let effects = declared(registry, &tag).effects;
            let why = match module {
                // This is an earlier undo, all of whose changes are noted.
                "undo" => continue,
                "cmd" => "a command cannot be undone",
                _ if things.contains(&tag) => continue,
                _ if known.contains(&tag) => match effects {
                    Effects::MoreThanFiles {
                        files_suffice: false,
                    } => "only its files are undone",
                    _ => continue,
                },
                _ if effects.is_files() => "its changes were not recorded",
                _ => "its changes cannot be undone",
            };
            if wanted.takes("", std::slice::from_ref(&tag)) {
                let name = format!("{} ({})", id_of(&tag), function_of(&tag));
                self.cannot.push((name, why.to_owned()));
            }
        }
    }

    fn place(&mut self, look: &Look<'_>, place: &PathChange) {
        let shown = place.path.display();
        let now = match now(&place.path) {
            Ok(now) => now,
            Err(error) => return self.moved.push(format!("{shown}: {error}")),
        };
        let lost = place.lost.clone().or_else(|| look.not_kept(place));
        if let Some(lost) = lost {
            return self.cannot.push((shown.to_string(), lost));
        }
        let goal = place.goal();
        if difference(&place.path, &now, &goal).is_none() {
            return;
        }
        let moved = look.moved(place, &now);
        let moved = moved.or_else(|| look.in_the_way(place, &now, &goal));
        if let Some(why) = moved {
            let told = look.describe(&self.jid, &shown.to_string(), &why);
            return self.moved.push(told);
        }
        let hash =
            (place.is_whole() && image::kind(&now) == "file").then(|| image::hash(&place.path));
        let now = match hash {
            Some(Ok(hash)) => now.with("sha256", hash),
            _ => now,
        };
        self.items.push(Item::PathChange(place.clone(), now));
    }

    fn thing(&mut self, look: &Look<'_>, thing: &Resource) {
        if let Some(lost) = &thing.lost {
            return self.cannot.push((thing.title(), lost.clone()));
        }
        match thing.now(look.cx) {
            Err(error) => self.cannot.push((thing.title(), error.to_string())),
            Ok(now) if now == thing.was => {}
            Ok(now) if look.may_be(thing, &now) => match thing.can(look.cx) {
                Ok(()) => self.items.push(Item::Resource(thing.clone(), now)),
                Err(why) => self.cannot.push((thing.title(), why.to_string())),
            },
            Ok(_) => {
                let why = "it is not as the run left it";
                self.moved
                    .push(look.describe(&self.jid, &thing.title(), why));
            }
        }
    }
}

/// Returns the notes to be undone. They do not include the files of states that change more than
/// files, nor anything that is not selected.
fn counted(cx: &Exec, noted: Changes, wanted: &Wanted) -> Changes {
    let owned = noted
        .things
        .iter()
        .filter(|thing| thing.owns_files(cx.shared.registry));
    let owned: HashSet<&String> = owned.flat_map(|thing| &thing.by).collect();
    let counts = |tag: &String| {
        declared(cx.shared.registry, tag).effects.has_files() && !owned.contains(tag)
    };
    let takes = |which: &ChangeIndex| match *which {
        ChangeIndex::PathChange(at) => noted.places.get(at).is_some_and(|place| {
            let by = &place.by;
            let name = place.path.to_string_lossy();
            (by.is_empty() || by.iter().any(counts)) && wanted.takes(&name, by)
        }),
        ChangeIndex::Resource(at) => {
            let thing = noted.things.get(at);
            thing.is_some_and(|thing| wanted.takes(&thing.name, &thing.by))
        }
    };
    let mut kept = Changes::default();
    for which in noted.order.iter().filter(|which| takes(which)) {
        match *which {
            ChangeIndex::PathChange(at) => {
                kept.order.push(ChangeIndex::PathChange(kept.places.len()));
                kept.places.extend(noted.places.get(at).cloned());
            }
            ChangeIndex::Resource(at) => {
                kept.order.push(ChangeIndex::Resource(kept.things.len()));
                kept.things.extend(noted.things.get(at).cloned());
            }
        }
    }
    kept
}

/// Collects the tags of the states that have changed something, including states of inner runs.
fn of_states(registry: &Registry, returns: &Map, all: &mut Vec<String>) {
    for (tag, ret) in returns {
        let changed = ret.get("changes").filter(|changes| changes.is_true());
        let Some(changes) =
            changed.filter(|_| ret.get("result").is_some_and(|result| !result.is_null()))
        else {
            continue;
        };
        let tag = tag.to_text();
        let inside = changes.get("ret").and_then(Value::as_map);
        let facts = declared(registry, &tag);
        match inside {
            Some(machines) if facts.effects == Effects::Runs => {
                let inner = machines.values().filter_map(Value::as_map);
                inner.for_each(|returns| of_states(registry, returns, all));
            }
            // The record contains the returns of the inner run as a part.
            _ if facts.step == Some(StepKind::Runner) && orchestrates(registry, &tag) => {}
            _ => all.push(tag),
        }
    }
}

/// Returns the facts about the state function in a tag.
fn declared(registry: &Registry, tag: &str) -> Facts {
    let module = tag.split(SEPARATOR).next().unwrap_or_default();
    let function = tag.rsplit(SEPARATOR).next().unwrap_or_default();
    facts(registry.states, &format!("{module}.{function}"))
}

/// Returns whether the runner that a step's tag names is an orchestration.
fn orchestrates(registry: &Registry, tag: &str) -> bool {
    let runner = tag.split(SEPARATOR).nth(2);
    runner.is_some_and(|runner| registry.orchestrates(runner))
}

/// Returns the notes of earlier undos of a run, which may have been interrupted.
fn undos(opts: &Opts, jid: &str) -> Vec<Changes> {
    let folder = record::folder(opts);
    let jids = record::jids(opts).into_iter();
    let paths = jids
        .filter(|other| other.as_str() > jid)
        .map(|jid| folder.join(jid));
    let mut all = Vec::new();
    for path in paths {
        let is_undo = record::start_of(&path).is_some_and(|start| {
            let of = start.get("args").and_then(|args| args.get("jid"));
            let fun = start.get("fun").and_then(Value::as_str);
            fun == Some("undo") && of.and_then(Value::as_str) == Some(jid)
        });
        if is_undo && let Ok(recorded) = record::read(&path) {
            all.push(Changes::from_entries(&recorded.changes));
        }
    }
    all
}

/// Returns all changes of runs after this one, each with the job id of the last run that made it.
fn later(opts: &Opts, jid: &str) -> HashMap<String, String> {
    let mut all = HashMap::new();
    for other in record::jids(opts)
        .into_iter()
        .filter(|other| other.as_str() > jid)
    {
        let recorded = record::read(&record::folder(opts).join(&other)).unwrap_or_default();
        for entry in &recorded.changes {
            let word = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = [word("inverse"), word("changed")].join(" ");
            all.insert(name.trim_start().to_owned(), other.clone());
        }
    }
    all
}

/// The context for checking places.
struct Look<'a> {
    cx: &'a Exec,
    places: HashMap<&'a Path, &'a PathChange>,
    kept: PathBuf,
    undos: Vec<Changes>,
    /// The last later run that changed each path or thing, read when it is first needed.
    later: OnceCell<HashMap<String, String>>,
}

impl Look<'_> {
    /// Returns the reason why the former contents of a place are not available.
    fn not_kept(&self, place: &PathChange) -> Option<String> {
        let hash = place.was.get("sha256").map(Value::to_text)?;
        match image::hash(&self.kept.join(&hash)) {
            _ if !place.is_whole() => None,
            Ok(found) if found == hash => None,
            Ok(_) => Some("its saved contents are damaged".to_owned()),
            Err(_) => Some("its old contents are no longer saved (undo_quota)".to_owned()),
        }
    }

    /// Returns how a place differs from what the run left; `None` if it does not.
    fn moved(&self, place: &PathChange, now: &Image) -> Option<String> {
        let (is, was) = (image::kind(now), image::kind(&place.was));
        if !place.is_whole() && is != was {
            return Some(format!("it was {was}, and is {is} now"));
        }
        let mut first = None;
        let undone = self.undos.iter().filter_map(|undo| undo.place(&place.path));
        let undone = undone.flat_map(|place| &place.is);
        for is in place.is.iter().chain(undone) {
            let why = difference(&place.path, now, is)?;
            first.get_or_insert(why);
        }
        first.or_else(|| Some("its state after the run is not recorded".to_owned()))
    }

    fn may_be(&self, thing: &Resource, now: &Value) -> bool {
        let same = |other: &&Resource| other.word == thing.word && other.name == thing.name;
        let undone = self.undos.iter().flat_map(|undo| &undo.things);
        let mut all = std::iter::once(thing).chain(undone.filter(same));
        all.any(|thing| thing.is_left(now))
    }

    /// Returns another obstacle that prevents restoring a place; `None` if there is none.
    fn in_the_way(&self, place: &PathChange, now: &Image, goal: &Image) -> Option<String> {
        if image::kind(now) == "directory" && image::kind(goal) != "directory" {
            let entries = match fs::list(&place.path) {
                Ok(entries) => entries,
                Err(error) => return Some(error.to_string()),
            };
            let mut foreign = entries.into_iter().filter(|entry| {
                if fs::is_left(&entry.file_name()) {
                    return false;
                }
                let inside = self.places.get(entry.path().as_path());
                inside.is_none_or(|place| image::kind(&place.was) != "absent")
            });
            return foreign.next().map(|entry| {
                let name = entry.file_name();
                format!(
                    "it contains {}, which the run did not create",
                    name.to_string_lossy()
                )
            });
        }
        let above = place.path.parent()?;
        let comes = self
            .places
            .get(above)
            .is_some_and(|above| image::kind(&above.was) == "directory");
        let is_missing = image::kind(goal) != "absent" && !above.is_dir() && !comes;
        is_missing.then(|| "its parent folder does not exist".to_owned())
    }

    /// Describes a change after the run, with the later run that made it if one is on record.
    fn describe(&self, jid: &str, name: &str, why: &str) -> String {
        let by = self.later.get_or_init(|| later(self.cx.opts(), jid));
        match by.get(name) {
            Some(by) => format!("{name}: {why}; run {by} has changed it since"),
            None => format!("{name}: {why}"),
        }
    }
}
