//! The modules that Salt's loader would find: states, execution modules, runners, wheel functions,
//! grains. Each has its own file.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests create their files in temporary directories"
    )
)]
#![cfg_attr(
    not(feature = "full"),
    allow(
        dead_code,
        reason = "helpers that only modules of a missing family use"
    )
)]

mod backend;
#[cfg(feature = "databases")]
mod databases;
pub mod event_bus;
pub mod exec;
pub mod fileserver;
pub mod git;
pub mod grains;
pub mod loader;
mod pillars;
pub mod returners;
pub mod runners;
mod serializers;
pub mod served;
pub mod state_run;
pub mod states;
#[cfg(test)]
mod testing;
pub mod wheel;

pub use exec::file::paths::globbed;

use ::state::module::Module;
use value::Value;

/// The modules of this crate, for the engine. As a `const`, its tables would be in the program once
/// for each place that uses it.
pub static REGISTRY: state::exec::Registry = state::exec::Registry {
    states: states::MODULES,
    functions: exec::MODULES,
    runners: runners::MODULES,
    wheel: wheel::MODULES,
    pillars: pillars::PILLARS,
    returners: returners::all,
    missing: loader::needs::missing,
    lacks: loader::needs::lacks,
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
    let mut all: Vec<Module<Value>> = both.map(|module| Module { ..*module }).collect();
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
