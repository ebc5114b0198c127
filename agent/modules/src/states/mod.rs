//! The state modules. A new one is a file here and a line in each of the two lists below.

use ::state::module::{Module, Ret};

mod alias;
mod cmd;
mod cron;
mod environ;
mod event;
pub(crate) mod file;
mod grains;
mod group;
mod ini;
mod module;
mod pip;
mod salt;
mod saltutil;
mod ssh_auth;
mod ssh_known_hosts;
mod stateconf;
mod test;
mod user;
mod virtualenv;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Ret>] = &[
    alias::MODULE,
    cmd::MODULE,
    cron::MODULE,
    environ::MODULE,
    event::MODULE,
    file::absent::MODULE,
    file::accumulated::MODULE,
    file::append::MODULE,
    file::blockreplace::MODULE,
    file::cached::MODULE,
    file::comment::MODULE,
    file::copy::MODULE,
    file::decode::MODULE,
    file::directory::MODULE,
    file::keyvalue::MODULE,
    file::line::MODULE,
    file::link::MODULE,
    file::managed::MODULE,
    file::mknod::MODULE,
    file::patch::MODULE,
    file::recurse::MODULE,
    file::replace::MODULE,
    file::serialize::MODULE,
    file::tidied::MODULE,
    grains::MODULE,
    group::MODULE,
    ini::MODULE,
    module::MODULE,
    pip::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    stateconf::MODULE,
    test::MODULE,
    user::MODULE,
    virtualenv::MODULE,
];
