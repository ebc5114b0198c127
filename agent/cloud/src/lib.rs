//! Machines of clouds, for the runner, the execution module and the states `cloud`, and for the
//! program `salt-cloud`.
//!
//! ```text
//! cloud, cloud.providers, cloud.profiles  --config-->  Config
//! a map, a profile, a request             --plan--->   what is there, what is wanted
//!                                         --make--->   an intent on the disk, then the cloud
//! ```
//!
//! - [`config`] reads Salt's files. [`spec`] is what is wanted of one machine: the settings of the
//!   file `cloud`, the provider, the profile and the call, merged in this order.
//! - [`driver::Driver`] is the only thing that knows a cloud: it lists, creates and destroys machines,
//!   calls actions, and lists what the cloud offers. It has no state. `drivers` has one file for each;
//!   programs in `_clouds` are drivers too.
//! - [`make`] makes a machine. Before the request to the cloud, an [`intent`] with the name, the provider, the
//!   run and a client token is on the disk, and it is removed when the machine is complete. The token
//!   is the same for each attempt, so that a cloud that knows tokens returns the first machine; other
//!   clouds get a tag with it, by which the machine is found. After a crash, the same call continues
//!   with that machine. `cloud.orphans` lists the intents that are left.
//! - [`boot`] is the first start of a machine: user data with a token that is good for this id once, or
//!   a login by ssh. A call on a master waits for the start event of the machine's minion.
//! - [`fault::Fault`] is typed by what a caller can do about it, and has the cloud's own text.
//!
//! Names of machines are ids of minions. Credentials are settings of a provider, `sdb://` references,
//! the environment or the role of an instance; they are registered as secrets where they are read.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests create their files in temporary directories"
    )
)]

mod answer;
pub mod applet;
pub mod boot;
pub mod config;
pub mod driver;
mod drivers;
pub mod fault;
mod http;
pub mod intent;
pub mod make;
mod map;
pub mod plan;
pub mod spec;
#[cfg(test)]
mod testing;

pub use answer::answer;
