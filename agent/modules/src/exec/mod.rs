//! The execution modules. A new module needs a file in this folder and a line in each of the two
//! lists below.

use ::state::module::Module;
use value::Value;

pub(crate) mod acl;
pub(crate) mod aliases;
pub(crate) mod alternatives;
#[cfg(feature = "web-servers")]
pub(crate) mod apache;
pub(crate) mod archive;
#[cfg(feature = "certificates")]
mod asymmetric;
pub(crate) mod at;
mod beacons;
#[cfg(feature = "languages")]
pub(crate) mod bower;
#[cfg(feature = "languages")]
pub(crate) mod cabal;
#[cfg(feature = "clouds")]
pub mod cloud;
pub(crate) mod cmd;
#[cfg(feature = "languages")]
pub(crate) mod composer;
mod config;
#[cfg(feature = "stores")]
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
#[cfg(feature = "containers")]
pub(crate) mod docker;
pub(crate) mod environ;
#[cfg(feature = "stores")]
pub(crate) mod etcd;
mod event;
#[cfg(feature = "disks")]
mod extfs;
pub(crate) mod file;
pub(crate) mod filter_by;
#[cfg(feature = "packet-filters")]
pub(crate) mod firewalld;
#[cfg(feature = "languages")]
pub(crate) mod gem;
pub(crate) mod git;
pub(crate) mod gpg;
pub(crate) mod grains;
pub(crate) mod group;
pub(crate) mod hashutil;
#[cfg(feature = "containers")]
mod helm;
#[cfg(feature = "source-control")]
pub(crate) mod hg;
mod hosts;
pub(crate) mod http;
pub(crate) mod incron;
pub(crate) mod ini;
#[cfg(feature = "interfaces")]
pub(crate) mod ip;
#[cfg(feature = "packet-filters")]
pub(crate) mod ipset;
#[cfg(feature = "packet-filters")]
pub(crate) mod iptables;
mod jinja;
pub(crate) mod jobs;
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
#[cfg(feature = "disks")]
pub(crate) mod lvm;
#[cfg(feature = "gentoo")]
pub(crate) mod makeconf;
mod r#match;
#[cfg(feature = "notifications")]
pub(crate) mod mattermost;
mod mine;
mod minion;
pub(crate) mod monit;
pub(crate) mod mount;
#[cfg(feature = "notifications")]
pub(crate) mod msteams;
#[cfg(feature = "databases")]
pub(crate) mod mysql;
mod network;
mod network_around;
mod network_programs;
#[cfg(feature = "disks")]
pub(crate) mod nfs3;
#[cfg(feature = "packet-filters")]
pub(crate) mod nftables;
#[cfg(feature = "notifications")]
pub(crate) mod notify;
#[cfg(feature = "languages")]
pub(crate) mod npm;
#[cfg(feature = "notifications")]
pub(crate) mod pagerduty;
mod pam;
#[cfg(feature = "disks")]
mod partition;
#[cfg(feature = "languages")]
pub(crate) mod pecl;
pub(crate) mod pillar;
pub(crate) mod pip;
pub(crate) mod pkg;
mod pkg_resource;
#[cfg(feature = "gentoo")]
pub(crate) mod portage_config;
#[cfg(feature = "databases")]
pub(crate) mod postgres;
mod ps;
mod ps_counters;
mod ps_processes;
mod publish;
#[cfg(feature = "notifications")]
pub(crate) mod pushover;
#[cfg(feature = "languages")]
pub(crate) mod pyenv;
#[cfg(feature = "disks")]
mod quota;
#[cfg(feature = "stores")]
pub(crate) mod rabbitmq;
#[cfg(feature = "disks")]
pub(crate) mod raid;
mod random;
#[cfg(feature = "languages")]
pub(crate) mod rbenv;
#[cfg(feature = "databases")]
pub(crate) mod redis;
pub(crate) mod rsync;
mod salt_version;
#[cfg(feature = "testing")]
mod saltcheck;
mod saltutil;
mod saltutil_sync;
pub mod schedule;
mod sdb;
#[cfg(feature = "selinux")]
pub(crate) mod selinux;
pub(crate) mod service;
pub(crate) mod shadow;
#[cfg(feature = "notifications")]
pub(crate) mod slack;
mod slsutil;
#[cfg(feature = "mail")]
pub(crate) mod smtp;
pub(crate) mod ssh;
#[cfg(feature = "certificates")]
pub(crate) mod ssh_pki;
pub(crate) mod state;
mod state_pause;
mod state_request;
mod state_show;
pub(crate) mod status;
mod status_tables;
pub(crate) mod supervisord;
#[cfg(feature = "source-control")]
pub(crate) mod svn;
mod sys;
mod sysctl;
mod sysfs;
mod system;
mod system_clock;
mod system_computer;
#[cfg(feature = "notifications")]
pub(crate) mod telegram;
mod temp;
mod test;
mod timezone;
#[cfg(feature = "certificates")]
pub(crate) mod tls;
pub(crate) mod tool;
pub(crate) mod tuned;
pub(crate) mod uci;
pub(crate) mod user;
#[cfg(feature = "stores")]
pub(crate) mod vault;
mod virtualenv;
#[cfg(feature = "web-servers")]
pub(crate) mod webutil;
#[cfg(feature = "certificates")]
pub mod x509;

/// All execution modules. A module that is too large for one file is listed as several parts.
pub const MODULES: &[Module<Value>] = &[
    acl::MODULE,
    aliases::MODULE,
    alternatives::MODULE,
    #[cfg(feature = "web-servers")]
    apache::MODULE,
    archive::MODULE,
    #[cfg(feature = "certificates")]
    asymmetric::MODULE,
    at::MODULE,
    beacons::MODULE,
    #[cfg(feature = "languages")]
    bower::MODULE,
    #[cfg(feature = "languages")]
    cabal::MODULE,
    #[cfg(feature = "clouds")]
    cloud::MODULE,
    cmd::MODULE,
    cmd::shell_info::MODULE,
    #[cfg(feature = "languages")]
    composer::MODULE,
    config::MODULE,
    #[cfg(feature = "stores")]
    consul::MODULE,
    cp::MODULE,
    cp::recv::MODULE,
    cron::MODULE,
    data::MODULE,
    ddns::MODULE,
    debconf::MODULE,
    defaults::MODULE,
    dig::MODULE,
    disk::MODULE,
    disk_programs::MODULE,
    dnsutil::MODULE,
    #[cfg(feature = "containers")]
    docker::MODULE,
    #[cfg(feature = "containers")]
    docker::image_functions::MODULE,
    environ::MODULE,
    #[cfg(feature = "stores")]
    etcd::MODULE,
    event::MODULE,
    #[cfg(feature = "disks")]
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
    #[cfg(feature = "packet-filters")]
    firewalld::MODULE,
    #[cfg(feature = "packet-filters")]
    firewalld::services::MODULE,
    #[cfg(feature = "languages")]
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
    #[cfg(feature = "containers")]
    helm::MODULE,
    #[cfg(feature = "source-control")]
    hg::MODULE,
    hosts::MODULE,
    http::MODULE,
    incron::MODULE,
    ini::MODULE,
    #[cfg(feature = "interfaces")]
    ip::MODULE,
    #[cfg(feature = "packet-filters")]
    ipset::MODULE,
    #[cfg(feature = "packet-filters")]
    iptables::MODULE,
    jinja::MODULE,
    jobs::MODULE,
    kernelpkg::MODULE,
    key::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    locate::MODULE,
    log::MODULE,
    logrotate::MODULE,
    lowpkg::MODULE,
    #[cfg(feature = "disks")]
    lvm::MODULE,
    #[cfg(feature = "gentoo")]
    makeconf::MODULE,
    r#match::MODULE,
    #[cfg(feature = "notifications")]
    mattermost::MODULE,
    mine::MODULE,
    minion::MODULE,
    monit::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    #[cfg(feature = "notifications")]
    msteams::MODULE,
    #[cfg(feature = "databases")]
    mysql::MODULE,
    #[cfg(feature = "databases")]
    mysql::database::MODULE,
    #[cfg(feature = "databases")]
    mysql::grants::MODULE,
    #[cfg(feature = "databases")]
    mysql::user::MODULE,
    network::MODULE,
    network_around::MODULE,
    network_programs::MODULE,
    #[cfg(feature = "disks")]
    nfs3::MODULE,
    #[cfg(feature = "packet-filters")]
    nftables::MODULE,
    #[cfg(feature = "languages")]
    npm::MODULE,
    #[cfg(feature = "notifications")]
    pagerduty::MODULE,
    pam::MODULE,
    #[cfg(feature = "disks")]
    partition::MODULE,
    #[cfg(feature = "languages")]
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
    #[cfg(feature = "gentoo")]
    portage_config::MODULE,
    #[cfg(feature = "databases")]
    postgres::MODULE,
    #[cfg(feature = "databases")]
    postgres::cluster::MODULE,
    #[cfg(feature = "databases")]
    postgres::database::MODULE,
    #[cfg(feature = "databases")]
    postgres::extension::MODULE,
    #[cfg(feature = "databases")]
    postgres::privileges::MODULE,
    #[cfg(feature = "databases")]
    postgres::role::MODULE,
    #[cfg(feature = "databases")]
    postgres::schema::MODULE,
    ps::MODULE,
    ps_counters::MODULE,
    ps_processes::MODULE,
    publish::MODULE,
    #[cfg(feature = "notifications")]
    pushover::MODULE,
    #[cfg(feature = "languages")]
    pyenv::MODULE,
    #[cfg(feature = "disks")]
    quota::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::MODULE,
    #[cfg(feature = "disks")]
    raid::MODULE,
    random::MODULE,
    #[cfg(feature = "languages")]
    rbenv::MODULE,
    #[cfg(feature = "databases")]
    redis::MODULE,
    rsync::MODULE,
    salt_version::MODULE,
    #[cfg(feature = "testing")]
    saltcheck::MODULE,
    saltutil::MODULE,
    saltutil_sync::MODULE,
    schedule::MODULE,
    sdb::MODULE,
    #[cfg(feature = "selinux")]
    selinux::MODULE,
    #[cfg(feature = "selinux")]
    selinux::policy::MODULE,
    service::MODULE,
    shadow::MODULE,
    #[cfg(feature = "notifications")]
    slack::MODULE,
    slsutil::MODULE,
    #[cfg(feature = "mail")]
    smtp::MODULE,
    ssh::MODULE,
    ssh::auth::MODULE,
    ssh::known::MODULE,
    #[cfg(feature = "certificates")]
    ssh_pki::MODULE,
    state::MODULE,
    state_pause::MODULE,
    state_request::MODULE,
    state_show::MODULE,
    status::MODULE,
    status_tables::MODULE,
    supervisord::MODULE,
    #[cfg(feature = "source-control")]
    svn::MODULE,
    sys::MODULE,
    sysctl::MODULE,
    sysfs::MODULE,
    system::MODULE,
    #[cfg(feature = "notifications")]
    telegram::MODULE,
    temp::MODULE,
    test::MODULE,
    timezone::MODULE,
    #[cfg(feature = "certificates")]
    tls::MODULE,
    tuned::MODULE,
    uci::MODULE,
    user::MODULE,
    user::change::MODULE,
    #[cfg(feature = "stores")]
    vault::MODULE,
    virtualenv::MODULE,
    #[cfg(feature = "web-servers")]
    webutil::MODULE,
    #[cfg(feature = "certificates")]
    x509::MODULE,
];
