//! The runners that need no master. A new one is a file in this folder and a line in each of the
//! two lists below.

use ::state::module::Module;
use value::Value;

#[cfg(feature = "clouds")]
mod cloud;
mod config;
mod event;
mod fileserver;
mod git_pillar;
mod manage;
mod r#match;
mod mine;
mod pillar;
mod salt;
mod saltutil;
mod state;
mod test;

/// All these runners. A runner that is too large for one file has several parts in this list.
pub const MODULES: &[Module<Value>] = &[
    #[cfg(feature = "clouds")]
    cloud::MODULE,
    config::MODULE,
    event::MODULE,
    fileserver::MODULE,
    git_pillar::MODULE,
    crate::exec::jobs::MODULE,
    manage::MODULE,
    r#match::MODULE,
    mine::MODULE,
    pillar::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    state::MODULE,
    test::MODULE,
];
