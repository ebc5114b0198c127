//! The program as its users run it: whole processes, each with a separate tree.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    reason = "a failing test panics with the difference"
)]

mod bus;
mod certificates;
mod cloud;
mod cmdline;
mod compensate;
mod containers;
mod databases;
mod debug_log;
mod docs;
mod examples;
mod fleet;
mod git_login;
mod git_remotes;
mod gpg;
mod growth;
mod inits;
mod lint;
mod look;
mod lsp;
mod mail;
mod managers;
mod notifications;
mod notified;
mod orch;
mod packaging;
mod pillars;
mod pillars_files;
mod pillars_http;
mod pillars_stores;
mod pkg;
mod plan;
mod progress;
mod python;
mod reboot;
mod restricted;
mod resume;
mod returners;
mod returners_http;
mod runas;
mod runs;
mod schemas;
mod secret;
mod small;
mod ssh;
mod stores;
mod tools;
mod tops;
mod uci;
mod undo;
