//! Runners and commands of the master.
