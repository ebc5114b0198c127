//! Runs the chunks of a minion's reactions. Each chunk is a separate job.

use std::sync::Arc;
use std::time::Duration;

use link::wait::{pause, unblock};
use machine::procfs;
use modules::state_run::orchestrate::ThisMachine;
use reactor::call::{Client, Local};
use reactor::{
    Actor, Board, Call, Causes, Limits, Outcome, Reaction, State, USER, failed, keep, shortened,
};
use smol::channel::bounded;
use state::exec::Exec;
use state::targets::Targets;
use value::{Map, Value};
use wire::Job;

use super::kept::Row;
use super::{Reactor, tell_machine};
use crate::beacon_loop;
use crate::job::with_grains;
use crate::launcher::ReturnTo;
use crate::orphans;

/// The option of a job that belongs to a reaction. Its value is the kind of call.
pub(crate) const REACTION: &str = "reaction";

/// The number of times that a job is started if the daemon ends before it each time, because the
/// job itself may be what ends the daemon.
const BEGUN_MAX: u64 = 3;
/// The interval of checks whether a job that outlived its daemon has ended.
const LOOK: Duration = Duration::from_millis(500);

/// A job that has no id yet.
struct UnsentJob {
    kind: &'static str,
    fun: String,
    arg: Vec<Value>,
    ret: String,
    options: Map,
}

impl UnsentJob {
    fn job(self, jid: String, id: &str) -> Job {
        Job {
            jid,
            fun: self.fun.into(),
            arg: self.arg,
            tgt: id.into(),
            tgt_type: "list".to_owned(),
            ret: self.ret,
            user: USER.to_owned(),
            options: self.options.with(REACTION, self.kind),
        }
    }

    fn is_state_run(&self) -> bool {
        self.fun.starts_with("state.")
    }
}

impl Actor for Reactor {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn causes(&self) -> &Causes {
        &self.causes
    }

    fn is_observing(&self) -> bool {
        self.kept.is_observing()
    }

    fn context(self: &Arc<Self>) -> Exec {
        let templates = &self.templates;
        let bound = self.upstreams.bound_grains();
        templates.context(self.limits().refresh, || {
            beacon_loop::context(&with_grains(self.opts.clone(), Some(&bound)))
        })
    }

    /// Always waits for the disk, whatever `is_synced` says: the files decide which jobs are run
    /// again after a crash.
    async fn keep(&self, reaction: &Reaction, _is_synced: bool) -> Result<(), String> {
        let (kept, row) = (self.kept.clone(), reaction.clone());
        let opts = self.opts.clone();
        let kept = unblock(move || {
            kept.write(row.place, &Row::Reaction(row.clone()))?;
            if row.state.is_final() {
                let jids = row.chunks.iter().map(|chunk| &chunk.jid);
                jids.for_each(|jid| orphans::forget(&opts, jid));
            }
            Ok::<(), std::io::Error>(())
        });
        kept.await.map_err(|error| error.to_string())
    }

    async fn tell(&self, tag: &str, data: Map) {
        tell_machine(&self.opts, tag, data).await;
    }

    async fn call(self: &Arc<Self>, board: &Arc<Board>, at: usize, call: Call) -> (Outcome, bool) {
        let (asked, in_turn) = match call {
            Call::Caller(caller) => {
                let asked = UnsentJob {
                    kind: "caller",
                    fun: caller.fun,
                    arg: caller.arg,
                    ret: String::new(),
                    options: Map::new(),
                };
                // As in Salt, the next chunk begins only when this one has ended.
                (Ok(asked), true)
            }
            Call::Local(local) => (self.local(local).await, false),
            Call::Client(client) => (runner(client), false),
        };
        let outcome = match asked {
            Ok(asked) => self.done(board, at, asked, in_turn).await,
            Err(error) => failed(error),
        };
        (outcome, true)
    }

    /// Has nothing to do: a job of this machine ends within its call.
    async fn await_returns(self: &Arc<Self>, _reaction: Reaction) {}
}

/// Returns a runner as a job of this machine. A wheel function is an error, because it runs on a
/// master.
fn runner(client: Client) -> Result<UnsentJob, String> {
    let Client {
        is_wheel,
        fun,
        arg,
        kwarg,
    } = client;
    if is_wheel {
        return Err(format!(
            "failed to execute wheel '{fun}': wheel functions run only on a master"
        ));
    }
    Ok(UnsentJob {
        kind: "runner",
        fun,
        arg: modules::loader::call::joined(arg, kwarg),
        ret: String::new(),
        options: Map::new(),
    })
}

impl Reactor {
    /// Returns a job for this minion, or an error if the target does not match it.
    async fn local(self: &Arc<Self>, local: Local) -> Result<UnsentJob, String> {
        let Local {
            tgt,
            tgt_type,
            fun,
            arg,
            ret,
            options,
        } = local;
        let (this, meant) = (self.clone(), tgt.clone());
        let found = unblock(move || {
            let cx = this.context();
            ThisMachine.resolve(&cx, &meant, &tgt_type)
        });
        match found.await {
            Ok(found) if found.is_empty() => Err(format!(
                "failed to execute local '{fun}': the target {} does not match this minion, and a minion's reactor cannot target other minions",
                tgt.to_text()
            )),
            Ok(_) => Ok(UnsentJob {
                kind: "local",
                fun,
                arg,
                ret,
                options,
            }),
            Err(error) => Err(format!("failed to execute local '{fun}': {error}")),
        }
    }

    /// Runs a job, and waits for its return. A job that an earlier daemon started is not run again
    /// if its return exists.
    async fn done(
        self: &Arc<Self>,
        board: &Board,
        at: usize,
        asked: UnsentJob,
        in_turn: bool,
    ) -> Outcome {
        let jid = board.jid(at).await;
        if board.was_begun(at) {
            if let Some(data) = self.left_by(&jid).await {
                return outcome(&data);
            }
            let times = board.times_begun(at).await;
            if times >= BEGUN_MAX {
                let text = format!(
                    "{} was started {times} times, and each time the minion stopped before it finished: not starting it again",
                    asked.fun
                );
                return (State::Unknown, text);
            }
        }
        let _state_run = match asked.is_state_run() {
            // No deadline: the state run before it takes as long as it takes; it can be killed.
            true => Some(self.state_runs.acquire().await),
            false => None,
        };
        {
            let reaction = board.begun(at).await;
            keep(&**self, &reaction, true).await;
        }
        // `caller` lives until the return is here: a run that continues after a reboot is not
        // finished when its process ends.
        let (caller, returned) = bounded(1);
        let job = asked.job(jid, self.opts.id());
        let started = self.launcher.start(job, ReturnTo::Caller(caller.clone()));
        if let Err(error) = started {
            return failed(format!("cannot start the job: {error}"));
        }
        if !in_turn {
            board.began(at);
        }
        // No deadline: a job takes as long as it takes; it can be killed.
        match returned.recv().await {
            Ok(data) => outcome(&data),
            Err(_) => (State::Unknown, "the job ended without a return".to_owned()),
        }
    }

    /// Returns what a job that outlived its daemon has returned, and waits while the job still
    /// runs. Returns `None` if the job neither runs nor has left a return.
    async fn left_by(&self, jid: &str) -> Option<Map> {
        loop {
            let (opts, own) = (self.opts.clone(), jid.to_owned());
            let look = unblock(move || {
                // The order matters, because a job leaves its return before it ends.
                let is_running = runs(&own);
                (is_running, orphans::of_job(&opts, &own))
            });
            match look.await {
                (_, Some(answer)) => return Some(answer.data),
                (false, None) => return None,
                (true, None) => pause(LOOK).await,
            };
        }
    }
}

/// Returns true if the process of a job exists: its id is the last argument of its command line.
fn runs(jid: &str) -> bool {
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut words = procfs::list("/proc").filter_map(|entry| {
        let is_process = is_process(&entry.file_name().to_string_lossy());
        is_process.then(|| procfs::bytes(entry.path().join("cmdline")))
    });
    words.any(|words| {
        let mut words = words
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        words.next_back() == Some(jid.as_bytes())
    })
}

/// Returns the outcome of a chunk from the return of its job.
fn outcome(data: &Map) -> Outcome {
    let code = data.get("retcode").and_then(Value::as_int);
    let is_good = code.unwrap_or_default() == 0 && data.get("success").is_none_or(Value::is_true);
    if is_good {
        return (State::Done, String::new());
    }
    let text = data.get("return").map(Value::to_text).unwrap_or_default();
    failed(shortened(&text))
}
