//! A log of commands on which several masters agree, so that none that was accepted is lost when a
//! minority of them fails.
//!
//! [`core`] is pure: it uses no files, sockets or clock. [`raft`] connects it to the library
//! openraft, which implements the protocol Raft: [`raft::log`] stores the log, [`raft::machine`]
//! applies what the masters have agreed on to a [`Machine`](raft::Machine), and [`raft::network`]
//! carries the messages between masters. A [`Group`](raft::Group) is one log with its state.
//!
//! The crate does not know the master's commands: a command is bytes. Nor does it know the program's
//! runtime: all of it is generic over [`Runtime`](raft::Runtime), so that the simulation of
//! `tests/simulation` runs the same code with a simulated clock, network and disk.

pub mod core;
pub mod raft;
