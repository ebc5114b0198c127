//! The pillar and the SLS of another machine, from the trees and the sources of this one.

use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use state::tops;
use value::{Map, secret};

use super::Refusal;
use super::files::environment;
use crate::fileserver::roots::Roots;
use crate::loader::custom::CustomModules;
use crate::state_run::orchestrate::ThisMachine;

/// A request for the pillar of another machine, or for its SLS of `master_tops`.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The id of the machine. It never comes from the machine itself.
    pub id: String,
    /// Its grains. The grain `id` is replaced.
    pub grains: Map,
    /// The environment of states; `None` uses the configuration's.
    pub saltenv: Option<String>,
    /// The environment of pillar.
    pub pillarenv: Option<String>,
    /// Pillar from the command line.
    pub pillar_override: Map,
}

impl Asked {
    /// Checks the names of the environments, because they may come from the machine.
    ///
    /// # Errors
    /// When one is not a plain name.
    pub fn check(&self) -> Result<(), Refusal> {
        let mut named = [&self.saltenv, &self.pillarenv].into_iter().flatten();
        named.try_for_each(|name| environment(name))
    }

    /// Compiles the pillar with the configuration and the trees of this machine.
    ///
    /// # Errors
    /// When it cannot be compiled.
    pub fn compile(self, opts: &Opts) -> Result<Map, Error> {
        let cx = self.context(opts);
        let pillar = cx.shared.sources.pillar(&cx)?;
        secret::note(&pillar);
        Ok(pillar)
    }

    /// Returns the SLS that the sources of `master_tops` in this machine's configuration assign to
    /// the machine, by environment.
    ///
    /// # Errors
    /// When a source fails.
    pub fn tops(self, opts: &Opts) -> Result<Map, Error> {
        tops::load(&self.context(opts))
    }

    fn context(self, opts: &Opts) -> Exec {
        let mut map = opts.map.clone();
        map.insert("id", self.id.as_str());
        for (key, value) in [("saltenv", &self.saltenv), ("pillarenv", &self.pillarenv)] {
            if let Some(value) = value {
                map.insert(key, value.as_str());
            }
        }
        // The machine may report any id.
        let grains = self.grains.with("id", self.id.as_str());
        map.insert("grains", grains.clone());
        map.insert("__role", "minion");
        let opts = Opts::new(map);
        let cx = Exec::with_custom(
            opts.clone(),
            &crate::REGISTRY,
            Box::new(Roots::states(&opts)),
            Box::new(ThisMachine),
            Box::new(CustomModules::new(&opts)),
        );
        let given = Some(self.pillar_override).filter(|given| !given.is_empty());
        cx.set_grains(grains);
        cx.with_pillarenv(self.pillarenv, given)
    }
}
