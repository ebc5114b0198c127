//! The state modules. To add one, add a file here and a line to each of the two lists below.

use ::state::module::{Module, Ret};

mod acl;
mod alias;
mod alternatives;
mod apache;
mod apache_conf;
mod apache_module;
mod apache_site;
mod archive;
mod at;
mod beacon;
mod blockdev;
mod bower;
mod cabal;
mod cmd;
mod composer;
mod cron;
mod ddns;
mod debconf;
mod disk;
mod docker;
mod environ;
mod etcd;
mod event;
pub(crate) mod file;
mod firewall;
mod firewalld;
mod gem;
mod git;
mod gpg;
mod grains;
mod group;
mod helm;
mod hg;
mod highstate_doc;
mod host;
mod http;
mod incron;
mod ini;
mod ipset;
mod iptables;
mod keyboard;
mod kmod;
mod locale;
mod logrotate;
mod r#loop;
mod lvm;
mod makeconf;
mod module;
mod monit;
mod mount;
mod mysql;
mod network;
mod nfs_export;
mod nftables;
mod npm;
mod pecl;
mod pip;
mod pkg;
mod pkgrepo;
mod portage_config;
mod postgres;
mod process;
mod pyenv;
mod quota;
mod rabbitmq;
mod raid;
mod rbenv;
mod redis;
mod rsync;
mod salt;
mod saltutil;
mod schedule;
mod selinux;
mod service;
mod ssh_auth;
mod ssh_known_hosts;
mod stateconf;
mod status;
mod supervisord;
mod svn;
mod sysctl;
mod sysfs;
mod test;
mod timezone;
mod tls;
mod tuned;
mod uci;
mod user;
mod virtualenv;
mod webutil;
mod x509;

/// All state modules. A module that is too large for one file appears here in several parts.
pub const MODULES: &[Module<Ret>] = &[
    acl::MODULE,
    alias::MODULE,
    alternatives::MODULE,
    apache::MODULE,
    apache_conf::MODULE,
    apache_module::MODULE,
    apache_site::MODULE,
    archive::MODULE,
    at::MODULE,
    beacon::MODULE,
    blockdev::MODULE,
    bower::MODULE,
    cabal::MODULE,
    cmd::MODULE,
    composer::MODULE,
    cron::MODULE,
    ddns::MODULE,
    debconf::MODULE,
    disk::MODULE,
    docker::container::MODULE,
    docker::image::MODULE,
    docker::network::MODULE,
    docker::volume::MODULE,
    environ::MODULE,
    etcd::MODULE,
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
    firewall::MODULE,
    firewalld::MODULE,
    gem::MODULE,
    git::MODULE,
    git::config::MODULE,
    gpg::MODULE,
    grains::MODULE,
    group::MODULE,
    helm::MODULE,
    hg::MODULE,
    highstate_doc::MODULE,
    host::MODULE,
    http::MODULE,
    incron::MODULE,
    ini::MODULE,
    ipset::MODULE,
    iptables::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    logrotate::MODULE,
    r#loop::MODULE,
    lvm::MODULE,
    makeconf::MODULE,
    module::MODULE,
    monit::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    mysql::database::MODULE,
    mysql::grants::MODULE,
    mysql::query::MODULE,
    mysql::user::MODULE,
    network::MODULE,
    nfs_export::MODULE,
    nftables::MODULE,
    npm::MODULE,
    pecl::MODULE,
    pip::MODULE,
    pkg::MODULE,
    pkgrepo::MODULE,
    portage_config::MODULE,
    postgres::cluster::MODULE,
    postgres::database::MODULE,
    postgres::extension::MODULE,
    postgres::group::MODULE,
    postgres::initdb::MODULE,
    postgres::language::MODULE,
    postgres::privileges::MODULE,
    postgres::schema::MODULE,
    postgres::tablespace::MODULE,
    postgres::user::MODULE,
    process::MODULE,
    pyenv::MODULE,
    quota::MODULE,
    rabbitmq::cluster::MODULE,
    rabbitmq::plugin::MODULE,
    rabbitmq::policy::MODULE,
    rabbitmq::upstream::MODULE,
    rabbitmq::user::MODULE,
    rabbitmq::vhost::MODULE,
    raid::MODULE,
    rbenv::MODULE,
    redis::MODULE,
    rsync::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    schedule::MODULE,
    selinux::MODULE,
    service::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    stateconf::MODULE,
    status::MODULE,
    supervisord::MODULE,
    svn::MODULE,
    sysctl::MODULE,
    sysfs::MODULE,
    test::MODULE,
    timezone::MODULE,
    tls::MODULE,
    tuned::MODULE,
    uci::MODULE,
    user::MODULE,
    virtualenv::MODULE,
    webutil::MODULE,
    x509::MODULE,
];
