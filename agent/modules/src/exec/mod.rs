//! The execution modules. A new one is a file here and a line in each of the two lists below.

use ::state::module::Module;
use value::Value;

pub(crate) mod aliases;
mod alternatives;
pub(crate) mod cmd;
mod config;
pub(crate) mod cp;
pub(crate) mod cron;
mod defaults;
mod dnsutil;
pub(crate) mod environ;
mod event;
pub(crate) mod file;
pub(crate) mod grains;
pub(crate) mod group;
pub(crate) mod hashutil;
mod hosts;
mod http;
pub(crate) mod ini;
mod jinja;
mod kmod;
mod locale;
mod log;
mod r#match;
mod mine;
mod network;
mod pillar;
pub(crate) mod pip;
mod pkg;
mod pkg_resource;
mod random;
mod saltutil;
mod saltutil_sync;
mod service;
pub(crate) mod shadow;
mod slsutil;
pub(crate) mod ssh;
pub(crate) mod state;
mod state_show;
pub(crate) mod status;
mod sys;
mod sysctl;
mod test;
mod timezone;
pub(crate) mod user;
mod virtualenv;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Value>] = &[
    aliases::MODULE,
    alternatives::MODULE,
    cmd::MODULE,
    config::MODULE,
    cp::MODULE,
    cron::MODULE,
    defaults::MODULE,
    dnsutil::MODULE,
    environ::MODULE,
    event::MODULE,
    file::backup::MODULE,
    file::compare::MODULE,
    file::device::MODULE,
    file::edit::MODULE,
    file::edit_block::MODULE,
    file::edit_comment::MODULE,
    file::edit_line::MODULE,
    file::edit_replace::MODULE,
    file::edit_sed::MODULE,
    file::find::MODULE,
    file::links::MODULE,
    file::makedirs::MODULE,
    file::paths::MODULE,
    file::perms::MODULE,
    file::source::MODULE,
    file::stat::MODULE,
    file::touch::MODULE,
    grains::MODULE,
    group::MODULE,
    hashutil::MODULE,
    hosts::MODULE,
    http::MODULE,
    ini::MODULE,
    jinja::MODULE,
    kmod::MODULE,
    locale::MODULE,
    log::MODULE,
    r#match::MODULE,
    mine::MODULE,
    network::MODULE,
    pillar::MODULE,
    pip::MODULE,
    pip::install::MODULE,
    pkg::change::MODULE,
    pkg::files::MODULE,
    pkg::hold::MODULE,
    pkg::list::MODULE,
    pkg::repos::MODULE,
    pkg::versions::MODULE,
    pkg_resource::MODULE,
    random::MODULE,
    saltutil::MODULE,
    saltutil_sync::MODULE,
    service::MODULE,
    shadow::MODULE,
    slsutil::MODULE,
    ssh::MODULE,
    ssh::auth::MODULE,
    ssh::known::MODULE,
    state::MODULE,
    state_show::MODULE,
    status::MODULE,
    sys::MODULE,
    sysctl::MODULE,
    test::MODULE,
    timezone::MODULE,
    user::MODULE,
    user::change::MODULE,
    virtualenv::MODULE,
];
