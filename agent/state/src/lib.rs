//! The state engine: compiles SLS to a plan and runs it. It depends on no module: the caller passes
//! the modules to it.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

pub mod ask;
pub mod boot;
pub mod compile;
pub mod custom;
pub mod exec;
pub mod facts;
pub mod host;
mod keys;
pub mod lock;
pub mod low;
pub mod matcher;
pub mod module;
pub mod options;
pub mod opts;
mod permitted;
pub mod pillar;
pub mod previewer;
pub mod record;
pub mod resume;
pub mod run;
pub mod sources;
pub mod targets;
pub mod top;
pub mod tops;
pub mod tree;
pub mod typed;
pub mod umask;
