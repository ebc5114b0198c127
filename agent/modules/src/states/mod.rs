//! The state modules. To add one, add a file here and a line to each of the two lists below.

use ::state::module::{Module, Ret};

mod acl;
mod alias;
mod alternatives;
#[cfg(feature = "web-servers")]
mod apache;
#[cfg(feature = "web-servers")]
mod apache_conf;
#[cfg(feature = "web-servers")]
mod apache_module;
#[cfg(feature = "web-servers")]
mod apache_site;
mod archive;
mod at;
mod beacon;
#[cfg(feature = "disks")]
mod blockdev;
#[cfg(feature = "languages")]
mod bower;
#[cfg(feature = "languages")]
mod cabal;
#[cfg(feature = "clouds")]
mod cloud;
mod cmd;
#[cfg(feature = "languages")]
mod composer;
mod cron;
mod ddns;
mod debconf;
mod disk;
#[cfg(feature = "containers")]
mod docker;
mod environ;
#[cfg(feature = "stores")]
mod etcd;
mod event;
pub(crate) mod file;
mod firewall;
#[cfg(feature = "packet-filters")]
mod firewalld;
#[cfg(feature = "languages")]
mod gem;
mod git;
mod gpg;
mod grains;
mod group;
#[cfg(feature = "containers")]
mod helm;
#[cfg(feature = "source-control")]
mod hg;
mod highstate_doc;
mod host;
mod http;
mod incron;
mod ini;
#[cfg(feature = "packet-filters")]
mod ipset;
#[cfg(feature = "packet-filters")]
mod iptables;
mod keyboard;
mod kmod;
mod locale;
mod logrotate;
mod r#loop;
#[cfg(feature = "disks")]
mod lvm;
#[cfg(feature = "gentoo")]
mod makeconf;
mod module;
mod monit;
mod mount;
#[cfg(feature = "notifications")]
mod msteams;
#[cfg(feature = "databases")]
mod mysql;
#[cfg(feature = "interfaces")]
mod network;
#[cfg(feature = "disks")]
mod nfs_export;
#[cfg(feature = "packet-filters")]
mod nftables;
#[cfg(feature = "languages")]
mod npm;
#[cfg(feature = "notifications")]
mod pagerduty;
#[cfg(feature = "languages")]
mod pecl;
mod pip;
mod pkg;
mod pkgrepo;
#[cfg(feature = "gentoo")]
mod portage_config;
#[cfg(feature = "databases")]
mod postgres;
mod process;
#[cfg(feature = "notifications")]
mod pushover;
#[cfg(feature = "languages")]
mod pyenv;
#[cfg(feature = "disks")]
mod quota;
#[cfg(feature = "stores")]
mod rabbitmq;
#[cfg(feature = "disks")]
mod raid;
#[cfg(feature = "languages")]
mod rbenv;
#[cfg(feature = "databases")]
mod redis;
mod rsync;
mod salt;
mod saltutil;
mod schedule;
#[cfg(feature = "selinux")]
mod selinux;
mod service;
#[cfg(feature = "notifications")]
mod slack;
#[cfg(feature = "mail")]
mod smtp;
mod ssh_auth;
mod ssh_known_hosts;
#[cfg(feature = "certificates")]
mod ssh_pki;
mod stateconf;
mod status;
mod supervisord;
#[cfg(feature = "source-control")]
mod svn;
mod sysctl;
mod sysfs;
mod test;
mod timezone;
#[cfg(feature = "certificates")]
mod tls;
mod tuned;
mod uci;
mod user;
mod virtualenv;
#[cfg(feature = "web-servers")]
mod webutil;
#[cfg(feature = "certificates")]
mod x509;

/// All state modules. A module that is too large for one file appears here in several parts.
pub const MODULES: &[Module<Ret>] = &[
    acl::MODULE,
    alias::MODULE,
    alternatives::MODULE,
    #[cfg(feature = "web-servers")]
    apache::MODULE,
    #[cfg(feature = "web-servers")]
    apache_conf::MODULE,
    #[cfg(feature = "web-servers")]
    apache_module::MODULE,
    #[cfg(feature = "web-servers")]
    apache_site::MODULE,
    archive::MODULE,
    at::MODULE,
    beacon::MODULE,
    #[cfg(feature = "disks")]
    blockdev::MODULE,
    #[cfg(feature = "languages")]
    bower::MODULE,
    #[cfg(feature = "languages")]
    cabal::MODULE,
    #[cfg(feature = "clouds")]
    cloud::MODULE,
    cmd::MODULE,
    #[cfg(feature = "languages")]
    composer::MODULE,
    cron::MODULE,
    ddns::MODULE,
    debconf::MODULE,
    disk::MODULE,
    #[cfg(feature = "containers")]
    docker::container::MODULE,
    #[cfg(feature = "containers")]
    docker::image::MODULE,
    #[cfg(feature = "containers")]
    docker::network::MODULE,
    #[cfg(feature = "containers")]
    docker::volume::MODULE,
    environ::MODULE,
    #[cfg(feature = "stores")]
    etcd::MODULE,
    event::MODULE,
    file::absent::MODULE,
    file::accumulated::MODULE,
    file::append::MODULE,
    file::beacon::MODULE,
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
    #[cfg(feature = "packet-filters")]
    firewalld::MODULE,
    #[cfg(feature = "languages")]
    gem::MODULE,
    git::MODULE,
    git::config::MODULE,
    gpg::MODULE,
    grains::MODULE,
    group::MODULE,
    #[cfg(feature = "containers")]
    helm::MODULE,
    #[cfg(feature = "source-control")]
    hg::MODULE,
    highstate_doc::MODULE,
    host::MODULE,
    http::MODULE,
    incron::MODULE,
    ini::MODULE,
    #[cfg(feature = "packet-filters")]
    ipset::MODULE,
    #[cfg(feature = "packet-filters")]
    iptables::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    logrotate::MODULE,
    r#loop::MODULE,
    #[cfg(feature = "disks")]
    lvm::MODULE,
    #[cfg(feature = "gentoo")]
    makeconf::MODULE,
    module::MODULE,
    monit::MODULE,
    mount::MODULE,
    mount::fstab::MODULE,
    #[cfg(feature = "notifications")]
    msteams::MODULE,
    #[cfg(feature = "databases")]
    mysql::database::MODULE,
    #[cfg(feature = "databases")]
    mysql::grants::MODULE,
    #[cfg(feature = "databases")]
    mysql::query::MODULE,
    #[cfg(feature = "databases")]
    mysql::user::MODULE,
    #[cfg(feature = "interfaces")]
    network::MODULE,
    #[cfg(feature = "disks")]
    nfs_export::MODULE,
    #[cfg(feature = "packet-filters")]
    nftables::MODULE,
    #[cfg(feature = "languages")]
    npm::MODULE,
    #[cfg(feature = "notifications")]
    pagerduty::MODULE,
    #[cfg(feature = "languages")]
    pecl::MODULE,
    pip::MODULE,
    pkg::MODULE,
    pkgrepo::MODULE,
    #[cfg(feature = "gentoo")]
    portage_config::MODULE,
    #[cfg(feature = "databases")]
    postgres::cluster::MODULE,
    #[cfg(feature = "databases")]
    postgres::database::MODULE,
    #[cfg(feature = "databases")]
    postgres::extension::MODULE,
    #[cfg(feature = "databases")]
    postgres::group::MODULE,
    #[cfg(feature = "databases")]
    postgres::initdb::MODULE,
    #[cfg(feature = "databases")]
    postgres::language::MODULE,
    #[cfg(feature = "databases")]
    postgres::privileges::MODULE,
    #[cfg(feature = "databases")]
    postgres::schema::MODULE,
    #[cfg(feature = "databases")]
    postgres::tablespace::MODULE,
    #[cfg(feature = "databases")]
    postgres::user::MODULE,
    process::MODULE,
    #[cfg(feature = "notifications")]
    pushover::MODULE,
    #[cfg(feature = "languages")]
    pyenv::MODULE,
    #[cfg(feature = "disks")]
    quota::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::cluster::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::plugin::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::policy::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::upstream::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::user::MODULE,
    #[cfg(feature = "stores")]
    rabbitmq::vhost::MODULE,
    #[cfg(feature = "disks")]
    raid::MODULE,
    #[cfg(feature = "languages")]
    rbenv::MODULE,
    #[cfg(feature = "databases")]
    redis::MODULE,
    rsync::MODULE,
    salt::MODULE,
    saltutil::MODULE,
    schedule::MODULE,
    #[cfg(feature = "selinux")]
    selinux::MODULE,
    service::MODULE,
    #[cfg(feature = "notifications")]
    slack::MODULE,
    #[cfg(feature = "mail")]
    smtp::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    #[cfg(feature = "certificates")]
    ssh_pki::MODULE,
    stateconf::MODULE,
    status::MODULE,
    supervisord::MODULE,
    #[cfg(feature = "source-control")]
    svn::MODULE,
    sysctl::MODULE,
    sysfs::MODULE,
    test::MODULE,
    timezone::MODULE,
    #[cfg(feature = "certificates")]
    tls::MODULE,
    tuned::MODULE,
    uci::MODULE,
    user::MODULE,
    virtualenv::MODULE,
    #[cfg(feature = "web-servers")]
    webutil::MODULE,
    #[cfg(feature = "certificates")]
    x509::MODULE,
];
