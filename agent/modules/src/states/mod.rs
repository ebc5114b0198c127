//! The state modules. A new one is a file here and a line in each of the two lists below.

use ::state::exec::Aggregate;
use ::state::module::{Module, Ret};

mod alias;
mod alternatives;
mod apache;
mod apache_conf;
mod apache_module;
mod apache_site;
mod archive;
mod cmd;
mod cron;
mod debconf;
mod environ;
mod event;
pub(crate) mod file;
mod gem;
mod git;
mod grains;
mod group;
mod host;
mod http;
mod ini;
mod kmod;
mod locale;
mod module;
mod mount;
mod network;
mod npm;
mod pip;
mod pkg;
mod pkgrepo;
mod salt;
mod saltutil;
mod schedule;
mod service;
mod ssh_auth;
mod ssh_known_hosts;
mod stateconf;
mod supervisord;
mod sysctl;
mod test;
mod timezone;
mod uci;
mod user;
mod virtualenv;
mod x509;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Ret>] = &[
    alias::MODULE,
    alternatives::MODULE,
    apache::MODULE,
    apache_conf::MODULE,
    apache_module::MODULE,
    apache_site::MODULE,
    archive::MODULE,
    cmd::MODULE,
    cron::MODULE,
    debconf::MODULE,
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
    gem::MODULE,
    git::MODULE,
    git::config::MODULE,
    grains::MODULE,
    group::MODULE,
    host::MODULE,
    http::MODULE,
    ini::MODULE,
    kmod::MODULE,
    locale::MODULE,
    module::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    network::MODULE,
    npm::MODULE,
    pip::MODULE,
    pkg::MODULE,
    pkgrepo::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    schedule::MODULE,
    service::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    stateconf::MODULE,
    supervisord::MODULE,
    sysctl::MODULE,
    test::MODULE,
    timezone::MODULE,
    uci::MODULE,
    user::MODULE,
    virtualenv::MODULE,
    x509::MODULE,
];

/// Those whose chunks can be put together (`aggregate`).
pub const AGGREGATES: &[(&str, Aggregate)] = &[("pkg", pkg::aggregate::joined)];
