//! The execution modules that need the daemon's own files. A function here replaces a function of
//! the same name that does not need them.

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

/// Returns everything that a minion can run: all functions that this machine supports, and the
/// minion's own functions.
#[must_use]
pub fn registry() -> &'static Registry {
    &REGISTRY
}
