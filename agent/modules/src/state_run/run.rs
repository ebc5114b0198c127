//! The last step: runs the plan, and ends its record.

use state::run;
use value::Value;
use value::watch::{self, Event};

use super::orchestrate::check_result;
use super::prepare::Prepared;
use super::record::Recorded;
use super::{Request, retcode};

/// A run that has ended. It holds the lock until its return is taken.
pub(super) struct Finished {
    run: Prepared,
    /// The return of each chunk.
    returns: Value,
    /// True if no state failed.
    is_good: bool,
}

impl Recorded {
    /// Runs the plan. A nested run does not end the record, which is the outer run's.
    pub(super) fn run(self) -> Finished {
        let Self { run, plan, record } = self;
        let own = record.record.clone().filter(|_| run.cx.run.is_none());
        let returns = run::run_recorded(&run.cx, &plan, record, run.jid());
        let returns = Value::Map(returns);
        let is_good = check_result(&returns);
        if run.is_whole_highstate() {
            run.cx.shared.sources.keep();
        }
        if let Some(own) = own {
            own.end(&run.cx, code(is_good));
        }
        watch::tell(Event::Finished {
            jid: run.jid(),
            good: is_good,
        });
        Finished {
            run,
            returns,
            is_good,
        }
    }
}

impl Prepared {
    /// Returns whether the run applied the highstate as the top files and the pillar define it.
    fn is_whole_highstate(&self) -> bool {
        let Request {
            mods,
            exclude,
            pillar,
            saltenv,
            pillarenv,
            ..
        } = &self.request;
        let is_own = mods.is_none() && exclude.is_none() && pillar.is_none();
        matches!(self.request.fun, "state.apply" | "state.highstate")
            && is_own
            && saltenv.is_none()
            && pillarenv.is_none()
            && self.earlier.is_none()
            && !self.cx.test
            && self.cx.run.is_none()
    }
}

impl Finished {
    /// Sets the exit code and returns the run's return.
    pub(super) fn into_return(self) -> Value {
        self.run.cx.set_retcode(code(self.is_good));
        match self.run.request.terse {
            true => terse(&self.returns),
            false => self.returns,
        }
    }
}

fn code(is_good: bool) -> i64 {
    if is_good { 0 } else { retcode::FAILED }
}

/// Keeps only the returns that failed or changed something.
fn terse(returns: &Value) -> Value {
    let tells = |ret: &Value| {
        let good = ret.get("result").is_some_and(Value::is_true);
        !good || ret.get("changes").is_some_and(Value::is_true)
    };
    let running = returns.as_map().into_iter().flatten();
    running
        .filter(|(_, ret)| tells(ret))
        .map(|(tag, ret)| (tag.clone(), ret.clone()))
        .collect()
}
