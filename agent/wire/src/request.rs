//! Requests: the first frame of a stream of its own, with who may ask what of whom.
//!
//! No request holds the id of who sends it: that is the session's.

use value::{Map, Value};

use crate::kinds::kinds;

kinds! {
    /// A request: the first frame of a stream.
    enum Request;

    /// A minion's own pillar, compiled by the master for the id that its key is bound to.
    "pillar" Pillar [MinionToMaster JobToMinion ClientToMinion] {
        /// The environment of states; left out, the master's choice.
        saltenv: Option<String>,
        /// The environment of pillar.
        pillarenv: Option<String>,
        /// The minion's grains, which the pillar's top file and templates see.
        grains: Map,
        /// Pillar given on the command line, which its own templates see.
        pillar_override: Map,
        /// Whether a `data` frame before the answer may say what in it is secret (`value::secret::marks`).
        secrets: bool,
    }

    /// New grains for the master's cache, by which it finds targets.
    "grains" Grains [MinionToMaster] {
        /// All of them.
        grains: Map,
    }

    /// The master's settings that a run on a minion depends on (`nodegroups`, `state_top`, …).
    "options" Options [MinionToMaster JobToMinion ClientToMinion] {}

    /// What the file server has: `data` frames of lists, then `done`.
    "list" List [MinionToMaster JobToMinion ClientToMinion] {
        /// `files`, `dirs`, `emptydirs`, `symlinks` or `envs`.
        what: String,
        /// The environment.
        saltenv: String,
        /// Only what begins with this.
        prefix: String,
    }

    /// Size, mode and hash of a file of the file server.
    "stat" Stat [MinionToMaster JobToMinion ClientToMinion] {
        /// Its path as the list has it.
        path: String,
        /// The environment.
        saltenv: String,
    }

    /// A file of the file server, from an offset on: `data` frames of bytes, then `done` with size and hash.
    "file" File [MinionToMaster JobToMinion ClientToMinion] {
        /// Its path as the list has it.
        path: String,
        /// The environment.
        saltenv: String,
        /// How many bytes of it are there already.
        offset: u64,
        /// The hash that the file must still have; left out for a first look.
        hash: Option<String>,
    }

    /// A file for the master (`cp.push`), which takes none unless its settings say so: `data` frames of bytes follow, then `done`.
    "push" Push [MinionToMaster JobToMinion ClientToMinion] {
        /// Where it stood on the minion.
        path: String,
        /// Its size.
        size: u64,
        /// Its SHA-256.
        hash: String,
    }

    /// Mine values of other minions: `done` with a map by function of maps by id.
    "mine_get" MineGet [MinionToMaster JobToMinion ClientToMinion] {
        /// The target.
        tgt: Value,
        /// How `tgt` is meant: `glob`, `grain`, …
        tgt_type: String,
        /// The functions.
        fun: Vec<String>,
        /// Whether the asker's own values are left out.
        exclude_minion: bool,
    }

    /// Mine values of one's own, with who may see them.
    "mine_put" MinePut [MinionToMaster JobToMinion ClientToMinion] {
        /// The values by function.
        data: Map,
        /// Whether what was there before goes.
        clear: bool,
    }

    /// Takes one's own mine values out.
    "mine_delete" MineDelete [MinionToMaster JobToMinion ClientToMinion] {
        /// The function; left out, all of them.
        fun: Option<String>,
    }

    /// The return of a job, or of a call on the minion's own machine. `done` says that it is durable.
    "return" Return [MinionToMaster JobToMinion ClientToMinion] {
        /// Its place in the spool, in one row with the events; 0 from a job to its daemon.
        sequence: u64,
        /// The job.
        jid: String,
        /// When it ended, as `_stamp` has it.
        stamp: String,
        /// `fun`, `fun_args`, `return`, `retcode`, `success` and what else the event will hold.
        data: Map,
    }

    /// A job for minions: `data` frames of returns, then `done`. From a minion the master asks its `peer` settings first.
    "publish" Publish [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// The target.
        tgt: Value,
        /// How `tgt` is meant.
        tgt_type: String,
        /// The function.
        fun: String,
        /// Its arguments; a map with `__kwarg__` holds those with names.
        arg: Vec<Value>,
        /// The returner.
        ret: String,
        /// The job id, where the asker has one.
        jid: Option<String>,
        /// For how many seconds to wait for returns; 0 for none at all, left out as the settings say.
        timeout_s: Option<f64>,
        /// What else belongs to the job: `metadata`, `ret_config`, `user` as it is to be shown, …
        options: Map,
    }

    /// A runner's function on the master. From a minion the master asks its `peer_run` settings first.
    "runner" Runner [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// The function.
        fun: String,
        /// Its arguments; a map with `__kwarg__` holds those with names.
        arg: Vec<Value>,
        /// The job id, where the asker has one.
        jid: Option<String>,
        /// Whether only the job id is waited for.
        asynchronous: bool,
        /// Whether the command that waits is told of the states that run.
        watched: bool,
    }

    /// A wheel function on the master.
    "wheel" Wheel [ClientToMaster] {
        /// The function.
        fun: String,
        /// Its arguments; a map with `__kwarg__` holds those with names.
        arg: Vec<Value>,
    }

    /// Events as they come: `data` frames until one side closes.
    "listen" Listen [ClientToMaster ClientToMinion JobToMinion] {
        /// Globs of tags; none are all.
        tags: Vec<String>,
        /// From which sequence number of the log; left out, from now on.
        from: Option<u64>,
    }

    /// An event to be kept before `done` is said.
    "fire" Fire [MinionToMaster ClientToMaster ClientToMinion JobToMinion] {
        /// Its tag.
        tag: String,
        /// What it says.
        data: Map,
    }

    /// Whether the other's program answers; `done` says so.
    "ping" Ping [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {}

    /// A job to be done. `done` says that it was taken; its return is a request of the minion's own.
    "job" Job [MasterToMinion] {
        /// The job.
        jid: String,
        /// The function, or a list of them.
        fun: Value,
        /// Its arguments, or a list of such.
        arg: Vec<Value>,
        /// The target, as it was given.
        tgt: Value,
        /// How `tgt` is meant.
        tgt_type: String,
        /// The returner.
        ret: String,
        /// Who asked.
        user: String,
        /// What else belongs to the job: `metadata`, `ret_config`, `module_executors`, …
        options: Map,
    }

    /// Whether a job runs: `done` with what is known of it, or nothing.
    "find_job" FindJob [MasterToMinion ClientToMinion JobToMinion] {
        /// The job.
        jid: String,
    }

    /// The jobs that run.
    "running" Running [MasterToMinion ClientToMinion JobToMinion] {}

    /// A signal to a job's processes.
    "signal_job" SignalJob [MasterToMinion ClientToMinion JobToMinion] {
        /// The job.
        jid: String,
        /// The signal: 15 to end, 9 to kill.
        signal: u64,
    }

    /// Something about the beacons of this machine: `done` with a map, of which `complete` says whether it was done.
    "beacons" Beacons [ClientToMinion JobToMinion] {
        /// `list`, `list_available`, `validate`, `add`, `modify`, `delete`, `enable`, `disable`, `enable_beacon`, `disable_beacon`
        /// or `reset`.
        fun: String,
        /// Which beacon.
        name: Option<String>,
        /// Its settings.
        data: Option<Value>,
    }

    /// Something about the schedule of this machine: `done` with a map, of which `complete` says whether it was done.
    "schedule" Schedule [ClientToMinion JobToMinion] {
        /// `list`, `validate`, `add`, `modify`, `delete`, `enable`, `disable`, `enable_job`, `disable_job`, `run_job`, `postpone_job`,
        /// `skip_job`, `save`, `next_fire_time` or `status`.
        fun: String,
        /// Which job.
        name: Option<String>,
        /// `schedule`, the job's settings; `where`; `persist`, whether the change is written; `time`, `new_time`, `time_fmt`.
        data: Map,
    }

    /// Something is to be read again.
    "refresh" Refresh [MasterToMinion ClientToMinion JobToMinion] {
        /// `pillar`, `grains`, `modules`, `beacons`, `schedule`, `mine`.
        what: String,
        /// For how many seconds to wait until it was read; left out for not at all.
        wait_s: Option<f64>,
    }
}
