//! `pinch undo`: reads the arguments, asks for confirmation, takes the lock, writes the record and
//! returns the exit code.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use ::undo::{Item, Plan, Wanted, data, done, format_plan};
use cli::binary;
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{Parsed, UNDO};
use cli::output::{Output, display};
use render::yaml::SaltYaml;
use state::compile;
use state::exec::Exec;
use state::lock::{Lock, Other};
use state::opts::Opts;
use state::record::{self, Invocation, Record};
use state::run::{RunRecord, RunState};
use value::{Map, jid, log};

use crate::confirm::is_confirmed;
use crate::{call, runs, setup};

/// The hint if there is no terminal to ask on.
const NOT_ASKED: &str = "check the changes with --dry-run, then use --yes";
/// The exit code of `--dry-run` if there is something to undo.
const SOMETHING: u8 = 2;

/// Runs `pinch undo` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, something has changed since the run, or the run cannot be undone.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&UNDO, words, undone)
}

fn undone(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let [word] = parsed.words.as_slice() else {
        return Err(Failure::new(
            Exit::Usage,
            "undo needs exactly one job id: pinch undo JID",
        ));
    };
    let mut loaded = setup::loaded(parsed, true)?;
    for (flag, value) in &parsed.given {
        loaded.opts.insert(flag.dest, value.clone());
    }
    let _first = Logger::from_opts(&loaded.opts).install();
    let how = Output::from_opts(&loaded.opts, std::io::stdout().is_terminal());
    let context = call::context(Opts::new(loaded.opts), false);
    let (cx, _) = context.map_err(|error| Failure::new(Exit::Generic, error))?;
    // Compiling the pillar registers its secrets, so that the output masks them. A broken pillar
    // does not prevent the undo.
    if let Err(error) = cx.pillar() {
        log::warning(format_args!("cannot compile the pillar: {error}"));
    }
    let undo = Undo {
        jid: named(cx.opts(), word)?,
        wanted: Wanted {
            only: parsed.all("only").map(str::to_owned).collect(),
            except: parsed.all("except").map(str::to_owned).collect(),
        },
        cx,
    };
    let plan = undo.plan()?;
    match how.outputter {
        None => binary::put(&format_plan(undo.cx.opts(), &plan)),
        Some(_) => {
            let data = data(undo.cx.opts(), &plan).into();
            binary::put(&(display(&data, None, &how, 0, &SaltYaml) + "\n"))
        }
    };
    if !plan.moved.is_empty() {
        return Err(refused(&plan));
    }
    if plan.items.is_empty() {
        return Ok(Exit::Ok.into());
    }
    if parsed.has("dry_run") || undo.cx.test {
        return Ok(SOMETHING.into());
    }
    if !parsed.has("yes") && !is_confirmed("Undo this?", NOT_ASKED)? {
        return Err(Failure::new(Exit::Generic, "nothing was changed"));
    }
    undo.act(&plan)
}

/// Returns the job id of a run. `last` is the last run that was not in test mode, because only that
/// has changed something.
fn named(opts: &Opts, word: &str) -> Result<String, Failure> {
    if word != runs::LAST {
        return runs::jid_of(opts, word);
    }
    let folder = record::folder(opts);
    let mut jids = record::jids(opts).into_iter().rev();
    let last = jids.find(|jid| {
        let start = record::start_of(&folder.join(jid));
        start.is_some_and(|start| !start.contains("test"))
    });
    last.ok_or_else(|| Failure::new(Exit::Generic, "no run is recorded"))
}

fn refused(plan: &Plan) -> Failure {
    let error = format!(
        "cannot undo run {}; nothing was changed:\n  {}",
        plan.jid,
        plan.moved.join("\n  ")
    );
    let hint = "undo the later runs first, or exclude these with --except";
    Failure::new(Exit::Generic, error).hints([hint.to_owned()])
}

struct Undo {
    cx: Exec,
    jid: String,
    wanted: Wanted,
}

impl Undo {
    fn plan(&self) -> Result<Plan, Failure> {
        let (_, recorded) = runs::recorded(self.cx.opts(), &self.jid)?;
        let path = record::folder(self.cx.opts()).join(&self.jid);
        if record::is_alive(&path) {
            let error = format!("run {} is still running", self.jid);
            return Err(Failure::new(Exit::Generic, error));
        }
        Ok(Plan::make(&self.cx, &self.jid, &recorded, &self.wanted))
    }

    /// Does what was shown, as a separate run with its own record.
    fn act(mut self, shown: &Plan) -> Result<ExitCode, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Generic, error.to_string());
        let own = jid::of_process();
        let _lock =
            Lock::take(&self.cx, &own, "undo", Other::Refuse).map_err(|error| failed(&error))?;
        // Without this hold, the pruning of kept files for this run could remove those that the
        // undo needs.
        let path = record::folder(self.cx.opts()).join(&self.jid);
        let plan = self.plan()?;
        let _held = record::held(&path);
        if !plan.moved.is_empty() {
            return Err(refused(&plan));
        }
        if names(&plan) != names(shown) {
            let error =
                "nothing was changed: the changes to undo are no longer those shown; try again";
            return Err(Failure::new(Exit::Generic, error));
        }
        let record = self.record(&own)?;
        let state = RunState {
            jid: own,
            record: RunRecord {
                record: record.clone(),
                ..RunRecord::default()
            },
            ..RunState::default()
        };
        self.cx.run = Some(Arc::new(state));
        let cx = &self.cx;
        let done = done(cx, &plan, &mut |tag, ret| {
            if let Some(record) = &record {
                record.settled(cx, "", tag, &ret);
            }
        });
        cx.barrier();
        if let Some(record) = &record {
            record.end(cx, i64::from(done.is_err()));
        }
        done.map_err(|error| {
            let hint = "fix the problem and undo again: it continues where it stopped".to_owned();
            failed(&error).hints([hint])
        })?;
        Ok(Exit::Ok.into())
    }

    /// Starts the record of the undo itself. Returns `None` if the disk takes no record, because
    /// this undo may be what makes room on it.
    fn record(&self, own: &str) -> Result<Option<Arc<Record>>, Failure> {
        let invocation = Invocation {
            jid: own,
            fun: "undo",
            args: Map::new().with("jid", self.jid.as_str()).into(),
            user: None,
        };
        match Record::start(&self.cx, &invocation, &compile::Plan::default()) {
            Ok(record) => Ok(Some(Arc::new(record))),
            Err(error) if error.is_of_disk() => {
                log::warning(format_args!("{error}: this undo cannot itself be undone"));
                Ok(None)
            }
            Err(error) => Err(Failure::new(Exit::Generic, error)),
        }
    }
}

/// Returns the names of the items that a plan changes.
fn names(plan: &Plan) -> Vec<String> {
    let items = plan.items.iter();
    items
        .map(|item| match item {
            Item::PathChange(place, _) => place.path.display().to_string(),
            Item::Resource(thing, _) => format!("{} {}", thing.word, thing.name),
        })
        .collect()
}
