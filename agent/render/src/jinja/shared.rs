//! Changes by templates that later templates see, because Python passes references.
//!
//! In Salt, all templates of a run get the same `pillar`, `grains` and `opts`, and `pillar.get`
//! returns a part of the one pillar of the execution functions. A template that changes such a
//! dictionary changes it for the rest of the run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Value;
use value::Map;

use super::args::Args;
use super::containers::{self, Dict, List};
use super::lent::Changes;
use crate::Host;

/// The variables that all templates of a run share.
const NAMES: [&str; 4] = ["pillar", "grains", "opts", "stack"];

const SETTINGS: &str = "stateconf settings";

/// The variables that the templates of a run share, with the changes of the last one. Clones share
/// them too.
#[derive(Clone, Debug, Default)]
pub struct SharedVariables(Arc<Mutex<Map>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedVariables {
    /// Removes the variables, so that the next template sets them again.
    pub fn forget(&self) {
        *lock(&self.0) = Map::new();
    }

    /// Returns a variable with the changes of the last template; `None` if no template has had it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<value::Value> {
        lock(&self.0).get(name).cloned()
    }

    /// Returns the settings of `stateconf.set`, by id. They are stored under a name that is no
    /// valid variable name.
    pub(crate) fn settings(&self) -> Map {
        let settings = lock(&self.0).get(SETTINGS).cloned();
        let settings = settings.and_then(|settings| settings.as_map().cloned());
        settings.unwrap_or_default()
    }

    /// Stores the settings of `stateconf.set`.
    pub(crate) fn set(&self, id: &str, settings: Map) {
        let mut all = self.settings();
        all.insert(id, settings);
        lock(&self.0).insert(SETTINGS, all);
    }

    /// Returns a template's variables with the current shared ones; the first template sets these.
    pub(super) fn laid_over(&self, variables: &Map) -> Map {
        let (mut all, mut shared) = (variables.clone(), lock(&self.0));
        for name in NAMES {
            match (shared.get(name), variables.get(name)) {
                (Some(here), _) => all.insert(name, here.clone()),
                (None, Some(first)) => shared.insert(name, first.clone()),
                (None, None) => None,
            };
        }
        all
    }

    /// Stores the shared variables that a template changed.
    pub(super) fn keep(&self, left: &Dict) {
        for name in NAMES {
            let changed = left.get(&Value::from(name)).and_then(|value| {
                let before = lock(&self.0).get(name)?.clone();
                changed(&value, &before)
            });
            if let Some(changed) = changed {
                lock(&self.0).insert(name, changed);
            }
        }
    }
}

/// Returns the current value of a container, if it changed.
fn changed(container: &Value, before: &value::Value) -> Option<value::Value> {
    let now = containers::to_value(container).ok()?;
    (now != *before).then_some(now)
}

/// The execution functions, and their pillar once a part of it was lent to the template.
pub(super) struct Functions {
    pub(super) host: Arc<dyn Host>,
    lent: Mutex<Option<BorrowedPillar>>,
}

struct BorrowedPillar {
    pillar: Value,
    before: value::Value,
    /// The numbers of changes at the time of lending, and at the last check.
    lent_at: Changes,
    seen_at: Changes,
}

impl BorrowedPillar {
    /// Returns true if the template may have changed the pillar; this requires a change of a lent
    /// container.
    fn may_differ(&self) -> bool {
        let now = Changes::now();
        now.of_lent != self.lent_at.of_lent && now.all != self.seen_at.all
    }
}

/// The result of a look-up in the pillar.
enum Found {
    Container(Value),
    Nothing,
    Other,
}

impl Functions {
    pub(super) fn new(host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(host),
            lent: Mutex::default(),
        })
    }

    /// Passes the template's changes of the pillar to the execution functions.
    pub(super) fn give_back(&self) {
        let mut lent = lock(&self.lent);
        let Some(lent) = lent.as_mut().filter(|lent| lent.may_differ()) else {
            return;
        };
        lent.seen_at = Changes::now();
        if let Some(now) = changed(&lent.pillar, &lent.before) {
            if let Some(pillar) = now.as_map() {
                self.host.set_pillar(pillar.clone());
            }
            lent.before = now;
        }
    }

    /// Returns the reference that `pillar.get` returns: a list or dictionary of the pillar, or the
    /// default itself.
    pub(super) fn pillar_get(&self, args: &Args) -> Option<Value> {
        let plain = args.pos().len() <= 2
            && args
                .all_named()
                .iter()
                .all(|(name, _)| name == "key" || name == "default");
        let path = args.at(0, "key").filter(|_| plain)?;
        match self.at(path.as_str()?)? {
            Found::Container(found) => Some(found),
            Found::Nothing => args
                .at(1, "default")
                .filter(|default| is_container(default))
                .cloned(),
            Found::Other => None,
        }
    }

    fn at(&self, path: &str) -> Option<Found> {
        let mut lent = lock(&self.lent);
        if lent.is_none() {
            let before = value::Value::Map(self.host.pillar()?);
            let pillar = containers::from_value(&before);
            let now = Changes::now();
            *lent = Some(BorrowedPillar {
                pillar,
                before,
                lent_at: now,
                seen_at: now,
            });
        }
        let mut here = lent.as_ref()?.pillar.clone();
        for key in path.split(':') {
            let Some(dict) = here.downcast_object_ref::<Dict>() else {
                return Some(Found::Other);
            };
            match dict.get(&Value::from(key)) {
                Some(next) => here = next,
                // The key may be a number instead of a text.
                None if key.bytes().all(|byte| byte.is_ascii_digit()) => return Some(Found::Other),
                None => return Some(Found::Nothing),
            }
        }
        Some(match is_container(&here) {
            true => Found::Container(here),
            false => Found::Other,
        })
    }
}

fn is_container(value: &Value) -> bool {
    value.downcast_object_ref::<Dict>().is_some() || value.downcast_object_ref::<List>().is_some()
}
