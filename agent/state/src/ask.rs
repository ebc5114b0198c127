//! [`Ask`]: what a function may ask of the daemon of its machine, and through it of the master.

use value::{Map, Value};

/// One question.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Data of the mine: a map by function of maps by id.
    MineGet {
        /// Whose.
        tgt: Value,
        /// How `tgt` is meant.
        tgt_type: String,
        /// Which functions.
        fun: Vec<String>,
        /// Whether the asker's own are left out.
        exclude_minion: bool,
    },
    /// Data for the mine, by function.
    MinePut {
        /// The data, each with who may see it where that is limited.
        data: Map,
        /// Whether what was there before goes.
        clear: bool,
    },
    /// One function's data goes out of the mine; none means all.
    MineDelete {
        /// The function.
        fun: Option<String>,
    },
    /// A job for minions: a list of returns.
    Publish {
        /// Which minions.
        tgt: Value,
        /// How `tgt` is meant.
        tgt_type: String,
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Vec<Value>,
        /// For how many seconds to wait for returns.
        timeout_s: Option<f64>,
    },
    /// A runner's function on the master.
    Runner {
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Vec<Value>,
    },
    /// A wheel function of the master itself: what it returns.
    Wheel {
        /// The function.
        fun: String,
        /// Its arguments; those with names lie in a map that says so.
        arg: Vec<Value>,
    },
    /// A file for the master, under a path of its own there: true.
    Push {
        /// The file.
        file: std::path::PathBuf,
        /// What the master calls it.
        path: String,
    },
    /// The jobs that run on this machine: a list.
    Running,
    /// A job that runs on this machine: a map, or nothing.
    FindJob {
        /// Its id.
        jid: String,
    },
    /// A signal to a job of this machine: a sentence, empty where it does not run.
    SignalJob {
        /// Its id.
        jid: String,
        /// The signal's number.
        signal: u64,
    },
    /// Something about the daemon's beacons: a map, of which `complete` says whether it was done.
    Beacons {
        /// What: `list`, `add`, …
        fun: &'static str,
        /// Which.
        name: Option<String>,
        /// Its settings.
        data: Option<Value>,
    },
    /// Something about the daemon's schedule: a map, of which `complete` says whether it was done.
    Schedule {
        /// What: `list`, `add`, …
        fun: &'static str,
        /// Which job.
        name: Option<String>,
        /// What belongs to it.
        data: Map,
    },
    /// Something that the daemon is to read again.
    Refresh {
        /// `grains`, `pillar`, `schedule`, `beacons`, `mine`.
        what: &'static str,
        /// For how many seconds to wait until that is done; `None` for not at all.
        wait_s: Option<f64>,
    },
}
