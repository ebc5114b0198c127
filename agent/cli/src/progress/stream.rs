//! The output of `--out=ndjson`: one JSON object on a line for each event of a run.
//! `packaging/schemas/ndjson.schema.json` describes the objects.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use value::watch::{Event, State};
use value::{Map, Value, jid, secret, visible};

use super::lock;
use super::shown::Outcome;
use crate::output::{Return, one_line};

/// The version of the schema. Within a version, fields are only added.
const VERSION: i64 = 1;

/// The output stream.
pub(super) struct Stream {
    out: Mutex<Box<dyn Write + Send>>,
    /// True after a run's start was written. Then each of its returns is written separately.
    ran: AtomicBool,
    runs: Mutex<Vec<Tally>>,
}

/// The counts for the summary of a run.
#[derive(Default)]
struct Tally {
    jid: String,
    counts: [i64; 5],
}

fn object(event: &str) -> Map {
    Map::new()
        .with("version", VERSION)
        .with("event", event)
        .with("time", jid::stamp())
}

impl Stream {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out: Mutex::new(out),
            ran: AtomicBool::new(false),
            runs: Mutex::default(),
        }
    }

    pub(super) fn take(&self, event: Event<'_>) {
        let told = match event {
            Event::Started {
                jid,
                fun,
                test,
                chunks,
            } => self.started(jid, fun, test, chunks),
            Event::StateStarted(state) if !state.tried => state_started(state),
            Event::StateFinished { jid, tag, ret } => self.state_finished(jid, tag, ret),
            Event::Finished { jid, good } => self.finished(jid, good),
            Event::StateStarted(_) | Event::Waits(_) => return,
        };
        self.write(told);
    }

    #[expect(
        clippy::let_underscore_must_use,
        reason = "a reader that closes the pipe does not stop the run"
    )]
    fn write(&self, told: Map) {
        let line = one_line(&secret::map(told).into());
        let mut line = visible::text(&line).into_owned();
        line.push('\n');
        let mut out = lock(&self.out);
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    fn started(&self, jid: &str, fun: &str, test: bool, chunks: usize) -> Map {
        self.ran.store(true, Ordering::Relaxed);
        let mut runs = lock(&self.runs);
        let parent = runs.last().map(|run| run.jid.clone());
        runs.push(Tally {
            jid: jid.to_owned(),
            ..Tally::default()
        });
        object("run_started")
            .with("jid", jid)
            .with("parent", parent)
            .with("fun", fun)
            .with("test", test)
            .with("states", chunks)
    }

    fn state_finished(&self, jid: &str, tag: &str, ret: &Map) -> Map {
        let outcome = Outcome::from_return(ret);
        if let Some(run) = lock(&self.runs).iter_mut().find(|run| run.jid == jid)
            && let Some(count) = run.counts.get_mut(outcome as usize)
        {
            *count += 1;
        }
        object("state_finished")
            .with("jid", jid)
            .with("tag", tag)
            .with("outcome", outcome.word())
            .with("return", ret.clone())
    }

    fn finished(&self, jid: &str, good: bool) -> Map {
        let mut runs = lock(&self.runs);
        let at = runs.iter().position(|run| run.jid == jid);
        let counts = at.map(|at| runs.remove(at).counts).unwrap_or_default();
        let words = [
            Outcome::Ok,
            Outcome::Changed,
            Outcome::Would,
            Outcome::Skipped,
            Outcome::Failed,
        ];
        let counts = words.into_iter().map(|outcome| {
            let count = counts.get(outcome as usize).copied().unwrap_or_default();
            (outcome.word(), Value::from(count))
        });
        object("run_finished")
            .with("jid", jid)
            .with("success", good)
            .with("counts", counts.collect::<Value>())
    }

    /// Writes the return of a call that ran no states or was refused.
    pub(super) fn returned(&self, answer: &Return) {
        if !self.ran.load(Ordering::Relaxed) {
            let told = object("returned")
                .with("retcode", answer.retcode)
                .with("return", answer.value.clone());
            self.write(told);
        }
    }
}

fn state_started(state: State<'_>) -> Map {
    object("state_started")
        .with("jid", state.jid)
        .with("tag", state.tag)
        .with("id", state.id)
        .with("name", state.name)
        .with("function", format!("{}.{}", state.state, state.fun))
        .with("sls", state.sls)
}
