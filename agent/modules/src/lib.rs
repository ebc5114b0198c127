//! The modules that Salt's loader would find: states, execution modules, runners, wheel functions,
//! grains. Each has its own file.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

mod account_files;
mod account_tools;
pub mod accounts;
pub mod bus;
pub mod call;
mod crypt;
pub mod custom;
pub mod exec;
pub mod fs;
pub mod grains;
pub mod hashes;
mod inifile;
pub mod interfaces;
pub mod inverses;
pub mod lookup;
mod missing;
pub mod orchestrate;
mod pkg;
pub mod process;
pub mod procfs;
mod real;
mod repos;
pub mod resume;
pub mod returners;
pub mod roots;
pub mod runners;
pub mod schedule_file;
mod serializers;
mod service;
mod source;
pub mod state_run;
pub mod states;
mod stores;
mod template;
#[cfg(test)]
mod testing;
pub mod users;
pub mod version;
pub mod web;
pub mod wheel;
pub mod x509;
mod zypper;

pub use exec::file::paths::globbed;

use ::state::module::Module;
use value::Value;

/// The modules of this crate, for the engine.
pub const REGISTRY: state::exec::Registry = state::exec::Registry {
    states: states::MODULES,
    functions: exec::MODULES,
    runners: runners::MODULES,
    wheel: wheel::MODULES,
    missing: missing::missing,
    aggregates: states::AGGREGATES,
    grains: grains::collect,
};

/// Returns the modules of this crate with further ones, sorted by name. For equal names these come
/// first. The list is created once and lives as long as the program.
#[must_use]
pub fn with(
    own: &'static [Module<Value>],
    others: &'static [Module<Value>],
) -> &'static [Module<Value>] {
    let both = own.iter().chain(others);
    let mut all: Vec<Module<Value>> = both
        .map(|module| Module {
            name: module.name,
            doc: module.doc,
            functions: module.functions,
        })
        .collect();
    value::sorted::sort_by_key(&mut all, |module| module.name);
    Vec::leak(all)
}

#[cfg(test)]
mod tests {
    use super::REGISTRY;

    #[test]
    fn modules_are_listed_in_the_order_of_their_names() {
        assert!(REGISTRY.states.is_sorted_by_key(|module| module.name));
        assert!(REGISTRY.functions.is_sorted_by_key(|module| module.name));
        assert!(REGISTRY.runners.is_sorted_by_key(|module| module.name));
        assert!(REGISTRY.wheel.is_sorted_by_key(|module| module.name));
    }
}
