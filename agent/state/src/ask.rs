//! [`Ask`]: the questions that a function can send to the daemon of its machine, and through it to
//! the master.

use value::{Map, Value};

/// One question. The docs of the variants say what the answer contains.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Data of the mine. The answer maps each function to a map of its data by minion id.
    MineGet {
        /// The minions whose data is wanted.
        tgt: Value,
        /// The kind of target that `tgt` is.
        tgt_type: String,
        /// The functions whose data is wanted.
        fun: Vec<String>,
        /// True if the data of the asking minion is left out.
        exclude_minion: bool,
    },
    /// Data to store in the mine, by function.
    MinePut {
        /// The data by function. An entry with restricted access names the minions that may see it.
        data: Map,
        /// True if the data replaces everything that this minion stored before.
        clear: bool,
    },
    /// The removal of one function's data from the mine, or of all data if `fun` is `None`.
    MineDelete {
        /// The function.
        fun: Option<String>,
    },
    /// A job to publish to minions. The answer is a list of returns.
    Publish {
        /// The minions to target.
        tgt: Value,
        /// The kind of target that `tgt` is.
        tgt_type: String,
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Vec<Value>,
        /// The number of seconds to wait for returns.
        timeout_s: Option<f64>,
    },
    /// A runner function to call on the master. The answer is its return.
    Runner {
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Vec<Value>,
    },
    /// A wheel function to call on the master itself. The answer is its return.
    Wheel {
        /// The function.
        fun: String,
        /// Its arguments. Keyword arguments are in a map that is marked as such.
        arg: Vec<Value>,
    },
    /// A file to copy to the master, which stores it below the folder of this minion. The answer is
    /// true.
    Push {
        /// The path of the file on this machine.
        file: std::path::PathBuf,
        /// The path that the master stores it under.
        path: String,
    },
    /// The jobs that run on this machine. The answer is a list.
    Running,
    /// A job that runs on this machine. The answer is a map, or nothing if the job does not run.
    FindJob {
        /// Its id.
        jid: String,
    },
    /// A signal to send to a job of this machine. The answer is a sentence, which is empty if the
    /// job does not run.
    SignalJob {
        /// Its id.
        jid: String,
        /// The signal's number.
        signal: u64,
    },
    /// A request about the daemon's beacons. The answer is a map; its key `complete` says whether
    /// the request was carried out.
    Beacons {
        /// The operation: `list`, `add`, …
        fun: &'static str,
        /// The name of the beacon.
        name: Option<String>,
        /// Its settings.
        data: Option<Value>,
    },
    /// A request about the daemon's schedule. The answer is a map; its key `complete` says whether
    /// the request was carried out.
    Schedule {
        /// The operation: `list`, `add`, …
        fun: &'static str,
        /// The name of the scheduled job.
        name: Option<String>,
        /// The arguments of the operation.
        data: Map,
    },
    /// A request to the daemon to read something again.
    Refresh {
        /// The part to read again: `grains`, `pillar`, `schedule`, `beacons` or `mine`.
        what: &'static str,
        /// The number of seconds to wait until it is read; `None` to return at once.
        wait_s: Option<f64>,
    },
}
