//! Requests: the first frames of separate streams, with the ways on which each may be sent.
//!
//! No request contains the id of its sender, because the session determines it.

use value::{Map, Value};

use crate::Secret;
use crate::kinds::kinds;

kinds! {
    /// A request: the first frame of a stream.
    enum Request;

    /// Asks for a minion's own pillar. The master compiles it for the id that the minion's key is
    /// bound to.
    "pillar" Pillar [MinionToMaster JobToMinion ClientToMinion] {
        /// The environment of states. If it is absent, the master chooses.
        saltenv: Option<String>,
        /// The environment of pillar.
        pillarenv: Option<String>,
        /// The minion's grains, which the pillar's top file and templates see.
        grains: Map,
        /// Pillar from the command line, which the pillar's templates see.
        pillar_override: Map,
        /// True if a `data` frame before the answer may list the secrets in it
        /// (`value::secret::marks`).
        secrets: bool,
    }

    /// Asks for the SLS that the master's `master_tops` assign to a minion: `done` with lists by
    /// environment. The master uses the id that the minion's key is bound to.
    "tops" Tops [MinionToMaster JobToMinion ClientToMinion] {
        /// The minion's grains, which the sources may use.
        grains: Map,
    }

    /// Sends new grains for the master's cache, which the master uses to find targets.
    "grains" Grains [MinionToMaster] {
        /// All grains.
        grains: Map,
    }

    /// Asks for the master's settings that a run on a minion depends on (`nodegroups`, `state_top`,
    /// …).
    "options" Options [MinionToMaster JobToMinion ClientToMinion] {}

    /// Asks for a list of the file server's contents: `data` frames of lists, then `done`.
    "list" List [MinionToMaster JobToMinion ClientToMinion] {
        /// `files`, `dirs`, `emptydirs`, `symlinks` or `envs`.
        what: String,
        /// The environment.
        saltenv: String,
        /// The prefix that the listed paths must have.
        prefix: String,
    }

    /// Asks for the size, mode and hash of a file of the file server.
    "stat" Stat [MinionToMaster JobToMinion ClientToMinion] {
        /// The path of the file, as in the list.
        path: String,
        /// The environment.
        saltenv: String,
    }

    /// Asks for a file of the file server, from an offset on: `data` frames of bytes, then `done`
    /// with size and hash.
    "file" File [MinionToMaster JobToMinion ClientToMinion] {
        /// The path of the file, as in the list.
        path: String,
        /// The environment.
        saltenv: String,
        /// The number of bytes that the sender already has.
        offset: u64,
        /// The hash that the file must still have; absent in the first request for a file.
        hash: Option<String>,
    }

    /// Sends a file to the master (`cp.push`), which accepts files only if its settings allow it:
    /// `data` frames of bytes follow, then `done`.
    "push" Push [MinionToMaster JobToMinion ClientToMinion] {
        /// The path of the file on the minion.
        path: String,
        /// The size of the file in bytes.
        size: u64,
        /// The SHA-256 of the file.
        hash: String,
    }

    /// Asks for mine values of other minions: `done` with a map by function of maps by id.
    "mine_get" MineGet [MinionToMaster JobToMinion ClientToMinion] {
        /// The target.
        tgt: Value,
        /// The type of `tgt`: `glob`, `grain`, …
        tgt_type: String,
        /// The functions.
        fun: Vec<String>,
        /// True to leave out the sender's own values.
        exclude_minion: bool,
    }

    /// Stores the sender's own mine values, including the minions that may read them.
    "mine_put" MinePut [MinionToMaster JobToMinion ClientToMinion] {
        /// The values by function.
        data: Map,
        /// True to remove the previous values.
        clear: bool,
    }

    /// Deletes the sender's own mine values.
    "mine_delete" MineDelete [MinionToMaster JobToMinion ClientToMinion] {
        /// The function. If it is absent, all functions.
        fun: Option<String>,
    }

    /// Sends the return of a job, or of a call on the minion's own machine. `done` means that it is
    /// durable.
    "return" Return [MinionToMaster JobToMinion ClientToMinion] {
        /// The position in the spool, in the same series as the events; 0 from a job to its daemon.
        sequence: u64,
        /// The job.
        jid: String,
        /// The time at which the job ended, in the format of `_stamp`.
        stamp: String,
        /// `fun`, `fun_args`, `return`, `retcode`, `success` and the rest of the event's data.
        data: Map,
    }

    /// Publishes a job for minions: `data` frames of returns, then `done`. For a request from a
    /// minion, the master's `peer` settings must allow it.
    "publish" Publish [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// The target.
        tgt: Value,
        /// The type of `tgt`.
        tgt_type: String,
        /// The function.
        fun: String,
        /// The arguments. A map with `__kwarg__` contains the named ones.
        arg: Vec<Value>,
        /// The returner.
        ret: String,
        /// The job id, if the sender has one.
        jid: Option<String>,
        /// The number of seconds to wait for returns; 0 does not wait. If it is absent, the
        /// settings decide.
        timeout_s: Option<f64>,
        /// Other options of the job: `metadata`, `ret_config`, the `user` to show, …
        options: Map,
    }

    /// Runs a runner's function on the master. For a request from a minion, the master's `peer_run`
    /// settings must allow it.
    "runner" Runner [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// The function.
        fun: String,
        /// The arguments. A map with `__kwarg__` contains the named ones.
        arg: Vec<Value>,
        /// The job id, if the sender has one.
        jid: Option<String>,
        /// True to wait for the job id only.
        asynchronous: bool,
        /// True to send the waiting command the states that run.
        watched: bool,
    }

    /// Asks for the rows of the master's store, as bytes of a backup: `data` frames, then `done` with
    /// the number of rows.
    "backup" Backup [ClientToMaster] {}

    /// Names the user of this connection by a password or a token of `external_auth`. The requests
    /// after it are the user's. `done` with `user` and `eauth`, and with `token`, `start` and `expire`
    /// if a token is made.
    "login" Login [ClientToMaster] {
        /// The source that knows the user; empty with a token.
        eauth: String,
        /// The user's name; empty with a token.
        username: String,
        /// The password; empty with a token.
        password: Secret,
        /// The token, instead of a password.
        token: Option<Secret>,
        /// The lifetime of a new token in seconds, if the user may choose it.
        expire_s: Option<f64>,
        /// True to make a token.
        mint: bool,
    }

    /// Runs a wheel function on the master.
    "wheel" Wheel [ClientToMaster] {
        /// The function.
        fun: String,
        /// The arguments. A map with `__kwarg__` contains the named ones.
        arg: Vec<Value>,
    }

    /// Asks for events as they arrive: `data` frames until one side closes.
    "listen" Listen [ClientToMaster ClientToMinion JobToMinion] {
        /// Globs of tags. An empty list matches all tags.
        tags: Vec<String>,
        /// The sequence number of the log to begin with. If it is absent, only new events are sent.
        from: Option<u64>,
        /// The time in milliseconds since 1970 from which to send the events of the log.
        since_ms: Option<u64>,
        /// The time after which no event is sent: the answer ends with `done`.
        until_ms: Option<u64>,
    }

    /// Sends an event that is stored before `done` is sent.
    "fire" Fire [MinionToMaster ClientToMaster ClientToMinion JobToMinion] {
        /// The tag of the event.
        tag: String,
        /// The data of the event.
        data: Map,
    }

    /// Checks whether the other side's program answers, with `done`.
    "ping" Ping [MinionToMaster MasterToMinion ClientToMaster ClientToMinion JobToMinion] {}

    /// Sends a job to be run. `done` means that the minion accepted it. The minion sends the return
    /// in a separate request.
    "job" Job [MasterToMinion] {
        /// The job id.
        jid: String,
        /// The function, or a list of them.
        fun: Value,
        /// The arguments, or a list of arguments for each function.
        arg: Vec<Value>,
        /// The target, as the user gave it.
        tgt: Value,
        /// The type of `tgt`.
        tgt_type: String,
        /// The returner.
        ret: String,
        /// The user that started the job.
        user: String,
        /// Other options of the job: `metadata`, `ret_config`, `module_executors`, …
        options: Map,
    }

    /// Asks whether a job runs: `done` with its data, or with nothing.
    "find_job" FindJob [MasterToMinion ClientToMinion JobToMinion] {
        /// The job id.
        jid: String,
    }

    /// Asks for the running jobs.
    "running" Running [MasterToMinion ClientToMinion JobToMinion] {}

    /// Sends a signal to a job's processes.
    "signal_job" SignalJob [MasterToMinion ClientToMinion JobToMinion] {
        /// The job id.
        jid: String,
        /// The number of the signal: 15 to end, 9 to kill.
        signal: u64,
    }

    /// Announces the key that is about to replace the master's. `done` means that the minion accepts
    /// it, also after a restart.
    "next_key" NextKey [MasterToMinion] {
        /// The statement: the old key, the next key, and the old key's signature.
        statement: String,
    }

    /// Lists or changes the beacons of this machine: `done` with a map, in which `complete` is true
    /// on success.
    "beacons" Beacons [ClientToMinion JobToMinion] {
        /// `list`, `list_available`, `validate`, `add`, `modify`, `delete`, `enable`, `disable`,
        /// `enable_beacon`, `disable_beacon` or `reset`.
        fun: String,
        /// The name of the beacon.
        name: Option<String>,
        /// The settings of the beacon.
        data: Option<Value>,
    }

    /// Lists or changes the schedule of this machine: `done` with a map, in which `complete` is
    /// true on success.
    "schedule" Schedule [ClientToMinion JobToMinion] {
        /// `list`, `validate`, `add`, `modify`, `delete`, `enable`, `disable`, `enable_job`,
        /// `disable_job`, `run_job`, `postpone_job`, `skip_job`, `save`, `next_fire_time` or
        /// `status`.
        fun: String,
        /// The name of the job.
        name: Option<String>,
        /// `schedule`, the job's settings; `where`; `persist`, true to save the change; `time`,
        /// `new_time`, `time_fmt`.
        data: Map,
    }

    /// Asks the minion to read something again.
    "refresh" Refresh [MasterToMinion ClientToMinion JobToMinion] {
        /// `pillar`, `grains`, `modules`, `beacons`, `schedule` or `mine`.
        what: String,
        /// The number of seconds to wait until it was read. If it is absent, the answer does not
        /// wait.
        wait_s: Option<f64>,
    }
}
