//! The runners that need no master. A new one is a file here and a line in each of the two lists below.

use ::state::module::Module;
use value::Value;

mod config;
mod event;
mod fileserver;
mod jobs;
mod manage;
mod r#match;
mod mine;
mod pillar;
mod salt;
mod saltutil;
mod state;
mod test;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Value>] = &[
    config::MODULE,
    event::MODULE,
    fileserver::MODULE,
    jobs::MODULE,
    manage::MODULE,
    r#match::MODULE,
    mine::MODULE,
    pillar::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    state::MODULE,
    test::MODULE,
];

/// These runners and those of [`MODULES`], sorted by name, these first; made once, so that they may stay for ever.
#[must_use]
pub fn with(own: &'static [Module<Value>]) -> &'static [Module<Value>] {
    let both = own.iter().chain(MODULES);
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
