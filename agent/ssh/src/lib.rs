//! Hosts without an agent. A host needs `sshd` and a POSIX shell; the machine that calls needs the
//! program `ssh` of OpenSSH or dropbear.
//!
//! [`roster`] reads which hosts there are. [`place`] puts the static program on a host, once per
//! version. [`session`] runs a job there: the ssh connection is the channel between the job's
//! process and this machine, which answers the job's requests for files and pillar from its own
//! trees. [`Hosts`] are the targets of an orchestration's steps.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests create their files in temporary directories"
    )
)]

mod answers;
pub mod applet;
pub mod askpass;
mod authorize;
mod before;
pub mod build;
mod calls;
mod command_on_host;
mod dropbear;
pub mod fault;
pub mod group;
mod hosts;
pub mod install;
mod job_folder;
mod journal;
pub mod login;
pub mod on_host;
pub mod output;
pub mod place;
pub mod program;
mod reboot;
pub mod roster;
pub mod session;
mod settings;

pub use hosts::Hosts;
