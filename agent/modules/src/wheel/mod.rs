//! The wheel functions that need no master. A new module is a file in this folder and a line in
//! each of the two lists below.

use state::module::Module;
use value::Value;

mod config;
mod file_roots;
mod key;
mod pillar_roots;
mod roots;

/// All modules of wheel functions.
pub const MODULES: &[Module<Value>] = &[
    config::MODULE,
    file_roots::MODULE,
    key::MODULE,
    pillar_roots::MODULE,
];
