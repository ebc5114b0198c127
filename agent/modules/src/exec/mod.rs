//! The execution modules. A new module needs a file in this folder and a line in each of the two
//! lists below.

use ::state::module::Module;
use value::Value;

pub(crate) mod acl;
pub(crate) mod aliases;
pub(crate) mod alternatives;
pub(crate) mod apache;
pub(crate) mod archive;
mod asymmetric;
pub(crate) mod at;
mod beacons;
pub(crate) mod bower;
pub(crate) mod cabal;
pub(crate) mod cmd;
pub(crate) mod composer;
mod config;
pub(crate) mod consul;
pub(crate) mod cp;
pub(crate) mod cron;
mod data;
mod ddns;
pub(crate) mod debconf;
mod defaults;
mod dig;
pub(crate) mod disk;
mod disk_programs;
mod dnsutil;
pub(crate) mod docker;
pub(crate) mod environ;
pub(crate) mod etcd;
mod event;
mod extfs;
pub(crate) mod file;
pub(crate) mod filter_by;
pub(crate) mod firewalld;
pub(crate) mod gem;
pub(crate) mod git;
pub(crate) mod gpg;
pub(crate) mod grains;
pub(crate) mod group;
pub(crate) mod hashutil;
mod helm;
pub(crate) mod hg;
mod hosts;
mod http;
pub(crate) mod incron;
pub(crate) mod ini;
pub(crate) mod ip;
pub(crate) mod ipset;
pub(crate) mod iptables;
mod jinja;
pub(crate) mod json_api;
mod kernelpkg;
mod key;
mod keyboard;
mod kmod;
mod locale;
mod locate;
mod log;
pub(crate) mod logrotate;
pub(crate) mod lowpkg;
pub(crate) mod lvm;
pub(crate) mod makeconf;
mod r#match;
mod mine;
mod minion;
pub(crate) mod monit;
pub(crate) mod mount;
pub(crate) mod mysql;
mod network;
mod network_around;
mod network_programs;
pub(crate) mod nfs3;
pub(crate) mod nftables;
pub(crate) mod npm;
mod pam;
mod partition;
pub(crate) mod pecl;
mod pillar;
pub(crate) mod pip;
pub(crate) mod pkg;
mod pkg_resource;
pub(crate) mod portage_config;
pub(crate) mod postgres;
mod ps;
mod ps_counters;
mod ps_processes;
mod publish;
pub(crate) mod pyenv;
mod quota;
pub(crate) mod rabbitmq;
pub(crate) mod raid;
mod random;
pub(crate) mod rbenv;
pub(crate) mod redis;
pub(crate) mod rsync;
mod salt_version;
mod saltutil;
mod saltutil_sync;
pub mod schedule;
mod sdb;
pub(crate) mod selinux;
pub(crate) mod service;
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
pub(crate) mod svn;
mod sys;
mod sysctl;
mod sysfs;
mod system;
mod temp;
mod test;
mod timezone;
pub(crate) mod tls;
pub(crate) mod tool;
pub(crate) mod tuned;
pub(crate) mod uci;
pub(crate) mod user;
pub(crate) mod vault;
mod virtualenv;
pub(crate) mod webutil;
pub mod x509;

/// All execution modules. A module that is too large for one file is listed as several parts.
pub const MODULES: &[Module<Value>] = &[
    acl::MODULE,
    aliases::MODULE,
    alternatives::MODULE,
    apache::MODULE,
    archive::MODULE,
    asymmetric::MODULE,
    at::MODULE,
    beacons::MODULE,
    bower::MODULE,
    cabal::MODULE,
    cmd::MODULE,
    cmd::shell_info::MODULE,
    composer::MODULE,
    config::MODULE,
    consul::MODULE,
    cp::MODULE,
    cron::MODULE,
    data::MODULE,
    ddns::MODULE,
    debconf::MODULE,
    defaults::MODULE,
    dig::MODULE,
    disk::MODULE,
    disk_programs::MODULE,
    dnsutil::MODULE,
    docker::MODULE,
    docker::image_functions::MODULE,
    environ::MODULE,
    etcd::MODULE,
    event::MODULE,
    extfs::MODULE,
    file::backup::MODULE,
    file::compare::MODULE,
    file::context::MODULE,
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
    gpg::verify::MODULE,
    grains::MODULE,
    group::MODULE,
    hashutil::MODULE,
    helm::MODULE,
    hg::MODULE,
    hosts::MODULE,
    http::MODULE,
    incron::MODULE,
    ini::MODULE,
    ip::MODULE,
    ipset::MODULE,
    iptables::MODULE,
    jinja::MODULE,
    kernelpkg::MODULE,
    key::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    locate::MODULE,
    log::MODULE,
    logrotate::MODULE,
    lowpkg::MODULE,
    lvm::MODULE,
    makeconf::MODULE,
    r#match::MODULE,
    mine::MODULE,
    minion::MODULE,
    monit::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    mysql::MODULE,
    mysql::database::MODULE,
    mysql::grants::MODULE,
    mysql::user::MODULE,
    network::MODULE,
    network_around::MODULE,
    network_programs::MODULE,
    nfs3::MODULE,
    nftables::MODULE,
    npm::MODULE,
    pam::MODULE,
    partition::MODULE,
    pecl::MODULE,
    pillar::MODULE,
    pip::MODULE,
    pip::install::MODULE,
    pkg::change::MODULE,
    pkg::debian::MODULE,
    pkg::files::MODULE,
    pkg::groups::MODULE,
    pkg::hold::MODULE,
    pkg::list::MODULE,
    pkg::repo::MODULE,
    pkg::repos::MODULE,
    pkg::versions::MODULE,
    pkg_resource::MODULE,
    portage_config::MODULE,
    postgres::MODULE,
    postgres::cluster::MODULE,
    postgres::database::MODULE,
    postgres::extension::MODULE,
    postgres::privileges::MODULE,
    postgres::role::MODULE,
    postgres::schema::MODULE,
    ps::MODULE,
    ps_counters::MODULE,
    ps_processes::MODULE,
    publish::MODULE,
    pyenv::MODULE,
    quota::MODULE,
    rabbitmq::MODULE,
    raid::MODULE,
    random::MODULE,
    rbenv::MODULE,
    redis::MODULE,
    rsync::MODULE,
    salt_version::MODULE,
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
    svn::MODULE,
    sys::MODULE,
    sysctl::MODULE,
    sysfs::MODULE,
    system::MODULE,
    temp::MODULE,
    test::MODULE,
    timezone::MODULE,
    tls::MODULE,
    tuned::MODULE,
    uci::MODULE,
    user::MODULE,
    user::change::MODULE,
    vault::MODULE,
    virtualenv::MODULE,
    webutil::MODULE,
    x509::MODULE,
];
