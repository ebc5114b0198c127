//! The execution modules that know the daemon's own files. A function that stands here goes before the one of its name that needs nothing.

use std::sync::LazyLock;

use state::exec::Registry;
use state::module::Module;
use value::Value;

mod reactor;

const MODULES: &[Module<Value>] = &[reactor::MODULE];

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry {
    functions: modules::with(MODULES, modules::exec::MODULES),
    ..modules::REGISTRY
});

/// What a minion runs: all that this machine can, and its own functions.
#[must_use]
pub fn registry() -> &'static Registry {
    &REGISTRY
}
