//! The state modules. A new one is a file here and a line in each of the two lists below.

use ::state::module::{Module, Ret};

mod archive;
mod cmd;
mod environ;
mod event;
pub(crate) mod file;
mod git;
mod grains;
mod http;
mod ini;
mod module;
mod mount;
mod pip;
mod salt;
mod stateconf;
mod test;
mod virtualenv;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Ret>] = &[
    archive::MODULE,
    cmd::MODULE,
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
    git::MODULE,
    git::config::MODULE,
    grains::MODULE,
    http::MODULE,
    ini::MODULE,
    module::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    pip::MODULE,
    salt::MODULE,
    stateconf::MODULE,
    test::MODULE,
    virtualenv::MODULE,
];
