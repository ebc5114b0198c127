//! The minion's daemon: its session with a master, the spool of what it has not delivered yet, its schedule, beacons, mine and job
//! processes.

pub mod schedule;
pub mod spool;
