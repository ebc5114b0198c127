//! The execution modules. A new one is a file here and a line in each of the two lists below.

use ::state::module::Module;
use value::Value;

pub(crate) mod acl;
pub(crate) mod aliases;
pub(crate) mod alternatives;
pub(crate) mod apache;
pub(crate) mod archive;
mod beacons;
pub(crate) mod cmd;
mod config;
pub(crate) mod cp;
pub(crate) mod cron;
mod data;
pub(crate) mod debconf;
mod defaults;
mod dig;
pub(crate) mod disk;
mod disk_programs;
mod dnsutil;
pub(crate) mod docker;
pub(crate) mod environ;
mod event;
pub(crate) mod file;
pub(crate) mod firewalld;
pub(crate) mod gem;
pub(crate) mod git;
mod gpg;
pub(crate) mod grains;
pub(crate) mod group;
pub(crate) mod hashutil;
mod helm;
mod hosts;
mod http;
pub(crate) mod ini;
pub(crate) mod ip;
pub(crate) mod iptables;
mod jinja;
mod keyboard;
mod kmod;
mod locale;
mod log;
pub(crate) mod lvm;
mod r#match;
mod mine;
pub(crate) mod mount;
pub(crate) mod mysql;
mod network;
mod network_programs;
pub(crate) mod npm;
mod pillar;
pub(crate) mod pip;
pub(crate) mod pkg;
mod pkg_resource;
pub(crate) mod postgres;
mod ps;
mod publish;
mod quota;
pub(crate) mod rabbitmq;
pub(crate) mod raid;
mod random;
mod saltutil;
mod saltutil_sync;
mod schedule;
mod sdb;
pub(crate) mod selinux;
mod service;
pub(crate) mod shadow;
mod slsutil;
pub(crate) mod ssh;
pub(crate) mod state;
mod state_pause;
mod state_request;
mod state_show;
pub(crate) mod status;
mod status_tables;
pub(crate) mod supervisord;
mod sys;
mod sysctl;
mod sysfs;
mod system;
mod temp;
mod test;
mod timezone;
pub(crate) mod uci;
pub(crate) mod user;
mod virtualenv;
pub(crate) mod x509;

/// Every one of them. One that is too large for a file stands here in several parts.
pub const MODULES: &[Module<Value>] = &[
    acl::MODULE,
    aliases::MODULE,
    alternatives::MODULE,
    apache::MODULE,
    archive::MODULE,
    beacons::MODULE,
    cmd::MODULE,
    config::MODULE,
    cp::MODULE,
    cron::MODULE,
    data::MODULE,
    debconf::MODULE,
    defaults::MODULE,
    dig::MODULE,
    disk::MODULE,
    disk_programs::MODULE,
    dnsutil::MODULE,
    docker::MODULE,
    docker::image_functions::MODULE,
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
    firewalld::MODULE,
    firewalld::services::MODULE,
    gem::MODULE,
    git::config::MODULE,
    git::history::MODULE,
    git::remote::MODULE,
    git::tree::MODULE,
    gpg::MODULE,
    grains::MODULE,
    group::MODULE,
    hashutil::MODULE,
    helm::MODULE,
    hosts::MODULE,
    http::MODULE,
    ini::MODULE,
    ip::MODULE,
    iptables::MODULE,
    jinja::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    log::MODULE,
    lvm::MODULE,
    r#match::MODULE,
    mine::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    mysql::MODULE,
    mysql::database::MODULE,
    mysql::grants::MODULE,
    mysql::user::MODULE,
    network::MODULE,
    network_programs::MODULE,
    npm::MODULE,
    pillar::MODULE,
    pip::MODULE,
    pip::install::MODULE,
    pkg::change::MODULE,
    pkg::files::MODULE,
    pkg::hold::MODULE,
    pkg::list::MODULE,
    pkg::repo::MODULE,
    pkg::repos::MODULE,
    pkg::versions::MODULE,
    pkg_resource::MODULE,
    postgres::MODULE,
    postgres::cluster::MODULE,
    postgres::database::MODULE,
    postgres::extension::MODULE,
    postgres::privileges::MODULE,
    postgres::role::MODULE,
    postgres::schema::MODULE,
    ps::MODULE,
    publish::MODULE,
    quota::MODULE,
    rabbitmq::MODULE,
    raid::MODULE,
    random::MODULE,
    saltutil::MODULE,
    saltutil_sync::MODULE,
    schedule::MODULE,
    sdb::MODULE,
    selinux::MODULE,
    selinux::policy::MODULE,
    service::MODULE,
    shadow::MODULE,
    slsutil::MODULE,
    ssh::MODULE,
    ssh::auth::MODULE,
    ssh::known::MODULE,
    state::MODULE,
    state_pause::MODULE,
    state_request::MODULE,
    state_show::MODULE,
    status::MODULE,
    status_tables::MODULE,
    supervisord::MODULE,
    sys::MODULE,
    sysctl::MODULE,
    sysfs::MODULE,
    system::MODULE,
    temp::MODULE,
    test::MODULE,
    timezone::MODULE,
    uci::MODULE,
    user::MODULE,
    user::change::MODULE,
    virtualenv::MODULE,
    x509::MODULE,
];
