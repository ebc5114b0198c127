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
